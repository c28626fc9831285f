"""What a JSON file holds of Pydantic AI: histories, deferred requests and graph snapshots, wherever they stand in it.

Applications keep a history as they like: the bare list of messages, a list or an object of several, or an object of
their own with the pending ``DeferredToolRequests`` beside it (``Conversation`` of 2.x is such an object). So lists of
messages are told by what they hold, not by the key that they stand under.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import Log
from pytest_loom.log.read import paused_gc

Kind = Literal["history", "requests", "graph"]

MAX_WRAPPING = 4
"""How deep in objects and lists of an application's own a history may stand."""

_ID_KEYS = ("conversation_id", "session_id", "thread_id", "run_id", "id")
_STATUSES = ("created", "pending", "running", "success", "error")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)", re.ASCII)
_FIRST_MESSAGE = re.compile(rb'\[\s*\{\s*"parts"\s*:\s*\[\s*\{\s*"(?:content|tool_name|part_kind)"')
_MESSAGE_KIND = re.compile(rb'"kind"\s*:\s*"(?:request|response)"')
_REQUEST_LISTS = re.compile(rb'"(?:approvals|calls)"\s*:\s*\[')


class Malformed(Exception):
    """What is wrong with a run, and with which of its messages or snapshots (counted from 1; 0 for none of them)."""

    def __init__(self, what: str, number: int = 0) -> None:
        super().__init__(what)
        self.what = what
        self.number = number


@dataclass
class Record:
    """One run as it stands in a file: the list ``value``, and the ``requests`` that were kept beside a history."""

    kind: Kind
    value: list[Any]
    execution_id: str = ""
    path: str = ""
    requests: dict[str, Any] | None = None
    around: dict[str, Any] = field(default_factory=dict)

    def error(self, problem: Malformed) -> LogError:
        """``problem`` as what the source hands out."""
        thing = "snapshot" if self.kind == "graph" else "message"
        place = f"{thing} {problem.number}: " if problem.number else ""
        return LogError(
            f"not a readable {_NAMES[self.kind]}: {place}{problem.what}",
            path=self.path,
            line=problem.number,
            execution_id=self.execution_id,
            hint=f"Save it again with {_WRITERS[self.kind]}, or take it out of the corpus if it is no run.",
        )


_NAMES = {"history": "message history", "requests": "list of deferred requests", "graph": "graph persistence file"}
_WRITERS = {
    "history": "result.all_messages_json()",
    "requests": "TypeAdapter(DeferredToolRequests).dump_json(...)",
    "graph": "FileStatePersistence",
}


class _Found(NamedTuple):
    kind: Kind
    value: list[Any]
    name: str
    requests: dict[str, Any] | None
    around: dict[str, Any]


def looks_like_ours(head: bytes) -> bool:
    """Whether ``head``, the first 64 KiB of a file, begins anything that this source reads."""
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head[:1] not in (b"[", b"{") or b'"executionId"' in head:
        return False
    if b'"part_kind"' in head and (_MESSAGE_KIND.search(head) or _REQUEST_LISTS.search(head)):
        return True
    if _FIRST_MESSAGE.match(head):  # its first content may be larger than the head
        return True
    ends = b'"kind":"end"' in head.replace(b" ", b"") and b'"result"' in head
    return b'"state"' in head and ((b'"node_id"' in head and b'"start_ts"' in head) or ends)


def parse_document(data: bytes, path: Path) -> list[Record]:
    """Every run in a file. Raises LogError where the file is not JSON or holds none."""
    try:
        with paused_gc():
            document = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
            found = list(_distinct(_search(document, "", 0)))
    except RecursionError:
        raise LogError("it is nested too deep to be a message history", path=str(path)) from None
    except ValueError as problem:
        raise LogError(
            f"not a readable message history: it is not JSON ({problem})",
            path=str(path),
            hint="The file may be cut off. Save it again, or take it out of the corpus if it is no run.",
        ) from None
    if not found:
        raise LogError(
            "it holds no message history, no deferred requests and no graph snapshots",
            path=str(path),
            hint="Keep the list that result.all_messages_json() gives, alone or in an object of your own.",
        )
    stem = path.name.removesuffix(".gz").removesuffix(".json") or "unknown"
    names: list[str] = []
    for number, item in enumerate(found, 1):
        name = stem if len(found) == 1 else item.name or f"{stem}#{number}"
        names.append(name if name not in names else f"{name}#{number}")
    return [
        Record(item.kind, item.value, name, str(path), item.requests, item.around)
        for item, name in zip(found, names, strict=True)
    ]


def _search(value: Any, name: str, depth: int) -> Iterator[_Found]:
    if depth > MAX_WRAPPING:
        return
    if isinstance(value, list):
        kind = _kind_of(value)
        if kind is not None:
            yield _Found(kind, value, name, None, {})
            return
        for inner in value:
            if isinstance(inner, (dict, list)):
                yield from _search(inner, "", depth + 1)
    elif isinstance(value, dict):
        yield from _in_object(value, name, depth)


