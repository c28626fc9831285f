"""Our logs of Inspect's files against what Inspect's own reader makes of them, and of logs that it writes just now."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import Log
from pytest_loom.sources import iter_file

inspect_log: Any = pytest.importorskip("inspect_ai.log", reason="needs pip install inspect-ai")
inspect_ai: Any = importlib.import_module("inspect_ai")
OURS = ("init", "solvers", "scorers", "tool", "handoff", "subtask")


def told(path: Path) -> dict[str, Any]:
    """What our logs of a file say: steps, tool calls, answers of models and the outcome, by sample."""
    found = {}
    for log in iter_file(path):
        assert isinstance(log, Log), log
        state = log.state
        facts = state.manifest
        found[f"{facts['sampleId']}/{facts['epoch']}"] = {
            "flow": log.workflow_id,
            "input": state.variables["_input"],
            "steps": [frame.step_id for frame in state.frames.values()],
            "tools": [
                (call.name, call.args, call.error["message"] if call.error else call.output)
                for call in state.calls
                if call.kind == "tool"
            ],
            "models": [
                (call.name, call.output[0]["message"]["content"] if call.output else None, call.usage or None)
                for call in state.calls
                if call.kind == "model"
            ],
            "output": state.variables.get("_output"),
        }
    return found


def _usage(event: Any) -> Any:
    usage = event.output.usage
    return None if usage is None else usage.model_dump(exclude_none=True)


def read(path: Path) -> dict[str, Any]:
    """The same, of what Inspect reads."""
    log = inspect_log.read_eval_log(str(path), resolve_attachments="full")
    found = {}
    for sample in log.samples:
        events = sample.events
        steps = [one.name for one in events if one.event == "span_begin" and (one.type or one.name) not in OURS]
        steps += [one.name for one in events if one.event == "step" and one.action == "begin"]
        found[f"{sample.id}/{sample.epoch}"] = {
            "flow": log.eval.task,
            "input": sample.input,
            "steps": steps,
            "tools": [
                (one.function, one.arguments, one.error.message if one.error else one.result)
                for one in events
                if one.event == "tool"
            ],
            "models": [
                (one.model, one.output.choices[0].message.content if one.output.choices else None, _usage(one))
                for one in events
                if one.event == "model"
            ],
            "output": sample.output.completion,
        }
    return found


def test_the_corpus_reads_as_inspect_reads_it(cases: Path) -> None:
    """Every sample of every file: inputs, steps, tool calls with results, answers with usage, outcome."""
    paths = [*(cases / "corpus" / "inspect_ai").iterdir(), *(cases / "corpus/trajectories/inspect-logs").iterdir()]
    for path in paths:
        mine = told(path)
        assert mine == read(path)
        assert mine


@pytest.mark.filterwarnings("ignore")  # libraries of Inspect's deprecate each other
@pytest.mark.parametrize("kind", ["json", "eval"])
def test_what_todays_inspect_writes(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent with several epochs, a tool that fails, long texts (attachments) and a shared conversation (pools)."""
    monkeypatch.chdir(tmp_path)
    path = _evaluated(tmp_path, kind)
    mine = told(path)
    assert len(mine) == 2
    assert mine == read(path)
    assert [name for name, *_ in mine["1/1"]["tools"]] == ["look", "pay"]
    converted = tmp_path / "chunked"
    if kind == "eval":
        importlib.import_module("inspect_ai.log._recorders.chunked").convert_eval_logs_to_chunked(
            str(path), str(converted)
        )
        (chunked,) = converted.iterdir()
        assert told(chunked) == mine


def _evaluated(folder: Path, kind: str) -> Path:
    model: Any = importlib.import_module("inspect_ai.model")
    tool: Any = importlib.import_module("inspect_ai.tool")
    solver: Any = importlib.import_module("inspect_ai.solver")
    scorer: Any = importlib.import_module("inspect_ai.scorer")
    dataset: Any = importlib.import_module("inspect_ai.dataset")

    @tool.tool  # type: ignore[untyped-decorator]
    def look() -> Any:
        async def execute(order: str) -> str:
            """Look up an order.

            Args:
                order: its number
            """
            return f"{order}: " + "open " * 200

        return execute

    @tool.tool  # type: ignore[untyped-decorator]
    def pay() -> Any:
        async def execute(cents: int) -> str:
            """Pay.

            Args:
                cents: how much
            """
            raise tool.ToolError("the bank is closed")

        return execute

    def say(name: str, **args: Any) -> Any:
        return model.ModelOutput.for_tool_call("mockllm/model", name, args)

    outputs = [say("look", order="A-17"), say("pay", cents=5), model.ModelOutput.from_content("mockllm/model", "sorry")]
    for output in outputs:  # or it would count tokens, for which it asks a server
        output.usage = model.ModelUsage(input_tokens=3, output_tokens=4, total_tokens=7)
    task = inspect_ai.Task(
        dataset=[dataset.Sample(input="refund A-17 " * 20, target="sorry", id=1)],
        solver=[solver.use_tools([look(), pay()]), solver.generate()],
        scorer=scorer.includes(),
        epochs=2,
        name="refunds",
    )
    (log,) = inspect_ai.eval(
        task,
        model=model.get_model("mockllm/model", custom_outputs=outputs * 2),
        log_dir=str(folder / "logs"),
        log_format=kind,
        display="none",
        max_samples=1,
    )
    assert log.status == "success", log.error
    return Path(log.location.removeprefix("file://"))
