"""The normal form of a run: what tells it from the same run of another day is gone, and nothing else."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import LogBuilder, flow, load_logs, record, replay, step, write_log
from pytest_loom.cli.output import OK
from pytest_loom.flow.context import Context
from pytest_loom.log.aliases import normal_form
from pytest_loom.log.event import Log
from pytest_loom.log.write import encode_events
from tests.cli.conftest import DAY, START, Desk, made

RUN, CALL, CUSTOMER = (f"{digit * 8}-aaaa-4bbb-8ccc-{digit * 12}" for digit in "123")
OTHER_RUN, OTHER_CALL = (f"{digit * 8}-dddd-4eee-9fff-{digit * 12}" for digit in "45")
TEMPORAL = Path(__file__).parents[1] / "sources" / "temporal_history.json"


def lines(log: Log) -> str:
    """The text of a log in its normal form."""
    return encode_events(normal_form(log).events).decode()


def agent_run(run: str, call: str, tool: str, start: int) -> Log:
    """A run of an engine with ids and times in every place."""
    builder = LogBuilder(run, "support")
    said = f"2025-11-{30 + (start - START) // DAY:02}T10:53:21.250Z"
    add = builder.add
    add("EXECUTION_STARTED", {"input": {"customer": CUSTOMER}, "manifest": {"runIds": [run]}}, timestamp=start)
    add("TOOL_REQUESTED", {"callId": tool, "name": "pay", "args": {"customer": CUSTOMER}}, timestamp=start + 1250)
    done = {"callId": tool, "name": "pay", "output": {"receipt": call, "text": f"receipt {call}", "at": said}}
    add("TOOL_COMPLETED", done, timestamp=start + 1500)
    add("EXECUTION_COMPLETED", {"output": {"created": start // 1000, "run": f"run {run}"}}, timestamp=start + 2000)
    return builder.log(source="pydantic_ai", engine="checkpoint")


def test_the_same_run_of_another_day() -> None:
    """Only ids and times differ: the same bytes. What was put into the run stays as it is."""
    one = agent_run(RUN, CALL, "call_vN5fQ3sB1x9GdqHsEhBLSvDZ", START)
    text = json.dumps([json.loads(line) for line in encode_events(one.events).splitlines()])
    for old, new in (
        (RUN, OTHER_RUN),
        (CALL, OTHER_CALL),
        ("call_vN5fQ3sB1x9GdqHsEhBLSvDZ", "call_k2J9xPq7W3mZr5T8vB1nC4dF"),
        ("2025-11-30T", "2025-12-04T"),
        (str(START // 1000), str((START + 4 * DAY) // 1000)),
    ):
        assert old in text
        text = text.replace(old, new)
    builder = LogBuilder(OTHER_RUN, "support")
    for event, before in zip(json.loads(text), one.events, strict=True):
        moment = before.timestamp
        assert isinstance(moment, int)
        builder.add(event["eventType"], event["payload"], timestamp=moment + 4 * DAY)
    other = builder.log(source="pydantic_ai", engine="checkpoint")
    assert lines(one) == lines(other)
    assert CUSTOMER in lines(one)
    for gone in (RUN, CALL, "vN5fQ3sB1x9GdqHsEhBLSvDZ", "2025-11-30"):
        assert gone not in lines(one)


def test_aliases_keep_the_shape_and_are_the_same_in_a_run() -> None:
    """A uuid stays a uuid of its version, also without hyphens; the same id is the same alias wherever it stands."""
    builder = LogBuilder("job", "f")
    builder.add("EXECUTION_STARTED", {"input": None}, timestamp=START)
    seven = "01a22bf8-067e-741b-addb-51a873c46513"
    payload = {"stepId": "a", "output": [seven, f"see {seven}!", seven.replace("-", ""), CALL]}
    builder.add("STEP_COMPLETED", payload, timestamp=START)
    one, text, bare, other = normal_form(builder.log()).events[1].payload["output"]
    assert one == "00000000-0000-7000-8000-000000000001"
    assert text == f"see {one}!"
    assert bare == one.replace("-", "")
    assert other == "00000000-0000-4000-8000-000000000002"


def test_a_part_of_a_uuid_that_code_cut_off_keeps_the_whole() -> None:
    """Where the beginning of a uuid stands alone the two belong together: neither is changed."""
    builder = LogBuilder("job", "f")
    builder.add("EXECUTION_STARTED", {"input": None}, timestamp=START)
    builder.add("STEP_COMPLETED", {"stepId": "a", "output": {"id": CALL, "short": f"inv-{CALL[:8]}"}}, timestamp=START)
    assert normal_form(builder.log()).events[1].payload["output"] == {"id": CALL, "short": f"inv-{CALL[:8]}"}


def test_a_word_that_is_the_runs_id_is_a_word_elsewhere() -> None:
    """A run called like a tool does not rename the tool: given ids count only where a run's own id stands."""
    builder = LogBuilder("pay", "support")
    builder.add("EXECUTION_STARTED", {"input": "pay", "manifest": {"aliases": ["pay"]}}, timestamp=START)
    facts = {"callId": "c1", "name": "pay", "args": {}, "idempotencyKey": "pay/c1"}
    builder.add("TOOL_REQUESTED", facts, timestamp=START)
    form = normal_form(builder.log())
    assert re.fullmatch("run-[0-9a-f]{12}", form.alias)
    first, second = (event.payload for event in form.events)
    assert first == {"input": "pay", "manifest": {"aliases": [form.alias]}}
    assert second == {"callId": "c1", "name": "pay", "args": {}, "idempotencyKey": f"{form.alias}/c1"}


