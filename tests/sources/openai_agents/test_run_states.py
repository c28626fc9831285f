"""Run states of the OpenAI Agents SDK as logs, without the SDK."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from run_states import LOOK, PAY, SCHEMA, answered, call, item, message, response, waiting  # type: ignore[import-not-found]

from pytest_loom import load_log, load_logs, simulate_deploy
from pytest_loom.errors import LogError, UnknownSchemaVersion
from pytest_loom.log.event import Log
from pytest_loom.sources.openai_agents import source
from pytest_loom.sources.openai_agents.runstate import VERSIONS


def saved(state: Any, folder: Path, name: str = "ticket-7.json") -> Path:
    """The state in a file."""
    path = folder / name
    path.write_text(state if isinstance(state, str) else json.dumps(state))
    return path


def read(state: Any, folder: Path) -> Log:
    """The log of a state."""
    return load_log(saved(state, folder))


def test_a_waiting_run(tmp_path: Path) -> None:
    """Turns are steps, calls are tool calls, and what waits is a suspension with the call, its schema and its agent."""
    log = read(waiting(), tmp_path)
    state = log.state
    assert (log.execution_id, log.workflow_id, log.source, log.engine) == (
        "ticket-7",
        "refunds",
        "openai-agents",
        "checkpoint",
    )
    assert state.status == "suspended"
    assert {key: frame.status for key, frame in state.frames.items()} == {"desk": "completed", "desk#2": "running"}
    assert state.variables["_input"] == "order A"
    assert [(one.name, one.status, one.args) for one in state.calls if one.kind == "tool"] == [
        ("look", "completed", {"order": "A"}),
        ("pay", "requested", {"order": "A", "cents": 4999}),
    ]
    assert state.suspensions[0].kind == "approval"
    assert state.suspensions[0].pending == [
        {
            "callId": "c2",
            "name": "pay",
            "args": {"order": "A", "cents": 4999},
            "agent": "desk",
            "kind": "function",
            "toolSchema": SCHEMA,
        }
    ]
    assert state.manifest["aliases"] == ["trace_1", "g1"]
    assert state.manifest["agents"] == ["desk"]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_released_version_is_read(version: str, tmp_path: Path) -> None:
    """All of 1.0 to 1.21 are read."""
    assert read(waiting(**{"$schemaVersion": version}), tmp_path).state.manifest["runStateSchema"] == version


@pytest.mark.parametrize("version", ["1.22", "2.0", "0.9", "1.021", "x", "", 1.21, ["1.21"]])
def test_any_other_version_fails_closed(version: Any, tmp_path: Path) -> None:
    """A version that is not known is refused, and a simulation says schema-unknown."""
    path = saved(waiting(**{"$schemaVersion": version}), tmp_path)
    with pytest.raises(UnknownSchemaVersion) as raised:
        load_log(path)
    assert raised.value.execution_id == "ticket-7"
    report = simulate_deploy(path, {})
    assert [found.code for found in report.findings] == ["schema-unknown"]


def test_a_state_without_its_version_is_refused(tmp_path: Path) -> None:
    """The SDK refuses it, and so is it here."""
    state = waiting()
    del state["$schemaVersion"]
    with pytest.raises(LogError, match="does not say its schema version"):
        read(state, tmp_path)


def test_decisions(tmp_path: Path) -> None:
    """A decision is shown with its call; one about this very call overrides a standing one."""
    for context, decision in (
        ({"approvals": {"pay": {"approved": ["c2"], "rejected": []}}}, "approved"),
        ({"approvals": {"pay": {"approved": ["c9"], "rejected": []}}}, None),
        ({"approvals": {"pay": {"approved": True, "rejected": ["c2"]}}}, "rejected"),
        ({"approvals": {"pay": {"approved": [], "rejected": True}}}, "rejected"),
        (
            {
                "function_tool_approvals": [
                    {"agent": {"name": "desk"}, "tool_key": "pay", "decision": {"approved": True}}
                ]
            },
            "approved",
        ),
        (
            {
                "function_tool_approvals": [
                    {"agent": {"name": "till"}, "tool_key": "pay", "decision": {"approved": True}}
                ]
            },
            None,
        ),
    ):
        state = read(waiting(context={"usage": {}, **context}), tmp_path).state
        assert state.suspensions[0].pending[0].get("decision") == decision, context


def test_standing_decisions_are_events(tmp_path: Path) -> None:
    """What was decided for calls to come is an application event of its own, with the agent that it is bound to."""
    approvals = [{"agent": {"name": "desk"}, "tool_key": "pay", "decision": {"approved": True, "rejected": []}}]
    log = read(waiting(context={"function_tool_approvals": approvals}), tmp_path)
    assert [event.payload for event in log.state.received] == [
        {"tool": "pay", "agent": "desk", "decision": "approved", "always": True}
    ]


def test_a_finished_run(tmp_path: Path) -> None:
    """A run whose last response is a message has ended with it."""
    items = [item("tool_call_item", LOOK), answered("c1", "paid"), item("message_output_item", message("Bye"))]
    log = read(
        waiting(
            model_responses=[response(LOOK), response(message("Bye"))],
            current_step=None,
            last_processed_response=None,
            generated_items=items,
            session_items=items,
        ),
        tmp_path,
    )
    assert (log.state.status, log.state.variables["_output"]) == ("completed", "Bye")
    assert log.state.frames["desk#2"].output == {"text": "Bye", "calls": []}


def test_a_run_that_the_sdk_gave_up_has_failed(tmp_path: Path) -> None:
    """terminal_unrecoverable (schema 1.17) is a failure, whatever still waits."""
    assert read(waiting(terminal_unrecoverable=True), tmp_path).state.status == "failed"


@pytest.mark.parametrize("step", [None, {"type": "next_step_run_again"}])
def test_a_run_that_goes_on_by_itself_is_running(step: Any, tmp_path: Path) -> None:
    """A finished turn whose model is to be asked again, and a run that never began."""
    items = [item("tool_call_item", LOOK), answered("c1", "paid")]
    changes: dict[str, Any] = {"generated_items": items, "session_items": items, "last_processed_response": None}
    assert read(waiting(model_responses=[response(LOOK)], current_step=step, **changes), tmp_path).state.in_flight
    assert read(waiting(model_responses=[], current_step=None, **changes), tmp_path).state.in_flight


def test_agents_along_a_handoff(tmp_path: Path) -> None:
    """Each turn belongs to its agent, a handoff is a call of its own kind, and the flow is named by the first agent."""
    over = call("transfer_to_back", "h1")
    given = item("handoff_output_item", {"type": "function_call_output", "call_id": "h1", "output": "{}"}, "front")
    given |= {"source_agent": {"name": "front"}, "target_agent": {"name": "back"}}
    approval = item("tool_approval_item", PAY, "back", tool_name="pay")
    items = [item("handoff_call_item", over, "front"), given, item("tool_call_item", PAY, "back"), approval]
    log = read(
        waiting(
            current_agent={"name": "back"},
            model_responses=[response(over), response(PAY)],
            generated_items=items,
            session_items=[],
            current_step={"type": "next_step_interruption", "interruptions": [approval]},
            last_processed_response=None,
            trace={"workflow_name": "Agent workflow"},
        ),
        tmp_path,
    )
    assert log.workflow_id == "front"
    assert list(log.state.frames) == ["front", "back"]
    assert log.state.manifest["agents"] == ["front", "back"]
    kinds = [event.payload["kind"] for event in log.events if event.event_type == "TOOL_REQUESTED"]
    assert kinds == ["handoff", "function"]
    assert log.state.suspensions[0].pending[0]["agent"] == "back"


def test_an_agent_as_a_tool_keeps_its_own_run(tmp_path: Path) -> None:
    """What waits in the inner run is shown once, as the inner agent's, behind the outer call's id."""
    inner = waiting(current_agent={"name": "desk"})
    ask = call("ask", "o1", input="x")
    function = {"tool_call": ask, "tool": {"name": "ask", "paramsJsonSchema": {}}, "agent_run_state": inner}
    approval = inner["current_step"]["data"]["interruptions"][0]
    outer = waiting(
        current_agent={"name": "boss"},
        model_responses=[response(ask)],
        generated_items=[item("tool_call_item", ask, "boss")],
        session_items=[],
        context={"tool_invocations": {"o1": {"executed": True, "completed": False}}},
        last_processed_response={"functions": [function], "new_items": []},
        current_step={"type": "next_step_interruption", "data": {"interruptions": [approval]}},
    )
    log = read(outer, tmp_path)
    assert [(one["callId"], one["agent"]) for one in log.state.suspensions[0].pending] == [("o1/c2", "desk")]
    assert log.state.manifest["agents"] == ["boss", "desk"]
    asked = [event.payload for event in log.events if event.event_type == "TOOL_REQUESTED"]
    assert [one["callId"] for one in asked] == ["o1", "o1/c1", "o1/c2"]
    assert not any(one.get("executed") for one in asked)  # the inner run goes on, it is not begun anew


def test_a_started_call_without_output_is_marked(tmp_path: Path) -> None:
    """A call that was started and whose output is not there says so."""
    state = waiting()
    state["context"]["tool_invocations"]["c2"]["executed"] = True
    asked = [e.payload for e in read(state, tmp_path).events if e.event_type == "TOOL_REQUESTED"]
    assert [one.get("executed") for one in asked] == [None, True]


def test_names_of_files(tmp_path: Path) -> None:
    """The run is called as its file, packed or not."""
    path = tmp_path / "ticket-8.json.gz"
    path.write_bytes(gzip.compress(json.dumps(waiting()).encode()))
    assert load_log(path).execution_id == "ticket-8"


def test_a_bad_file_hides_no_other(tmp_path: Path) -> None:
    """Each file is read for itself."""
    saved(json.dumps(waiting())[:-300], tmp_path, "a.json")
    saved(waiting(), tmp_path, "b.json")
    stream = load_logs(tmp_path)
    with pytest.raises(LogError, match="not JSON"):
        next(stream)
    assert next(stream).execution_id == "b"


def broken() -> Iterator[tuple[str, Any]]:
    """Damaged states, by name."""
    whole = json.dumps(waiting())
    for size in (40, 200, 1000, len(whole) - 1):
        yield f"torn at {size}", whole[:size]
    yield "deep", whole.replace('"order A"', "[" * 100_000 + "]" * 100_000)
    yield "rather deep", whole.replace('"order A"', "[" * 300 + "]" * 300)
    yield "no agent", waiting(current_agent={"name": ""})
    yield "agent is a number", waiting(current_agent=7)
    yield "nameless call", waiting(model_responses=[response(LOOK | {"call_id": None, "id": None})])
    yield "one id for two calls", waiting(model_responses=[response(LOOK), response(PAY | {"call_id": "c1"})])
    other = item("tool_approval_item", PAY | {"arguments": '{"order": "A", "cents": 1}'})
    step = {"type": "next_step_interruption", "data": {"interruptions": [other]}}
    yield "waits with other arguments", waiting(current_step=step)
    yield "no context", {key: value for key, value in waiting().items() if key != "context"}
    yield "no input", {key: value for key, value in waiting().items() if key != "original_input"}
    inner = waiting()
    for _ in range(25):
        function = {"tool_call": call("ask", "o"), "tool": {}, "agent_run_state": inner}
        inner = waiting(last_processed_response={"functions": [function]})
    yield "runs inside each other", inner
    function = {"tool_call": call("ask", "o"), "agent_run_state": waiting(**{"$schemaVersion": "9.9"})}
    yield "newer inside", waiting(last_processed_response={"functions": [function]})


@pytest.mark.parametrize(("name", "state"), list(broken()), ids=[name for name, _ in broken()])
def test_damage_is_refused_by_name(name: str, state: Any, tmp_path: Path) -> None:
    """A damaged state is a LogError that names file and run."""
    path = saved(state, tmp_path)
    with pytest.raises(LogError) as raised:
        load_log(path)
    assert raised.value.path == str(path)
    assert raised.value.execution_id == "ticket-7" or "torn" in name


JUNK: list[Any] = [None, True, 10**400, "", "\ud800", [], [[1]], {"a": {}}]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in plain data."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def test_anything_anywhere_is_a_log_or_a_log_error(tmp_path: Path) -> None:
    """Whatever stands in any place of a state, there is a log that folds, or a LogError; never another exception."""
    whole = waiting(trace={"id": "t", "workflow_name": "w", "metadata": {"a": 1}})
    kept = 0
    for place in places(whole):
        if not place:
            continue
        for junk in JUNK:
            state = copy.deepcopy(whole)
            target = state
            for key in place[:-1]:
                target = target[key]
            target[place[-1]] = junk
            data = json.dumps(state).encode()
            path = tmp_path / "run.json"
            path.write_bytes(data)
            for log in source.read(path):
                if isinstance(log, LogError):
                    continue
                kept += 1
                try:
                    assert log.state.execution_id == "run"
                    assert log.state.facts()
                except LogError:
                    continue
    assert kept > 500
