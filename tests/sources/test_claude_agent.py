"""Claude's transcripts: branches, parallel calls, subagents, the messages of a query, and damaged files.

The format is what the package claude-agent-sdk reads; ``tests/engines/claude_agent`` holds ours against it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_loom import Log, LogError
from pytest_loom.sources import iter_file
from pytest_loom.sources.claude_agent import source
from tests.sources.claude_transcripts import SESSION, answer, call, entry, prompt, result, transcript
from tests.sources.wrong_types import spoiled

Json = dict[str, Any]


def read(lines: list[Json] | str, folder: Path) -> Log:
    """The log of a transcript."""
    path = folder / f"{SESSION}.jsonl"
    path.write_text(lines if isinstance(lines, str) else transcript(lines), encoding="utf-8")
    (found,) = iter_file(path)
    assert isinstance(found, Log), found
    return found


def tools(log: Log) -> list[tuple[str, Any, str, Any]]:
    """Name, arguments, status and output of each tool call."""
    return [(call.name, call.args, call.status, call.output) for call in log.state.calls if call.kind == "tool"]


def models(log: Log) -> int:
    """How many answers of a model there are."""
    return sum(call.kind == "model" for call in log.state.calls)


class TestSession:
    def test_a_session_with_a_tool(self, tmp_path: Path) -> None:
        """The prompt is the input, the last answer the output; the parts of an answer are one call of the model."""
        log = read(
            [
                {"type": "summary", "summary": "x", "leafUuid": "u4"},
                prompt("u1", None, "refund A-17"),
                answer("u2", "u1", "m1", {"type": "text", "text": "let me look"}),
                answer("u3", "u2", "m1", call("t1", "Read", file="a")),
                result("u4", "u3", "t1", [{"type": "text", "text": "content"}]),
                answer("u5", "u4", "m2", {"type": "text", "text": "done"}),
                prompt("u6", "u5", "thanks"),
                answer("u7", "u6", "m3", {"type": "text", "text": "welcome"}),
            ],
            tmp_path,
        )
        state = log.state
        assert (log.execution_id, log.workflow_id, log.engine) == (SESSION, "unknown", "trace")
        assert (state.status, state.variables["_input"], state.variables["_output"]) == (
            "completed",
            "refund A-17",
            "welcome",
        )
        assert tools(log) == [("Read", {"file": "a"}, "completed", "content")]
        assert models(log) == 3
        assert [one.payload for one in state.received] == [{"content": "thanks"}]
        assert log.notices == ("lines of kinds that are no messages are left out: summary",)

    def test_the_branch_with_the_last_message_is_the_session(self, tmp_path: Path) -> None:
        """A prompt that was edited starts another branch: what came of the first is no part of the run."""
        log = read(
            [
                prompt("u1", None, "one"),
                answer("u2", "u1", "m1", call("old", "Bash", command="rm")),
                result("u3", "u2", "old", "gone"),
                prompt("u4", None, "two"),
                answer("u5", "u4", "m2", call("new", "Bash", command="ls")),
                result("u6", "u5", "new", "a"),
                answer("u7", "u6", "m3", {"type": "text", "text": "there"}),
            ],
            tmp_path,
        )
        assert tools(log) == [("Bash", {"command": "ls"}, "completed", "a")]
        assert log.state.variables["_input"] == "two"

    def test_parallel_calls_are_put_back(self, tmp_path: Path) -> None:
        """The branch goes on from one result; the other calls of the answer, and their results, are part of the run."""
        log = read(
            [
                prompt("u1", None, "go"),
                answer("a1", "u1", "m1", call("t1", "Read", n=1)),
                answer("a2", "a1", "m1", call("t2", "Read", n=2)),
                answer("a3", "a2", "m1", call("t3", "Read", n=3)),
                result("r1", "a1", "t1", "one"),
                result("r2", "a2", "t2", "two", is_error=True),
                result("r3", "a3", "t3", "three"),
                answer("u9", "r2", "m2", {"type": "text", "text": "done"}),
            ],
            tmp_path,
        )
        assert sorted((args["n"], status) for _, args, status, _ in tools(log)) == [
            (1, "completed"),
            (2, "failed"),
            (3, "completed"),
        ]
        assert models(log) == 2

    def test_subagents_have_a_namespace(self, tmp_path: Path) -> None:
        """What a subagent did stands in its own file, or in older ones beside the session's entries."""
        side: Json = {"isSidechain": True}
        log = read(
            [
                prompt("u1", None, "go"),
                answer("u2", "u1", "m1", call("t1", "Task", prompt="look")),
                prompt("s1", None, "look", **side),
                answer("s2", "s1", "sm1", call("s-t", "Grep", pattern="x"), **side),
                result("s3", "s2", "s-t", "found", **side),
                answer("s4", "s3", "sm2", {"type": "text", "text": "found it"}, **side),
                result("u3", "u2", "t1", "found it"),
                answer("u4", "u3", "m2", {"type": "text", "text": "done"}),
            ],
            tmp_path,
        )
        spaces = [(one.payload["name"], one.namespace) for one in log.events if one.event_type == "TOOL_REQUESTED"]
        assert spaces == [("Task", None), ("Grep", "sidechain-1")]
        assert (log.state.variables["_output"], models(log)) == ("done", 4)
        alone = read(
            [prompt("s1", None, "look", agentId="A", **side), answer("s2", "s1", "m", agentId="A", **side)], tmp_path
        )
        assert alone.execution_id == f"{SESSION}/A"

    def test_what_nobody_said_is_left_out(self, tmp_path: Path) -> None:
        """Entries that the CLI adds for the model are no prompts; a compaction's summary is told as one."""
        log = read(
            [
                prompt("u1", None, "caveat", isMeta=True),
                prompt("u2", "u1", "go"),
                answer("u3", "u2", "m1", {"type": "text", "text": "ok"}),
                entry("system", "u4", "u3", subtype="compact_boundary"),
                prompt("u5", None, "so far: ok", isCompactSummary=True, logicalParentUuid="u3"),
                answer("u6", "u5", "m2", {"type": "text", "text": "on"}),
            ],
            tmp_path,
        )
        assert log.state.variables["_input"] == "so far: ok"
        assert [one.event_type for one in log.state.received] == ["ContextCompacted"]
        assert models(log) == 1

    def test_a_call_under_way_is_no_end(self, tmp_path: Path) -> None:
        """A session that stops in a tool, or before an answer, is not over."""
        log = read([prompt("u1", None, "go"), answer("u2", "u1", "m1", call("t", "Bash", command="sleep"))], tmp_path)
        assert (log.state.status, tools(log)[0][2]) == ("running", "requested")


