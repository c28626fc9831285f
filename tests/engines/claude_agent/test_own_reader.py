"""Our reading of Claude's transcripts against the SDK's own: the same messages in the same order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.sources.claude_agent.chain import KINDS, Entry, session_of
from tests.sources.claude_transcripts import SESSION, answer, call, entry, prompt, result, transcript

sdk: Any = pytest.importorskip("claude_agent_sdk", reason="needs pip install claude-agent-sdk")
Json = dict[str, Any]


def by_the_sdk(lines: list[Json], home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the session's messages, as the SDK reads them from its folder."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
    folder = home / "projects" / "-work"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{SESSION}.jsonl").write_text(transcript(lines), encoding="utf-8")
    return [message.uuid for message in sdk.get_session_messages(SESSION)]


def by_us(lines: list[Json]) -> list[str]:
    """The same, by our rules; what nobody sees is left out when it is told."""
    entries = [Entry(number, line) for number, line in enumerate(lines, 1)]
    chain = session_of([one for one in entries if one.kind in KINDS and one.uuid])
    return [one.uuid for one in chain if not one.is_apart]


def grown(seed: int) -> list[Json]:
    """A session that went on at random: answers in parts, parallel calls, branches, subagents, entries of the CLI."""
    choose = random.Random(seed)
    lines = [prompt("u0", None, "go")]
    tip, number = "u0", 0
    spoken = ["u0"]
    for turn in range(choose.randint(1, 8)):
        if choose.random() < 0.25:
            tip = choose.choice(spoken)  # the session goes on from an earlier message
            number += 1
            lines.append(prompt(f"p{number}", tip, "again"))
            tip = f"p{number}"
        calls = choose.randint(0, 3)
        links = []
        for part in range(max(calls, 1)):
            number += 1
            uuid = f"a{number}"
            block = call(f"t{number}", "Read", n=part) if calls else {"type": "text", "text": "ok"}
            lines.append(answer(uuid, tip, f"m{turn}-{seed}", block))
            links.append((uuid, f"t{number}"))
            tip = uuid
        spoken.append(tip)
        results = []
        for uuid, call_id in choose.sample(links, len(links)) if calls else []:
            if choose.random() < 0.9:
                number += 1
                lines.append(result(f"r{number}", uuid, call_id, "x"))
                results.append(f"r{number}")
        tip = choose.choice(results) if results else tip
        if choose.random() < 0.3:
            number += 1
            lines.append(entry("system", f"s{number}", tip))
            tip = f"s{number}"
        if choose.random() < 0.2:
            number += 1
            lines.append(prompt(f"x{number}", None, "side", isSidechain=True))
        if choose.random() < 0.2:
            number += 1
            lines.append(prompt(f"y{number}", tip, "meta", isMeta=True))
            tip = f"y{number}" if choose.random() < 0.5 else tip
    return lines


@pytest.mark.parametrize("seed", range(120))
def test_random_sessions_read_as_the_sdk_reads_them(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever branches, parallel calls and entries of others a transcript has."""
    lines = grown(seed)
    assert by_us(lines) == by_the_sdk(lines, tmp_path, monkeypatch)
