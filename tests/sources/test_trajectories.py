"""Public trajectories: every file of the corpus against counts of its raw JSON, tau-bench's agreement, and damage."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import Log, LogError, diff_runs, load_log, score_run
from pytest_loom.evals.scorers import trajectory_match
from pytest_loom.sources import iter_file
from pytest_loom.sources.trajectories import source
from tests.sources.wrong_types import spoiled

Json = dict[str, Any]
REFUSED = {
    "gt_tau_retail.json": "what people said about runs, not the runs",
    "magentic_one_ground_truth.json": "what people said about runs, not the runs",
}


@pytest.fixture(scope="module")
def folder(cases: Path) -> Path:
    """The folder of trajectories."""
    return cases / "corpus" / "trajectories"


@pytest.fixture(scope="module")
def airline(folder: Path) -> list[Log]:
    """tau-bench's 200 runs."""
    found = list(iter_file(folder / "tau-bench" / "gpt-4o-airline.json"))
    assert all(isinstance(item, Log) for item in found)
    return [item for item in found if isinstance(item, Log)]


def tools(log: Log) -> list[tuple[str, Any]]:
    """Name and arguments of each tool call."""
    return [(call.name, call.args) for call in log.state.calls if call.kind == "tool"]


def models(log: Log) -> int:
    """How many calls of a model there are."""
    return sum(call.kind == "model" for call in log.state.calls)


def read(value: Any, path: Path) -> list[Log | LogError]:
    """What the source makes of a value."""
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return list(iter_file(path))


class TestCorpus:
    def test_only_listed_files_are_refused(self, folder: Path) -> None:
        """Every JSON file and trajectory is read, but for those with a reason."""
        paths = [path for path in folder.rglob("*") if path.suffix in (".json", ".traj", ".eval")]
        refused = {path.name for path in paths for item in iter_file(path) if isinstance(item, LogError)}
        assert refused == set(REFUSED)

    def test_tau_bench(self, airline: list[Log], folder: Path) -> None:
        """Each run with all of its calls, arguments decoded, and its reward."""
        runs = json.loads((folder / "tau-bench" / "gpt-4o-airline.json").read_bytes())
        assert len(airline) == len(runs) == 200
        count = 0
        for log, run in zip(airline, runs, strict=True):
            said = [one for one in run["traj"] if one["role"] == "assistant"]
            called = [call["function"] for one in said for call in one.get("tool_calls") or []]
            assert tools(log) == [(call["name"], json.loads(call["arguments"])) for call in called]
            answers = [one["content"] for one in run["traj"] if one["role"] == "tool"]
            assert [call.output for call in log.state.calls if call.kind == "tool"] == answers
            assert models(log) == len(said)
            assert log.execution_id == f"{run['task_id']}/{run['trial']}"
            assert [one.payload for one in log.state.received if one.event_type == "RunScored"] == [
                {"value": run["reward"]}
            ]
            count += len(called)
        assert count == 1164

    def test_swe_agent(self, folder: Path) -> None:
        """Each action is a step, a tool call and an answer of the model, whichever way the model was asked to call."""
        paths = list(folder.rglob("*.traj"))
        for path in paths:
            raw = json.loads(path.read_bytes())
            log = load_log(path)
            entries = raw["trajectory"]
            assert models(log) == len(log.state.frames) == len(entries)
            assert [frame.output for frame in log.state.frames.values()] == [one["observation"] for one in entries]
            made = [call["function"] for one in raw["history"] for call in one.get("tool_calls") or []]
            if made:
                assert tools(log) == [(call["name"], json.loads(call["arguments"])) for call in made]
            else:
                assert tools(log) == [(one["action"].split()[0], {"command": one["action"].strip()}) for one in entries]
            assert log.state.variables["_output"] == raw["info"]["submission"]
        assert len(paths) > 10

    def test_magentic_one(self, folder: Path) -> None:
        """What each agent says is a step of that agent; the person's question is the input."""
        for name in ("intent_not_supported", "plan_adherence_failure"):
            path = folder / "agentrx" / "magentic-one" / f"{name}.json"
            raw = json.loads(path.read_bytes())
            log = load_log(path)
            said = [(one["role"].split(" (")[0], one["content"]) for one in raw if one["role"] != "human"]
            assert [(frame.step_id, frame.output) for frame in log.state.frames.values()] == said
            assert log.state.variables["_input"] == raw[0]["content"]


