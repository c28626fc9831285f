"""``pytest-loom show``: the timeline, the state after an event, the rounds of a step, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from pytest_loom import LogBuilder
from pytest_loom.cli.output import ERROR, FINDING, OK
from pytest_loom.cli.timeline import duration
from pytest_loom.log.event import Log
from tests.cli.conftest import DAY, START, Desk, made


def polling(rounds: int = 3) -> Log:
    """A run that polls, a day between the rounds."""
    builder = LogBuilder("order-17", "refund")
    builder.add("EXECUTION_STARTED", {"input": {"order": 17}}, timestamp=START)
    for number in range(rounds):
        now = START + number * DAY
        builder.add("STEP_STARTED", {"stepId": "poll", "input": {"cursor": number, "of": "A"}}, timestamp=now)
        builder.add("STEP_COMPLETED", {"stepId": "poll", "output": "open"}, timestamp=now + 1500)
        builder.add("EXECUTION_SUSPENDED", {"on": "NextDay", "kind": "timer", "timeoutMs": DAY}, timestamp=now + 2000)
        builder.add("NextDay", {}, timestamp=now + DAY)
        builder.add("EXECUTION_RESUMED", {"eventType": "NextDay"}, timestamp=now + DAY)
    builder.add("EXECUTION_COMPLETED", {"output": "paid"}, timestamp=START + rounds * DAY)
    return builder.log()


def test_the_timeline(desk: Desk) -> None:
    """Each event is a line: its number, the time since the start, what happened, rounds told apart, what was said."""
    desk.log("one", polling(2))
    done = desk("show", "runs/one.loom.jsonl")
    assert (done.status, done.err) == (OK, "")
    assert done.out.splitlines() == [
        "refund order-17: completed",
        "12 events in 2 d 00 h, journal, runs/one.loom.jsonl",
        '   1           0  starts  {"order": 17}',
        '   2           0  poll starts  {"cursor": 0, "of": "A"}',
        '   3      +1.5 s  poll done  "open"',
        "   4      +2.0 s  waits for NextDay (timer, within 1 d 00 h)",
        "   5   +1 d 00 h  NextDay",
        "   6   +1 d 00 h  goes on, by NextDay",
        '   7   +1 d 00 h  poll#2 starts  {"cursor": 1, "of": "A"}',
        '   8   +1 d 00 h  poll#2 done  "open"',
        "   9   +1 d 00 h  waits for NextDay (timer, within 1 d 00 h)",
        "  10   +2 d 00 h  NextDay",
        "  11   +2 d 00 h  goes on, by NextDay",
        '  12   +2 d 00 h  completed  "paid"',
    ]


KINDS: list[tuple[str, dict[str, Any], str]] = [
    (
        "STEP_FAILED",
        {"stepId": "pay", "error": {"type": "E", "message": "no"}, "willRetry": True},
        "pay FAILED, and",
    ),
    ("STEP_STARTED", {"stepId": "pay", "attempt": 2}, "pay starts, attempt 2"),
    ("STEP_FAILED", {"stepId": "pay", "error": {"type": "E", "message": "no"}}, "pay FAILED  E: no"),
    ("TOOL_REQUESTED", {"callId": "1", "name": "look", "args": {"a": 1}}, 'tool look asked  {"a": 1}'),
    ("TOOL_COMPLETED", {"callId": "1", "output": 5}, "tool look answers  5"),
    ("MODEL_REQUESTED", {"callId": "2", "model": "m-1", "request": {}}, "model m-1 asked  {}"),
    ("MODEL_FAILED", {"callId": "2", "error": {"type": "T", "message": "x"}}, "model m-1 FAILED  T: x"),
    ("DECISION_RECORDED", {"key": "now", "value": "2026"}, 'decided now  "2026"'),
    ("STATE_SNAPSHOT", {"stateSchemaVersion": 3, "state": {"a": 1}}, 'state of version 3  {"a": 1}'),
    ("PLAN_RECORDED", {"planSchemaVersion": 1, "plan": ["a"]}, 'plan of version 1  ["a"]'),
    ("EXECUTION_MIGRATED", {"strategy": "replay-check"}, 'taken over to another version  {"strategy": "repl'),
    ("EXECUTION_FORKED", {"parentExecutionId": "p-1", "atSequence": 4}, "forked from p-1 at event 4"),
    ("EXECUTION_CONTINUED", {"newExecutionId": "n-1", "input": 5}, "goes on as n-1  5"),
    ("EXECUTION_FAILED", {"error": {"type": "E", "message": "broke"}}, "FAILED  E: broke"),
    ("EXECUTION_CANCELLED", {"reason": "asked to"}, 'cancelled  "asked to"'),
    ("RefundDecided", {"approved": True}, 'RefundDecided  {"approved": true}'),
]


def test_every_kind_in_words(desk: Desk) -> None:
    """Every kind of event is said in words, with the one value that matters."""
    desk.log("one", made(steps=(), more=[(kind, payload) for kind, payload, _ in KINDS]))
    lines = desk("show", "runs/one.loom.jsonl").out.splitlines()[3:]
    for (_, _, words), line in zip(KINDS, lines, strict=False):
        assert line[18:].startswith(words), line


def test_pieces_of_a_stream_are_one_line(desk: Desk) -> None:
    """A hundred pieces that follow upon each other take one line; those of another step another."""
    pieces: list[Any] = [("STEP_PROGRESS", {"stepId": "ask", "chunk": f"word {number}"}) for number in range(100)]
    more = [("STEP_STARTED", {"stepId": "ask"}), *pieces, ("STEP_COMPLETED", {"stepId": "ask", "output": 1})]
    desk.log("one", made(steps=(), more=more))
    lines = desk("show", "runs/one.loom.jsonl").out.splitlines()
    assert [line for line in lines if "piece" in line] == ['   3      +2.0 s  ask gives 100 pieces  "word 0"']
    assert lines[-1].startswith(" 104 ")


def test_the_state_after_an_event(desk: Desk) -> None:
    """``--at`` folds the log up to that event: what was waited for then, which steps were done, what was known."""
    desk.log("one", polling())
    done = desk("show", "runs/one.loom.jsonl", "--at", 9)
    assert done.status == OK
    lines = done.out.splitlines()
    assert lines[0] == "refund order-17: suspended after event 9 of 17"
    assert 'input       {"order": 17}' in lines
    assert '  poll#2  completed  "open"' in lines
    assert "  NextDay (timer, within 1 d 00 h), since event 9" in lines
    assert not any("poll#3" in line for line in lines)
    state = desk("show", "runs/one.loom.jsonl", "--at", 9, "--json").json["state"]
    assert (state["status"], list(state["frames"])) == ("suspended", ["poll", "poll#2"])
    for number in (0, 18, -1):
        done = desk("show", "runs/one.loom.jsonl", "--at", number)
        assert (done.status, "The run has events 1 to 17" in done.err) == (ERROR, True)


def test_the_rounds_of_a_step(desk: Desk) -> None:
    """``--step`` follows a loop: what went into each round and came out, told by what changed since the one before."""
    desk.log("one", polling())
    done = desk("show", "runs/one.loom.jsonl", "--step", "poll")
    assert done.status == OK
    assert done.out.splitlines()[2:9] == [
        "poll  completed  events 2 to 3, 1.5 s",
        '  input   {"cursor": 0, "of": "A"}',
        '  output  "open"',
        "poll#2  completed  events 7 to 8, 1.5 s",
        "  input   cursor: 0 -> 1",
        "  output  as the round before",
        "poll#3  completed  events 12 to 13, 1.5 s",
    ]
    only = desk("show", "runs/one.loom.jsonl", "--step", "poll#2", "--json").json
    assert [(one["key"], one["events"]) for one in only["rounds"]] == [("poll#2", [7, 8])]
    done = desk("show", "runs/one.loom.jsonl", "--step", "pol")
    assert (done.status, "Its steps: poll." in done.err) == (ERROR, True)


def test_several_runs_are_listed_and_one_is_chosen(desk: Desk) -> None:
    """A place with several runs is listed; ``--run`` takes an id or the one way in which an id begins."""
    desk.log("a", made("order-17"))
    desk.log("b", made("order-18", waits="Approved"))
    done = desk("show", "runs")
    assert done.status == OK
    assert [line.split() for line in done.out.splitlines()] == [
        ["completed", "6", "events", "refund", "order-17"],
        ["suspended", "6", "events", "refund", "order-18"],
    ]
    assert desk("show", "runs", "--run", "order-18").out.startswith("refund order-18: suspended")
    done = desk("show", "runs", "--run", "order-1")
    assert (done.status, "order-17, order-18" in done.err) == (ERROR, True)
    assert desk("show", "runs", "--run", "other").status == ERROR
    assert desk("show", "runs", "--at", 1).status == ERROR
    assert desk("show", "runs/*17*").status == ERROR
    assert [one["executionId"] for one in desk("show", "runs", "--json").json["runs"]] == ["order-17", "order-18"]


def test_json_tells_everything(desk: Desk) -> None:
    """``--json`` gives every event with its whole payload, and nothing else on standard output."""
    desk.log("one", polling(1))
    data = desk("show", "runs/one.loom.jsonl", "--json").json
    assert data["ok"]
    assert data["run"]["status"] == "completed"
    assert [event["sequence"] for event in data["timeline"]] == list(range(1, 8))
    poll = data["timeline"][1]
    assert (poll["step"], poll["payload"]["input"], poll["line"]) == ("poll", {"cursor": 0, "of": "A"}, 2)


def test_a_broken_log(desk: Desk) -> None:
    """A log that cannot be read is named with its line; among several runs it hides no other."""
    broken = desk.log("a", made("order-17"))
    broken.write_bytes(broken.read_bytes().replace(b'"sequence":3', b'"sequence":9'))
    done = desk("show", "runs/a.loom.jsonl")
    assert (done.status, done.out) == (ERROR, "")
    assert "runs/a.loom.jsonl:3" in done.err
    desk.log("b", made("order-18"))
    done = desk("show", "runs")
    assert (done.status, "order-18" in done.out) == (FINDING, True)
    assert desk("show", "nowhere").status == ERROR
    assert desk("show", "nobody://user:s3cret@host/db").err.count("s3cret") == 0


def test_a_log_that_does_not_fold_is_shown_all_the_same(desk: Desk) -> None:
    """Events of a newer version are shown as they were recorded, with a word on what would raise them."""
    builder = LogBuilder("a", "f")
    builder.add("EXECUTION_STARTED", {"input": 1}, timestamp=START)
    builder.add("STEP_STARTED", {"stepId": "pay"}, timestamp=START, event_version=7)
    desk.log("one", builder.log())
    done = desk("show", "runs/one.loom.jsonl")
    assert (done.status, "pay starts" in done.out, "--flows MODULE:ATTR" in done.err) == (OK, True, True)
    (desk.folder / "todays_flows.py").write_text(
        "from pytest_loom import upcaster\n"
        + "".join(
            f"@upcaster('STEP_STARTED', from_version={version})\ndef v{version}(payload):\n    return payload\n"
            for version in range(1, 7)
        )
        + "flows = {}\n"
    )
    code = "import sys; from pytest_loom.cli import main; sys.exit(main(sys.argv[1:]))"  # upcasters stay registered
    words = ["show", "runs/one.loom.jsonl", "--flows", "todays_flows:flows", "--at", "2"]
    apart = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert (apart.returncode, "  pay  running" in apart.stdout) == (OK, True), apart.stderr
    assert desk("show", "runs/one.loom.jsonl", "--at", 2).status == ERROR


ESCAPES = "\x1b[2J\x1b]0;owned\x07\r\n\u202eevil\u2028\x9b31m"


def test_what_a_log_says_cannot_reach_the_terminal(desk: Desk) -> None:
    """Control characters, line breaks and text directions in names and values of a log are shown escaped."""
    builder = LogBuilder(f"id {ESCAPES}", f"flow {ESCAPES}")
    builder.add("EXECUTION_STARTED", {"input": {ESCAPES: ESCAPES}}, timestamp=START)
    builder.add("STEP_STARTED", {"stepId": ESCAPES}, timestamp=START, branch=f"b{ESCAPES}", namespace=ESCAPES)
    builder.add("TOOL_REQUESTED", {"callId": ESCAPES, "name": ESCAPES, "args": ESCAPES}, timestamp=START)
    builder.add("DECISION_RECORDED", {"key": ESCAPES, "value": ESCAPES}, timestamp=START)
    builder.add(f"Said{ESCAPES}", {"a": ESCAPES}, timestamp=START)
    builder.add("EXECUTION_SUSPENDED", {"on": [ESCAPES, ESCAPES], "pending": ESCAPES}, timestamp=START)
    desk.log("one", builder.log())
    desk.log("two", made())
    for words in ((), ("--at", 6), ("--step", ESCAPES), ("--step", f"{ESCAPES}?"), ("--run", ESCAPES)):
        done = desk("show", "runs/one.loom.jsonl", *words)
        text = done.out + done.err
        assert text
        assert all(line.isprintable() for line in text.split("\n")), words
    done = desk("show", "runs")
    assert all(line.isprintable() for line in done.out.split("\n"))


def test_huge_payloads_take_a_line(desk: Desk) -> None:
    """A payload of megabytes, deep or wide, takes its line of 80 columns and no more."""
    deep: Any = "x"
    for _ in range(400):
        deep = [deep]
    builder = LogBuilder("a", "f")
    builder.add("EXECUTION_STARTED", {"input": "x" * 3_000_000}, timestamp=START)
    builder.add("STEP_STARTED", {"stepId": "s" * 100_000, "input": deep}, timestamp=START)
    builder.add("Said", {f"key {number}": number for number in range(50_000)}, timestamp=START + 10**15)
    desk.log("one", builder.log())
    for words in ((), ("--at", 3), ("--step", "s" * 100_000)):
        done = desk("show", "runs/one.loom.jsonl", *words)
        assert done.status == OK
        assert all(len(line) <= 80 for line in done.out.splitlines()), words


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (59_900, "59.9 s"),
        (59_990, "1 m 00 s"),
        (61_000, "1 m 01 s"),
        (3_599_600, "1 h 00 m"),
        (DAY * 2 + 3_600_000, "2 d 01 h"),
        (-1500, "-1.5 s"),
        (10**12, "11574 d"),
        (1e300, "?"),
    ],
)
def test_durations(ms: float, text: str) -> None:
    """Times are told in the two largest units."""
    assert duration(ms) == text


def test_a_reader_that_has_enough(desk: Desk) -> None:
    """A pipe that is closed early (``| head``) ends the command without a word."""
    desk.log("one", polling(2_000))
    command = [sys.executable, "-m", "pytest_loom", "show", "runs/one.loom.jsonl"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert (process.stderr.read(), process.wait(timeout=60)) == (b"", OK)
    process.stderr.close()