def test_data_that_is_no_id_stays() -> None:
    """Words, numbers, digests, dates outside of the run and texts of every kind are kept byte for byte."""
    output: dict[str, Any] = {
        "order": "ORD-2025-000117",
        "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "due": "2031-01-01T00:00:00Z",
        "phone": 4915112345678,
        "sum": 1.10,
        "long": "ApprovalGrantedByManager20261130",
        "id": "prod-7",
    }
    builder = LogBuilder("job", "f")
    builder.add("EXECUTION_STARTED", {"input": None}, timestamp=START)
    builder.add("STEP_COMPLETED", {"stepId": "a", "output": output}, timestamp=START + 5)
    log = builder.log(source="temporal")
    assert normal_form(log).events[1].payload["output"] == output


def test_parent_and_child_stay_linked(desk: Desk) -> None:
    """A run that is named by another one has the same alias in both, whichever is read first; ids of runs that are not
    imported get one of their own."""
    runs = {"a-child": (RUN, OTHER_RUN), "b-parent": (OTHER_RUN, RUN), "c-lost": ("given", CALL)}
    for name, (own, other) in runs.items():
        builder = LogBuilder(own, name)
        builder.add("EXECUTION_STARTED", {"input": name}, timestamp=START)
        link = "parentExecutionId" if name == "a-child" else "childExecutionId"
        builder.add("Linked", {link: other}, timestamp=START)
        desk.log(name, builder.log())
    assert desk("import", "runs", "-o", "goldens").status == OK
    logs = {log.workflow_id: log for log in load_logs(desk.folder / "goldens")}
    assert logs["a-child"].events[1].payload["parentExecutionId"] == logs["b-parent"].execution_id
    assert logs["b-parent"].events[1].payload["childExecutionId"] == logs["a-child"].execution_id
    lost = logs["c-lost"].events[1].payload["childExecutionId"]
    assert re.fullmatch("00000000-0000-4000-8000-000000f00001", lost)


def test_links_of_given_ids(desk: Desk) -> None:
    """A run that somebody named is found again by the runs that refer to it."""
    for name, key, other in (
        ("order-17", "childExecutionId", "order-17/1"),
        ("order-17/1", "parentExecutionId", "order-17"),
    ):
        builder = LogBuilder(name, key)
        builder.add("EXECUTION_STARTED", {"input": name}, timestamp=START)
        builder.add("Linked", {key: other, "note": other}, timestamp=START)
        desk.log(key, builder.log())
    assert desk("import", "runs", "-o", "goldens").status == OK
    logs = {log.workflow_id: log for log in load_logs(desk.folder / "goldens")}
    for key, other in (("childExecutionId", "parentExecutionId"), ("parentExecutionId", "childExecutionId")):
        assert logs[key].events[1].payload[key] == logs[other].execution_id
        assert logs[key].events[1].payload["note"] in ("order-17", "order-17/1")


