"""Two recordings of the same thing normalise to the same bytes, and no real change does."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from pytest_loom import Context, Event, Log, LogBuilder, SyncContext, flow, load_log, record, step, write_log
from pytest_loom.flow.normal import normalised, same_recording

Told = tuple[str, dict[str, Any], str | None, str | None]
"""An event's type and payload, its branch and its namespace."""


@step
async def say(text: str, pauses: int = 0) -> str:
    """Give the text back, after a while."""
    for _ in range(pauses):
        await asyncio.sleep(0.001)
    return text


def made(told: list[Told], execution_id: str = "run-1", start: int = 1_000) -> Log:
    """A log of these events."""
    builder = LogBuilder(execution_id, "flow")
    for number, (event_type, payload, branch, namespace) in enumerate(told):
        builder.add(event_type, payload, timestamp=start + number, branch=branch, namespace=namespace)
    return builder.log()


def shown(log: Log) -> list[str]:
    """What the events are, in few words."""
    return [f"{event.branch or ''}:{event.payload.get('stepId', event.event_type)}" for event in log.events]


def did(name: str, branch: str | None = None, namespace: str | None = None, output: Any = 1) -> list[Told]:
    """A step that was run."""
    return [
        ("STEP_STARTED", {"stepId": name, "input": name}, branch, namespace),
        ("STEP_COMPLETED", {"stepId": name, "output": output}, branch, namespace),
    ]


START: Told = ("EXECUTION_STARTED", {"input": 1}, None, None)
END: Told = ("EXECUTION_COMPLETED", {"output": 2}, None, None)


def interleaved(parts: list[list[Told]], chance: random.Random) -> list[Told]:
    """The parts, each in its own order, mixed by chance."""
    left = [list(part) for part in parts]
    mixed: list[Told] = []
    while any(left):
        mixed.append(chance.choice([part for part in left if part]).pop(0))
    return mixed


# Ids, times, chance -------------------------------------------------------------------------------------------------


@flow(id="chancy", steps=[say])
def chancy(ctx: SyncContext, name: str) -> dict[str, Any]:
    """What it asks depends on clock, uuid, random and its own id, in many forms."""
    token, other, moment, number = ctx.uuid(), ctx.uuid(), ctx.now(), ctx.random()
    ctx.run(say, f"{name}: {token}, {token.hex}, {moment}, {moment.isoformat()}, {number}, {ctx.execution_id}")
    return {str(token): [token, moment, number, {ctx.execution_id: f"{ctx.execution_id}/x"}], "other": other}


def test_recorded_twice_the_bytes_are_the_same(tmp_path: Path) -> None:
    """Two recordings of one flow are written as the same bytes, whatever the clock, uuid and random gave."""
    one, other = record(chancy, "Ada"), record(chancy, "Ada", execution_id="a name")
    assert write_log(one, tmp_path / "a.jsonl").read_bytes() != write_log(other, tmp_path / "b.jsonl").read_bytes()
    first = write_log(normalised(one), tmp_path / "one.loom.jsonl").read_bytes()
    assert first == write_log(normalised(other), tmp_path / "other.loom.jsonl").read_bytes()
    assert same_recording(one, other)
    for event in one.events:
        if event.event_type == "DECISION_RECORDED":
            assert json.dumps(event.payload["value"]).strip('"').encode() not in first
    assert one.execution_id.encode() not in first
    assert not same_recording(one, record(chancy, "Bob"))


def test_a_normal_log_is_its_own_normal_form() -> None:
    """Normalising again changes nothing."""
    once = normalised(record(chancy, "Ada"))
    assert normalised(once).events == once.events


def test_placeholders_have_the_shape_of_what_they_stand_for() -> None:
    """A uuid becomes a uuid, a time a time and a number a number, so that the normal form can still be replayed."""
    log = normalised(record(chancy, "Ada"))
    values = [event.payload["value"] for event in log.events if event.event_type == "DECISION_RECORDED"]
    assert values == [
        "00000000-0000-4000-8000-000000000001",
        "00000000-0000-4000-8000-000000000002",
        "2000-01-01T00:00:01.000001Z",
        pytest.approx(0.5),
    ]
    assert {event.timestamp for event in log.events} == {0}