class TestQuery:
    def test_the_messages_of_a_query(self, tmp_path: Path) -> None:
        """What ``--output-format stream-json`` prints: its result is how the run ended."""
        paid = {"type": "tool_result", "tool_use_id": "t", "content": "paid"}
        asked = {"role": "assistant", "id": "m1", "model": "m", "content": [call("t", "Pay", cents=5)]}
        lines: list[Json] = [
            {"type": "system", "subtype": "init", "session_id": "q"},
            {"type": "assistant", "session_id": "q", "parent_tool_use_id": None, "message": asked},
            {"type": "user", "session_id": "q", "message": {"role": "user", "content": [paid]}},
            {"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "q"},
        ]
        log = read(lines, tmp_path)
        assert tools(log) == [("Pay", {"cents": 5}, "completed", "paid")]
        assert (log.execution_id, log.state.status, log.state.variables["_output"]) == ("q", "completed", "done")

    @pytest.mark.parametrize(
        ("result", "status"),
        [
            ({"subtype": "error_max_turns", "is_error": True}, "failed"),
            (
                {"subtype": "success", "deferred_tool_use": {"id": "t", "name": "Pay", "input": {"cents": 5}}},
                "suspended",
            ),
        ],
    )
    def test_other_ends(self, result: Json, status: str, tmp_path: Path) -> None:
        """A query that failed, and one that a hook has put off until somebody decides about a call."""
        message = {"role": "assistant", "id": "m1", "model": "m", "content": [call("t", "Pay", cents=5)]}
        lines = [
            {"type": "assistant", "session_id": "q", "message": message},
            {"type": "result", "session_id": "q", **result},
        ]
        log = read(lines, tmp_path)
        assert log.state.status == status
        if status == "suspended":
            assert log.state.suspension is not None
            assert log.state.suspension.pending == {"callId": "t", "name": "Pay", "args": {"cents": 5}}


class TestDamage:
    def test_a_torn_last_line_is_left_out(self, tmp_path: Path) -> None:
        """The CLI may be writing it: what came before is read, and the log says so."""
        whole = transcript([prompt("u1", None, "go"), answer("u2", "u1", "m1", {"type": "text", "text": "ok"})])
        log = read(whole + transcript([prompt("u3", "u2", "more")])[:-20], tmp_path)
        assert log.state.variables["_output"] == "ok"
        assert log.notices == ("line 3, the last one, is cut off: it was left out",)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (transcript([prompt("u1", "u2", "a"), prompt("u2", "u1", "b")]), "in a circle"),
            (transcript([prompt("u1", "u1", "a")]), "in a circle"),
            (transcript([prompt("u1", None, "a")]) + "{]\n" + transcript([prompt("u2", "u1", "b")]), "line 2: "),
            (transcript([prompt("u1", None, "a")]) + "[]\n", "line 2 is no object"),
            (transcript([entry("system", "u1", None)]), "no message"),
            (transcript([answer("u1", None, "m", {"type": "tool_use", "id": "x"})]), "a tool_use has no name"),
        ],
    )
    def test_damage_is_named(self, text: str, words: str, tmp_path: Path) -> None:
        """Circles, broken lines and files without a message are a LogError that says what is wrong."""
        path = tmp_path / "x.jsonl"
        path.write_text(text, encoding="utf-8")
        (item,) = source.read(path)
        assert isinstance(item, LogError)
        assert words in item.what

    def test_ids_that_come_twice(self, tmp_path: Path) -> None:
        """An entry that was written again counts once, with what it said last."""
        log = read([prompt("u1", None, "a"), prompt("u1", None, "b"), answer("u2", "u1", "m1")], tmp_path)
        assert log.state.variables["_input"] == "b"

    def test_a_long_tangle_takes_no_longer(self, tmp_path: Path) -> None:
        """Thousands of ends that all hang on one long chain are looked at once each."""
        links = [entry("system", f"s{n}", f"s{n - 1}" if n else None) for n in range(3000)]
        ends = [entry("system", f"e{n}", "s2999") for n in range(3000)]
        log = read([prompt("u1", None, "go"), answer("u2", "u1", "m1"), *links, *ends], tmp_path)
        assert models(log) == 1

    def test_wrong_types_never_crash(self, tmp_path: Path) -> None:
        """Any value in place of any other gives a log or a LogError."""
        good = [
            prompt("u1", None, "go"),
            answer("u2", "u1", "m1", call("t1", "Read", n=1)),
            result("u3", "u2", "t1", [{"type": "text", "text": "x"}]),
            prompt("s1", None, "side", isSidechain=True),
            answer("u4", "u3", "m2", {"type": "text", "text": "done"}),
        ]
        path = tmp_path / "x.jsonl"
        for number, line in enumerate(good):
            for broken in spoiled(line):
                path.write_text(transcript([*good[:number], broken, *good[number + 1 :]]), encoding="utf-8")
                for item in source.read(path):
                    assert isinstance(item, LogError) or item.state