class TestTauBenchAgreement:
    """Of the runs of one task, how many take the same path: what the field measured, by our own comparison."""

    def pairs(self, airline: list[Log]) -> list[tuple[Log, Log]]:
        """Each two runs of the same task."""
        by_task: dict[str, list[Log]] = {}
        for log in airline:
            by_task.setdefault(log.execution_id.partition("/")[0], []).append(log)
        return [pair for logs in by_task.values() for pair in itertools.combinations(logs, 2)]

    @pytest.mark.parametrize(("args", "per_mille"), [("exact", 73), ("ignore", 167)])
    def test_by_trajectory_match(self, airline: list[Log], args: Any, per_mille: int) -> None:
        """7.3 % of the 300 pairs make the same calls with the same arguments, 16.7 % call the same tools."""
        pairs = self.pairs(airline)
        assert len(pairs) == 300
        same = 0
        for one, other in pairs:
            scored = score_run(other.state, {"path": trajectory_match(one, over="tools", args=args)})
            same += scored["path"].passed is True
        assert round(1000 * same / 300) == per_mille

    def test_by_diff(self, airline: list[Log]) -> None:
        """``diff_runs`` finds a difference in the arguments in just the pairs that do not match."""
        for one, other in self.pairs(airline):
            found = [item for item in diff_runs(one, other, compare=("tool-args",)) if item.kind == "tool-args"]
            assert (found == []) == (tools(one) == tools(other))

    def test_runs_that_pass_seldom_take_the_same_path(self, airline: list[Log]) -> None:
        """Of 82 pairs in which both runs pass, 9 match: compare outcomes first."""
        passed = {
            log.execution_id
            for log in airline
            for one in log.state.received
            if one.event_type == "RunScored" and one.payload["value"] == 1
        }
        both = [pair for pair in self.pairs(airline) if {log.execution_id for log in pair} <= passed]
        assert (len(both), sum(tools(one) == tools(other) for one, other in both)) == (82, 9)


CALL = {"id": "c", "type": "function", "function": {"name": "pay", "arguments": '{"cents": 5}'}}
TALK: list[Json] = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": "pay"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "paid"},
    {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
    {"role": "user", "content": "thanks"},
]


class TestConversations:
    @pytest.mark.parametrize("wrapped", [TALK, {"messages": TALK}, {"id": "x", "history": TALK}])
    def test_a_list_of_messages(self, wrapped: Any, tmp_path: Path) -> None:
        """Alone or under a key: the calls, what they gave, what the model was told, what it said last."""
        (log,) = read(wrapped, tmp_path / "talk.json")
        assert isinstance(log, Log)
        assert tools(log) == [("pay", {"cents": 5})]
        state = log.state
        assert (state.status, state.variables["_input"], state.variables["_output"]) == ("completed", "pay", "done")
        asked = [one.payload["request"]["messages"] for one in log.events if one.event_type == "MODEL_REQUESTED"]
        assert asked == [TALK[:2], TALK[3:4]]
        assert [one.payload for one in state.received] == [{"content": "thanks"}]
        assert (log.workflow_id, log.engine) == ("unknown", "trace")

    def test_one_conversation_a_line(self, tmp_path: Path) -> None:
        """JSON lines are a run each."""
        text = "\n".join(json.dumps({"messages": TALK}) for _ in range(3))
        found = read(text, tmp_path / "talks.jsonl")
        assert [item.execution_id for item in found if isinstance(item, Log)] == ["talks#1", "talks#2", "talks#3"]

    def test_the_older_way_to_call_a_function(self, tmp_path: Path) -> None:
        """``function_call`` has no id: the next message of that role answers it."""
        messages = [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "1"},
        ]
        (log,) = read(messages, tmp_path / "old.json")
        assert isinstance(log, Log)
        assert [(call.name, call.args, call.output) for call in log.state.calls[1:]] == [("f", {}, "1")]

    def test_a_call_that_nobody_answered_is_no_end(self, tmp_path: Path) -> None:
        """A trace that stops in the middle of a call is a run that is not over."""
        (log,) = read(TALK[:3], tmp_path / "cut.json")
        assert isinstance(log, Log)
        assert log.state.status == "running"

    def test_runs_kept_by_their_id(self, tmp_path: Path) -> None:
        """An object of runs is read like a list of them, and a run twice gets two names."""
        run = {"task_id": 7, "trial": 0, "reward": 1.0, "traj": TALK}
        found = read({"a": run, "b": run}, tmp_path / "runs.json")
        assert [item.execution_id for item in found if isinstance(item, Log)] == ["7/0", "7/0#2"]

    def test_ids_that_come_up_again(self, tmp_path: Path) -> None:
        """A provider that counts its calls anew in each answer: each call keeps its own result."""
        again = [TALK[2], {**TALK[3], "content": "one"}, TALK[2], {**TALK[3], "content": "two"}]
        (log,) = read([TALK[1], *again], tmp_path / "ids.json")
        assert isinstance(log, Log)
        assert [(call.call_id, call.output) for call in log.state.calls if call.kind == "tool"] == [
            ("c", "one"),
            ("c#2", "two"),
        ]