def test_a_temporal_history_of_another_day(desk: Desk) -> None:
    """The same history with other run ids and times gives the same goldens."""
    text = TEMPORAL.read_text()
    (desk.folder / "one.json").write_text(text)
    ids = set(re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text))
    other = re.sub(r"2026-0(\d)-", lambda month: f"2027-0{month[1]}-", text)
    for number, one in enumerate(sorted(ids)):
        other = other.replace(one, f"{number:08x}-1111-4222-8333-444444444444")
    (desk.folder / "other").mkdir()
    (desk.folder / "other/one.json").write_text(other)
    assert other != text
    desk("import", "one.json", "-o", "a")
    desk("import", "other/one.json", "-o", "b")
    assert desk.goldens("a") == desk.goldens("b")


def test_a_file_of_many_runs_of_another_day(desk: Desk) -> None:
    """Runs whose ids were drawn are called after their file, and otherwise by what they hold: the same each day."""
    for day, ids in (("a", (RUN, CALL)), ("b", (OTHER_RUN, OTHER_CALL))):
        runs = [made(one, given=number, start=START + ord(day) * DAY) for number, one in enumerate(ids)]
        (desk.folder / day).mkdir()
        (desk.folder / day / "runs.loom.jsonl").write_bytes(b"".join(encode_events(log.events) for log in runs))
        assert desk("import", day, "-o", f"goldens-{day}").status == OK
    assert desk.goldens("goldens-a") == desk.goldens("goldens-b")
    assert len(desk.goldens("goldens-a")) == 2
    assert "refund/runs.loom.jsonl" in desk.goldens("goldens-a")


@step
def note(moment: str, key: str) -> str:
    """Take what the flow drew."""
    return f"{key} at {moment}"


@flow(id="drawing", steps=[note])
async def drawing(ctx: Context, order: int) -> str:
    """A flow that computes with the clock and with chance."""
    deadline = ctx.now() + timedelta(days=14)
    key = f"{order}-{ctx.uuid()}-{ctx.random() > 2}"
    return await ctx.run(note, deadline.isoformat(), key)


def test_what_a_flow_recorded_replays_as_before(desk: Desk) -> None:
    """A flow that computes with clock, uuid and chance replays on the imported golden: what it was told is kept."""
    log = record(drawing, 17)
    write_log(log, desk.folder / "runs" / "one.loom.jsonl")
    assert desk("import", "runs", "-o", "goldens").status == OK
    (golden,) = load_logs(desk.folder / "goldens")
    again = replay(golden, drawing)
    assert again.state.variables["_output"] == golden.state.variables["_output"]
    assert golden.execution_id != log.execution_id
    assert encode_events(again.events).count(golden.execution_id.encode())


@pytest.mark.parametrize(
    "moment", ["2026-11-30T10:00:00.5+01:00", "2026-11-30 09:00:00.500Z", "2026-11-30T09:00:00.5z"]
)
def test_every_form_of_a_timestamp(moment: str) -> None:
    """Times as text start anew too, whatever their offset, and keep their distances."""
    builder = LogBuilder("job", "f")
    builder.add("EXECUTION_STARTED", {"input": None}, timestamp=moment)
    builder.add("EXECUTION_COMPLETED", {"output": 1}, timestamp="2026-11-30T09:00:02Z")
    assert [event.timestamp for event in normal_form(builder.log()).events] == [
        "2000-01-01T00:00:00Z",
        "2000-01-01T00:00:01.500000Z",
    ]


def test_marks_in_data_do_no_harm() -> None:
    """A log that holds the words by which aliases are marked on the way is imported all the same."""
    log = made("x" * 3, given={"a": "<<run:0>> <<link:0>> <<run>>"})
    form = normal_form(log)
    assert len(form.events) == len(log)
