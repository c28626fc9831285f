"""Lines of Claude's transcripts as tests make them: prompts, parts of answers, results of tools."""

from __future__ import annotations

import itertools
import json
from typing import Any

Json = dict[str, Any]
SESSION = "550e8400-e29b-41d4-a716-446655440000"
_seconds = itertools.count()


def entry(kind: str, uuid: str, parent: str | None, **facts: Any) -> Json:
    """A line of a transcript."""
    at = next(_seconds)
    stamp = f"2026-01-05T{at // 3600 % 24:02}:{at // 60 % 60:02}:{at % 60:02}.000Z"
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "timestamp": stamp, **facts}


def prompt(uuid: str, parent: str | None, text: str, **facts: Any) -> Json:
    """What somebody said."""
    return entry("user", uuid, parent, message={"role": "user", "content": text}, **facts)


def answer(uuid: str, parent: str | None, message_id: str, *blocks: Json, **facts: Any) -> Json:
    """A part of the model's answer ``message_id``."""
    message = {"role": "assistant", "id": message_id, "model": "claude", "content": list(blocks), "usage": {}}
    return entry("assistant", uuid, parent, message=message, **facts)


def call(call_id: str, name: str, **args: Any) -> Json:
    """A part that calls a tool."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": args}


def result(uuid: str, parent: str, call_id: str, content: Any, *, is_error: bool = False, **facts: Any) -> Json:
    """What a tool gave."""
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}
    return entry("user", uuid, parent, message={"role": "user", "content": [block]}, **facts)


def transcript(lines: list[Json]) -> str:
    """The lines as a file has them."""
    return "".join(json.dumps(line) + "\n" for line in lines)