def test_another_use_of_chance_is_a_change() -> None:
    """Where the second uuid stands in an input that had the first, the recordings differ."""
    tokens = ["12345678-1234-4234-8234-123456789abc", "12345678-1234-4234-8234-123456789abd"]
    decided: list[Told] = [("DECISION_RECORDED", {"key": "uuid", "value": token}, None, None) for token in tokens]
    assert not same_recording(
        made([START, *decided, *did("s", output=tokens[0])]), made([START, *decided, *did("s", output=tokens[1])])
    )
    assert not same_recording(
        made([START, *decided, *did("s", output=tokens[0])]), made([START, *decided, *did("s", output="else")])
    )


@pytest.mark.parametrize(
    ("key", "value"), [("uuid", 7), ("now", "yesterday"), ("random", 3), ("random", 1.5), ("colour", "red")]
)
def test_what_does_not_look_like_chance_counts(key: str, value: Any) -> None:
    """A decision that only has such a name, or another one, is compared as it is."""
    one: Told = ("DECISION_RECORDED", {"key": key, "value": value}, None, None)
    other: Told = ("DECISION_RECORDED", {"key": key, "value": "else"}, None, None)
    assert same_recording(made([START, one]), made([START, one]))
    assert not same_recording(made([START, one]), made([START, other]))


def test_a_placeholder_never_meets_its_like() -> None:
    """A text that is the very placeholder of something else does not pass for it."""
    first = "00000000-0000-4000-8000-000000000001"
    token = "12345678-1234-4234-8234-123456789abc"
    decided: Told = ("DECISION_RECORDED", {"key": "uuid", "value": token}, None, None)
    assert not same_recording(
        made([START, decided, *did("s", output=token)]), made([START, decided, *did("s", output=first)])
    )
    said = did("s", output="run-1 is on")
    assert not same_recording(made([START, *said]), made([START, *did("s", output="execution is on")]))


def test_a_short_id_is_a_word_of_its_own() -> None:
    """An id that happens to be a part of other words, or a number, leaves those alone."""
    log = normalised(made([START, *did("s", output=["1", "a1b", 1, 1.5, "run/1/x", "\\1"])], "1"))
    assert log.events[2].payload["output"] == ["execution", "a1b", 1, 1.5, "run/execution/x", "\\execution"]
    assert log.execution_id == "execution"
    long = "0123456789abcdef-run"
    assert normalised(made([START, *did("s", output=f"x{long}y")], long)).events[2].payload["output"] == "xexecutiony"


def test_ids_that_need_escapes() -> None:
    """An execution id with quotes and other alphabets is found in payloads too."""
    identity = 'die "Nr" 1\\ü\n'
    log = made([START, *did("s", output={identity: [identity, f"{identity}/s"]})], identity)
    assert normalised(log).events[2].payload["output"] == {"execution": ["execution", "execution/s"]}
    assert same_recording(log, made([START, *did("s", output={"run-2": ["run-2", "run-2/s"]})], "run-2"))


# Order --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
def test_how_branches_interleave_means_nothing(seed: int) -> None:
    """However the events of concurrent branches are mixed, the normal form is the same; each keeps its own order."""
    chance = random.Random(seed)
    branches = [
        [*did("a", "1"), *did("b", "1"), *did("a", "1", output=2)],
        [*did("b", "2"), ("STEP_STARTED", {"stepId": "slow"}, "2", None), *did("c", "2/1"), *did("d", "2/2")],
        [*did("x", "10", "10:part"), *did("y", "10", "10:part")],
    ]
    before, after = did("first"), did("last")
    plain = made([START, *before, *(told for branch in branches for told in branch), *after, END])
    mixed = made([START, *before, *interleaved(branches, chance), *after, END], "other", 5)
    assert shown(normalised(mixed)) == shown(plain)
    assert same_recording(plain, mixed)
    branches[1][0], branches[1][1] = branches[1][1], branches[1][0]
    assert not same_recording(plain, made([START, *before, *interleaved(branches, chance), *after, END]))