def _in_object(value: dict[str, Any], name: str, depth: int) -> Iterator[_Found]:
    if is_requests(value):
        yield _Found("requests", [], name, value, {})
        return
    name = next((value[key] for key in _ID_KEYS if isinstance(value.get(key), str) and value[key]), name)
    lists = {key: inner for key, inner in value.items() if isinstance(inner, list) and _kind_of(inner)}
    lists = {key: inner for key, inner in lists.items() if not _is_part_of_another(key, lists)}
    asked = [inner for inner in value.values() if isinstance(inner, dict) and is_requests(inner)]
    around = {key: inner for key, inner in value.items() if isinstance(inner, (str, int, float, bool))}
    if len(lists) == 1:
        ((_, only),) = lists.items()
        yield _Found(_kind_of(only) or "history", only, name, asked[0] if asked else None, around)
    elif lists:
        for key, inner in lists.items():
            yield _Found(_kind_of(inner) or "history", inner, key, None, {})
    else:
        deeper = [
            found
            for key, inner in value.items()
            if isinstance(inner, (dict, list)) and not (isinstance(inner, dict) and is_requests(inner))
            for found in _search(inner, key if depth == 0 and not name else name, depth + 1)
        ]
        if len(deeper) == 1 and asked:  # the result of a run as a whole: its output beside its state
            deeper = [deeper[0]._replace(requests=deeper[0].requests or asked[0])]
        elif not deeper and asked:
            deeper = [_Found("requests", [], name, asked[0], around)]
        yield from deeper


def _is_part_of_another(key: str, lists: dict[str, list[Any]]) -> bool:
    """Whether a list is the beginning or the end of another, as new messages are of all messages."""
    mine = lists[key]
    return any(
        other != key
        and (len(all_), other) > (len(mine), key)
        and (all_[: len(mine)] == mine or all_[len(all_) - len(mine) :] == mine)
        for other, all_ in lists.items()
    )


def _distinct(found: Iterator[_Found]) -> Iterator[_Found]:
    """Each run once, though several keys may hold it."""
    seen: set[int] = set()
    for item in found:
        key = id(item.value) if item.value else id(item.requests)
        if key not in seen:
            seen.add(key)
            yield item


def _kind_of(value: list[Any]) -> Kind | None:
    if any(
        isinstance(item, dict) and "parts" in item and item.get("kind") in ("request", "response") for item in value
    ):
        return "history"
    if any(isinstance(item, dict) and _is_snapshot(item) for item in value):
        return "graph"
    return None


def _is_snapshot(item: dict[str, Any]) -> bool:
    if "state" not in item:
        return False
    node = item.get("node")
    named = isinstance(node, dict) and "node_id" in node and item.get("status") in _STATUSES
    return named or (item.get("kind") == "end" and "result" in item)


def is_requests(value: dict[str, Any]) -> bool:
    """Whether an object is a ``DeferredToolRequests``: lists of tool calls that wait."""
    lists = [value[key] for key in ("approvals", "calls") if isinstance(value.get(key), list)]
    calls = [call for calls in lists for call in calls]
    if not lists or not all(isinstance(call, dict) and "tool_name" in call for call in calls):
        return False
    return bool(calls) or value.keys() >= {"approvals", "calls"}


class Part:
    """An object of a history or snapshot, read with its number at hand for messages about it."""

    __slots__ = ("number", "value")

    def __init__(self, value: Any, number: int, what: str) -> None:
        if not isinstance(value, dict):
            raise Malformed(f"{what} is {kind_of(value)}, not an object", number)
        self.value: dict[str, Any] = value
        self.number = number

    def text(self, key: str) -> str:
        """A text; "" where there is none. Raises Malformed for anything else."""
        value = self.value.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise Malformed(f"{key} is {kind_of(value)}, not text", self.number)
        return value

    def items(self, key: str) -> list[Any]:
        """A list. Raises Malformed where there is none."""
        value = self.value.get(key)
        if not isinstance(value, list):
            raise Malformed(f"{key} is {kind_of(value)}, not a list", self.number)
        return value

    def moment(self, *keys: str) -> str:
        """The first of these that is an RFC 3339 time, else ""."""
        for key in keys:
            value = self.value.get(key)
            if isinstance(value, str) and _MOMENT.fullmatch(value):
                return value
        return ""


def kind_of(value: object) -> str:
    """What a JSON value is, in words."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "missing"}
    return names.get(type(value), "a number")


def read_or_error(record: Record, read: Callable[[Record], Log]) -> Log | LogError:
    """What ``read`` makes of a record; a LogError that says what is wrong with it, never an exception."""
    try:
        return read(record)
    except Malformed as problem:
        return record.error(problem)
    except LogError as error:
        error.execution_id = error.execution_id or record.execution_id
        return error
    except (RecursionError, OverflowError, ValueError) as problem:
        return record.error(Malformed(printable(f"{type(problem).__name__}: {problem}")))