class TestSweAgent:
    def test_an_action_that_is_none_and_an_end_by_a_limit(self, tmp_path: Path) -> None:
        """A turn without a command is a step without a call; a run that a limit ended has failed."""
        entries = [
            {"action": "", "observation": "", "response": "hm"},
            {"action": "ls -l\n", "observation": "a", "response": "look"},
        ]
        (log,) = read({"trajectory": entries, "info": {"exit_status": "exit_cost"}}, tmp_path / "x.traj")
        assert isinstance(log, Log)
        assert list(log.state.frames) == ["no action", "ls"]
        assert tools(log) == [("ls", {"command": "ls -l"})]
        assert log.state.variables["_error"]["type"] == "exit_cost"

    def test_demonstrations_are_not_taken_for_the_run(self, tmp_path: Path) -> None:
        """Messages that were only shown to the model hold no calls of this run."""
        made = {"role": "assistant", "action": "a", "tool_calls": [CALL]}
        shown = {**made, "is_demo": True, "tool_calls": [{**CALL, "function": {"name": "x", "arguments": "{}"}}]}
        run = {"trajectory": [{"action": "a", "observation": "o"}], "history": [shown, made]}
        (log,) = read(run, tmp_path / "x.traj")
        assert isinstance(log, Log)
        assert tools(log) == [("pay", {"cents": 5})]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{", "it is not JSON"),
        ({"task_id": 1, "traj": []}, "it has no messages"),
        ({"task_id": 1, "traj": [3]}, "an entry of the messages is not an object"),
        ([{"role": "user", "content": "x"}, {"content": "y"}], "a message has no role"),
        ({"messages": [{"role": "user", "content": 1}, {"role": "assistant", "tool_calls": 3}]}, "tool_calls is not"),
        ('{"messages": [{"role": "user", "content": "x"}]}\n{"messages": [', "line 2: it is not JSON"),
    ],
)
def test_damage_is_named(value: Any, words: str, tmp_path: Path) -> None:
    """What is no trajectory is a LogError that says why, never another exception."""
    path = tmp_path / "x.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    (item,) = source.read(path)
    assert isinstance(item, LogError)
    assert words in item.what


def test_wrong_types_never_crash(tmp_path: Path) -> None:
    """Any value in place of any other gives a log or a LogError."""
    path = tmp_path / "x.json"
    run = {"trajectory": [{"action": "a", "observation": "o"}], "history": [{"role": "assistant"}], "info": {}}
    good: list[Any] = [TALK, {"task_id": 1, "traj": TALK}, run, [{"role": "human", "content": "x"}] * 2]
    for whole in good:
        for broken in spoiled(whole):
            path.write_text(json.dumps(broken), encoding="utf-8")
            for item in source.read(path):
                assert isinstance(item, LogError) or item.state