@pytest.mark.parametrize("seed", range(10))
def test_a_branch_beside_its_maker_stands_where_it_began(seed: int) -> None:
    """A task that runs while its maker does steps of its own comes right after the start of the step it began in."""
    chance = random.Random(seed)
    began: list[Told] = [
        START,
        ("STEP_STARTED", {"stepId": "own"}, None, None),
        ("STEP_STARTED", {"stepId": "task"}, "1", None),
    ]
    maker: list[Told] = [("STEP_COMPLETED", {"stepId": "own", "output": 1}, None, None), *did("next")]
    task: list[Told] = [("STEP_COMPLETED", {"stepId": "task", "output": 1}, "1", None), *did("more", "1")]
    mixed = normalised(made([*began, *interleaved([maker, task], chance), END]))
    assert shown(mixed)[1:] == [
        ":own", "1:task", "1:task", "1:more", "1:more", ":own", ":next", ":next", ":EXECUTION_COMPLETED",
    ]  # fmt: skip
    waited = made([START, *did("task", "1"), *did("more", "1"), *did("own"), *did("next"), END])
    assert not same_recording(mixed, waited)


@pytest.mark.parametrize("seed", range(10))
def test_a_branch_that_begins_during_an_effect(seed: int) -> None:
    """Between which pieces or attempts of its maker's step a task began is chance."""
    chance = random.Random(seed)
    start: Told = ("STEP_STARTED", {"stepId": "own"}, None, None)
    end: Told = ("STEP_COMPLETED", {"stepId": "own", "output": 1}, None, None)
    retried: Told = ("STEP_FAILED", {"stepId": "own", "error": {}, "willRetry": True}, None, None)
    pieces: list[Told] = [
        retried,
        start,
        *[("STEP_PROGRESS", {"stepId": "own", "chunk": n}, None, None) for n in (1, 2)],
    ]
    plain = made([START, start, *did("task", "1"), *pieces, end, END])
    mixed = made([START, start, *interleaved([pieces, did("task", "1")], chance), end, END])
    assert shown(normalised(mixed)) == shown(plain)
    assert same_recording(plain, mixed)
    assert not same_recording(plain, made([START, start, *pieces, end, *did("task", "1"), END]))
    assert not same_recording(plain, made([START, *did("task", "1"), start, *pieces, end, END]))


def test_what_comes_before_and_after_concurrent_branches_counts() -> None:
    """A step moved from before the branches to after them is a change, though each branch did the same."""
    both = [*did("a", "1"), *did("b", "2")]
    assert not same_recording(made([START, *did("x"), *both, END]), made([START, *both, *did("x"), END]))


def test_steps_of_subflows_stay_within_them() -> None:
    """What a sub-flow does, in branches of its own too, stands between its start and its end."""
    inside = [*did("in", None, "part"), *did("deep", "1", "part"), *did("deep", "2", "part")]
    part: list[Told] = [did("part")[0], *inside, did("part")[1]]
    plain = made([START, *part, *did("b", "1"), END])
    assert shown(normalised(plain)) == shown(plain)
    both = interleaved([did("deep", "1", "part"), did("deep", "2", "part")], random.Random(1))
    mixed = made([START, did("part")[0], *inside[:2], *both, did("part")[1], *did("b", "1"), END])
    assert same_recording(plain, mixed)


def test_the_order_of_answers_counts() -> None:
    """Which of two waiting branches was answered first is no matter of chance."""
    waits: list[Told] = [
        ("EXECUTION_SUSPENDED", {"on": "A", "kind": "event"}, "1", None),
        ("EXECUTION_SUSPENDED", {"on": "B", "kind": "event"}, "2", None),
    ]

    def answer(event: str, branch: str) -> list[Told]:
        resumed: Told = ("EXECUTION_RESUMED", {"eventType": event, "payload": {}}, branch, None)
        return [(event, {}, None, None), resumed, *did(f"after {event}", branch)]

    first = made([START, *did("x", "1"), *waits, *answer("A", "1"), *answer("B", "2"), END])
    second = made([START, *did("x", "1"), *waits, *answer("B", "2"), *answer("A", "1"), END])
    assert shown(normalised(first)) == shown(first)
    assert shown(normalised(second)) == shown(second)
    assert not same_recording(first, second)


