"""Every run state of the corpus: what our reader says of it, against what the SDK's own ``from_json`` says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import load_log
from pytest_loom.errors import LogError
from pytest_loom.sources import find_files, iter_file

sdk: Any = pytest.importorskip("agents", reason="needs the extra: pip install pytest-loom[openai-agents]")
if not hasattr(sdk, "FunctionTool"):
    pytest.skip("needs openai-agents, and this is another package named agents", allow_module_level=True)


def named(value: Any, key: str) -> Iterator[str]:
    """Every name under ``key`` in plain data: ``{"name": …}`` or a text."""
    for name, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if name == key:
            yield from [part["name"]] if isinstance(part, dict) and "name" in part else []
            yield from [part] if isinstance(part, str) else []
        yield from named(part, key)


def stand_in(saved: Any) -> Any:
    """A starting agent with every agent and tool that a saved run names, so that the SDK has nothing to refuse."""

    async def never(ctx: Any, given: str) -> str:
        raise AssertionError("no tool runs here")

    tools = [
        sdk.FunctionTool(name, "", {"type": "object", "properties": {}}, never, strict_json_schema=False)
        for name in dict.fromkeys(named(saved, "tool_name"))
        if not name.startswith("transfer_to_")
    ]
    keys = ("agent", "source_agent", "target_agent", "current_agent")
    names = dict.fromkeys(name for key in keys for name in named(saved, key))
    first, *others = [sdk.Agent(name=name, tools=tools) for name in names] or [sdk.Agent(name="none")]
    first.handoffs = others
    return first


def files(cases: Path) -> list[Path]:
    """Every JSON file of the corpus that is, or is taken for, a run state."""
    found = find_files(cases / "corpus" / "openai_agents")
    return [path for path in found if path.suffix == ".json" and path.name != "trace_spans.json"]


def restored(saved: Any) -> Any:
    """What the SDK makes of a saved run, or the exception that it raises."""
    try:
        return asyncio.run(sdk.RunState.from_json(stand_in(saved), saved))
    except Exception as problem:
        return problem


def test_every_run_state_is_read_or_refused_as_the_sdk_does(cases: Path) -> None:
    """The same files are refused; in all others agent, model responses, calls, outputs and what waits are the same."""
    refused, waiting = [], []
    for path in files(cases):
        saved = json.loads(path.read_bytes())
        state = restored(saved)
        (log,) = iter_file(path)
        if isinstance(log, LogError) or isinstance(state, Exception):
            assert isinstance(log, LogError), f"{path.name}: the SDK says {state}"
            assert isinstance(state, Exception), f"{path.name}: {log}"
            refused.append(path.name)
            continue
        folded = log.state
        assert folded.manifest["agent"] == state._current_agent.name, path.name
        assert [call.kind for call in folded.calls].count("model") == len(state._model_responses), path.name
        done = {
            item.raw_item["call_id"] if isinstance(item.raw_item, dict) else item.raw_item.call_id
            for item in [*state._session_items, *state._generated_items]
            if type(item).__name__ in ("ToolCallOutputItem", "HandoffOutputItem")
        }
        programs = {item["call_id"] for item in _programs(saved)}
        ours = {call.call_id for call in folded.calls if call.kind == "tool" and call.status == "completed"}
        assert ours == done - programs, path.name
        theirs = [
            (item.call_id, item.name, json.loads(item.arguments or "{}"), item.agent.name, _decision(state, item))
            for item in state.get_interruptions()
        ]
        pending = folded.suspensions[0].pending if folded.suspensions else []
        shown = [(p["callId"], p["name"], p["args"], p["agent"], p.get("decision")) for p in pending]
        assert shown == theirs, path.name
        assert (folded.status == "suspended") == bool(theirs), path.name
        waiting += [path.name] if theirs else []
    assert sorted(refused) == ["malformed_current_agent.json", "missing_version.json"]
    assert len(waiting) >= 3


def _programs(saved: Any) -> list[Any]:
    """The provider's own programs, which are no calls of ours."""
    items = saved.get("generated_items", []) + saved.get("session_items", [])
    return [item["raw_item"] for item in items if item["raw_item"].get("type") == "program"]


def _decision(state: Any, item: Any) -> str | None:
    status = state._context.get_approval_status(item.tool_name or item.name, item.call_id, existing_pending=item)
    return {True: "approved", False: "rejected", None: None}[status]


@pytest.mark.parametrize(
    ("name", "status", "steps", "output"),
    [
        ("run_state_interrupted", "suspended", ["support", "support#2"], None),
        ("run_state_approved_pending", "suspended", ["support", "support#2"], None),
        ("run_state_handoff_interrupted", "suspended", ["triage", "billing"], None),
        ("run_state_completed", "completed", ["support", "support#2", "support#3"], "Refunded 49.99"),
    ],
)
def test_runs_as_they_were_made(cases: Path, name: str, status: str, steps: list[str], output: Any) -> None:
    """The four runs that were made for the corpus, by hand: a lookup or a handoff, then a refund that asks."""
    log = load_log(cases / "corpus" / "openai_agents" / f"{name}.json")
    assert (log.state.status, list(log.state.frames), log.state.variables.get("_output")) == (status, steps, output)