@pytest.mark.parametrize("place", [("a/b", "1/2"), ("1:a/b", "1"), ("x:y", "3/1"), ("9:q/1.2:r", "1/2/7"), ("/", "//")])
def test_places_of_any_spelling_are_borne(place: tuple[str, str]) -> None:
    """Whatever a log calls its branches and namespaces, no event is lost and each place keeps its order."""
    namespace, branch = place
    told = [*did("a", branch, namespace), *did("b"), *did("c", branch, namespace), *did("d", branch), END]
    log = normalised(made([START, *told]))
    assert sorted(shown(log)) == sorted(shown(made([START, *told])))
    assert [event.payload["stepId"] for event in log.events if event.namespace] == ["a", "a", "c", "c"]


def test_deeply_nested_branches_are_borne() -> None:
    """A log with branches within branches within branches takes neither a recursion nor for ever."""
    told = [one for depth in range(1, 400) for one in did("s", "/".join(["1"] * depth))]
    log = made([START, *told])
    assert shown(normalised(log)) == shown(log)


# Real recordings ----------------------------------------------------------------------------------------------------


@flow(id="racing", steps=[say])
async def racing(ctx: Context, pauses: list[int]) -> list[str]:
    """Branches that come in whatever order the clock gives."""
    return list(await asyncio.gather(*(ctx.run(say, f"{number}", pause) for number, pause in enumerate(pauses))))


def test_branches_that_really_race() -> None:
    """Recordings whose branches ended in another order are the same but for what was asked."""

    def raced(pauses: list[int]) -> list[Event]:
        log = normalised(record(racing, pauses))
        return [
            msgspec.structs.replace(event, raw=msgspec.Raw(b"{}")) if event.event_type != "STEP_COMPLETED" else event
            for event in log.events
        ]

    assert raced([5, 0, 2]) == raced([0, 5, 0])


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every leaf."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = False
    for key, part in parts:
        found = True
        yield from leaves(part, (*path, key))
    if not found and path:
        yield path


def changed(value: Any, path: tuple[Any, ...]) -> Any:
    """The value with another leaf."""
    if not path:
        return f"{value}!" if isinstance(value, str) else value + 1 if isinstance(value, (int, float)) else "other"
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:])
    return copy


@pytest.mark.parametrize("name", ["rich", "threads"])
def test_no_change_normalises_away(golden_flows: ModuleType, name: str) -> None:
    """Whichever leaf of whichever event is another, and whichever event is gone or stands elsewhere: it is noticed."""
    log = load_log(golden_flows.GOLDENS / f"{name}.loom.jsonl")
    normal = normalised(log).events
    tried = 0

    def noticed(events: list[Event]) -> bool:
        nonlocal tried
        tried += 1
        numbered = [msgspec.structs.replace(event, sequence=number) for number, event in enumerate(events, 1)]
        return normalised(Log(numbered)).events != normal

    events = list(log.events)
    for index, event in enumerate(events):
        paths = list(leaves(event.payload))
        for path in paths if name == "threads" else paths[:: max(1, len(paths) // 3)]:
            raw = msgspec.Raw(msgspec.json.encode(changed(event.payload, path)))
            other = msgspec.structs.replace(event, raw=raw)
            assert noticed([*events[:index], other, *events[index + 1 :]]), (event, path)
        assert noticed([*events[:index], *events[index + 1 :]]), event
        for other in (
            msgspec.structs.replace(event, branch="77"),
            msgspec.structs.replace(event, event_type="Application"),
            msgspec.structs.replace(event, event_version=2),
        ):
            assert noticed([*events[:index], other, *events[index + 1 :]]), other
        if index and (event.branch, event.namespace) == (events[index - 1].branch, events[index - 1].namespace):
            assert noticed([*events[: index - 1], event, events[index - 1], *events[index + 1 :]]), event
    assert tried > 100
