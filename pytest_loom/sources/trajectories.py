"""Public trajectories of agents, each run a log: tau-bench's results, SWE-agent's ``.traj``, and lists of messages.

- tau-bench (https://github.com/sierra-research/tau-bench) writes a list of runs with ``task_id``, ``trial``, ``reward``
  and the messages under ``traj``; AgentRx keeps the runs that it studies in the same form.
- SWE-agent (https://swe-agent.com/latest/usage/trajectories/) writes a ``trajectory`` of actions and observations. An
  action is a command of its shell: the tool is the first word, or the function that the model called.
- Messages are those of a chat with tools, alone or under ``messages`` (``history``), one conversation a file or a line;
  or, where other roles than a chat's speak, those of several agents, in which what each says is a step (Magentic-One).

Nothing resumes such a run, and none says which flow it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import Engine, Log, LogBuilder
from pytest_loom.log.files import read_document
from pytest_loom.sources.calls import Calls
from pytest_loom.sources.chat import ROLES, Chat, plain_text, tool_calls
from pytest_loom.sources.outline import outline
from pytest_loom.sources.shape import Malformed, documents, table, tables, text

__all__ = ["TrajectorySource", "source"]

UNKNOWN_FLOW = "unknown"
_LISTS = ("traj", "messages", "history")
"""Under which keys a conversation stands."""

_HUMAN = frozenset({"human", "user", "system"})
"""Who speaks in a conversation of several agents without being one of them."""


class TrajectorySource:
    """Reads what benchmarks and agents publish of their runs."""

    name = "trajectories"
    engine: Engine = "trace"
    live = False
    suffixes = (".traj", ".json", ".json.gz", ".jsonl", ".jsonl.gz")

    def sniff(self, path: Path, head: bytes) -> bool:
        """Whether the first 64 KiB (decompressed) begin runs or messages; the suffix ``.traj`` is enough."""
        if path.suffix == ".traj":
            return True
        keys = outline(head)
        runs = any(key.endswith("traj") and key.count(".") < 2 and f"{key[:-4]}task_id" in keys for key in keys)
        actions = "trajectory" in keys and {"trajectory[].action", "trajectory[].observation"} <= keys
        said = any({f"{at}role", f"{at}content"} <= keys for at in ("[].", "messages[].", "history[]."))
        return runs or actions or (said and not keys & _NOT_A_CHAT)

    def read(self, path: Path) -> Iterator[Log | LogError]:
        """Each run of the file, or what is wrong with it."""
        try:
            runs = list(_runs(read_document(path)))
        except Malformed as problem:
            yield LogError(f"not a readable trajectory: {problem}", path=str(path))
            return
        except LogError as error:
            yield error
            return
        stem = path.name.partition(".")[0] or "unknown"
        taken: set[str] = set()
        for number, run in enumerate(runs, 1):
            name = _name(run, stem if len(runs) == 1 else f"{stem}#{number}")
            name = name if name not in taken else f"{name}#{number}"
            taken.add(name)
            yield _log(run, name, path)


_NOT_A_CHAT = frozenset({"[].parts", "messages[].parts", "[].message", "[].uuid", "eval", "resourceSpans"})
"""Keys of formats that are no list of chat messages, though they have roles and contents too."""


def _runs(data: bytes) -> Iterator[Any]:
    """The runs of a file: one document of one or several, or one a line. Raises Malformed."""
    found = documents(data)
    if len(found) > 1:
        yield from (run for run, _ in found)
        return
    whole = found[0][0]
    if isinstance(whole, dict) and whole and all(isinstance(run, dict) and "traj" in run for run in whole.values()):
        yield from whole.values()  # by their id
    elif isinstance(whole, list) and whole and all(isinstance(run, (dict, list)) and _is_run(run) for run in whole):
        yield from whole
    else:
        yield whole


def _is_run(value: Any) -> bool:
    return isinstance(value, list) or any(key in value for key in (*_LISTS, "trajectory"))


def _name(run: Any, default: str) -> str:
    """Which run it is: of which task, and which of its trials."""
    if not isinstance(run, dict):
        return default
    for key in ("task_id", "instance_id", "trajectory_id", "id"):
        value = run.get(key)
        if (isinstance(value, (str, int)) and not isinstance(value, bool)) and str(value):
            trial = run.get("trial")
            return f"{value}/{trial}" if isinstance(trial, int) else str(value)
    return default


def _log(run: Any, name: str, path: Path) -> Log | LogError:
    try:
        calls = Calls(LogBuilder(name, UNKNOWN_FLOW, path=str(path)))
        if isinstance(run, dict) and isinstance(run.get("trajectory"), list):
            _swe_agent(run, calls)
        else:
            around: dict[str, Any] = {} if isinstance(run, list) else table(run, "a run")
            listed = next((around[key] for key in _LISTS if key in around), None)
            messages = run if isinstance(run, list) else listed
            _conversation(around, tables(messages, "the messages"), calls)
        return calls.builder.log(source="trajectories", engine="trace")
    except Malformed as problem:
        return LogError(f"not a readable trajectory: {problem}", path=str(path), execution_id=name)
    except LogError as error:
        return error


# Conversations --------------------------------------------------------------------------------------------------------


def _conversation(run: dict[str, Any], messages: list[dict[str, Any]], calls: Calls) -> None:
    if not messages:
        raise Malformed("it has no messages")
    facts = {key: run[key] for key in ("task_id", "trial", "info", "model") if run.get(key) is not None}
    asked = next((one.get("content") for one in messages if text(one.get("role")) in ("user", "human")), None)
    calls.add("EXECUTION_STARTED", {"input": asked, "manifest": facts})
    roles = {text(message.get("role")) for message in messages}
    if "" in roles:
        raise Malformed("a message has no role")
    if roles <= ROLES:
        chat = Chat(calls, text(run.get("model")) or "unknown")
        chat.tell(messages)
        said = chat.said
    else:
        said = _several_agents(messages, calls)
    if run.get("reward") is not None:
        calls.add("RunScored", {"value": run["reward"]})
    if not calls.is_waiting:
        calls.add("EXECUTION_COMPLETED", {"output": said})


def _several_agents(messages: list[dict[str, Any]], calls: Calls) -> str | None:
    """What each agent says is a step of its own; a role may say in brackets what for, or to whom."""
    said = None
    for number, message in enumerate(messages, 1):
        calls.line = number
        role, content = text(message.get("role")), message.get("content")
        if role in _HUMAN:
            if number > 1:
                calls.add("UserPrompt", {"content": content})
            continue
        name, _, about = role.partition(" (")
        facts: dict[str, Any] = {"stepId": name, "callId": f"message-{number}"}
        calls.add("STEP_STARTED", facts | ({"about": about.removesuffix(")")} if about else {}))
        calls.add("STEP_COMPLETED", facts | {"output": content})
        said = plain_text(content) or said
    return said


# SWE-agent ------------------------------------------------------------------------------------------------------------


def _swe_agent(run: dict[str, Any], calls: Calls) -> None:
    entries = tables(run["trajectory"], "trajectory")
    history = [one for one in tables(run.get("history"), "history") if not one.get("is_demo")]
    info = table(run.get("info"), "info")
    asked = next((one.get("content") for one in history if text(one.get("role")) == "user"), None)
    facts = {key: run[key] for key in ("environment", "instance_id") if text(run.get(key))}
    calls.add("EXECUTION_STARTED", {"input": asked, "manifest": facts | {"framework": "swe-agent"}})
    made = _made(entries, history)
    for number, entry in enumerate(entries, 1):
        calls.line = number
        action = text(entry.get("action")).strip()
        call_id = calls.asks("unknown", {})
        said = entry.get("response")
        calls.add("MODEL_COMPLETED", {"callId": call_id, "response": said})
        observation = entry.get("observation")
        wanted = made(number - 1) or ([(action.split()[0], {"command": action}, "")] if action else [])
        step = {"stepId": wanted[0][0] if wanted else "no action", "callId": f"action-{number}"}
        calls.add("STEP_STARTED", step)
        for name, args, given in wanted:
            calls.calls(name, args, given)
            calls.add("TOOL_COMPLETED", (calls.close(given) or {}) | {"output": observation})
        calls.add("STEP_COMPLETED", step | {"output": observation})
    _ended(info, calls)


def _made(entries: list[dict[str, Any]], history: list[dict[str, Any]]) -> Callable[[int], list[tuple[str, Any, str]]]:
    """The function calls of an entry of the trajectory: they stand in the history, with the message of that action."""
    said = [one for one in history if text(one.get("role")) == "assistant"]
    found: dict[int, list[tuple[str, Any, str]]] = {}
    at = 0
    for number, entry in enumerate(entries):
        action = text(entry.get("action"))
        ahead = next((i for i in range(at, min(at + 20, len(said))) if text(said[i].get("action")) == action), None)
        if ahead is not None:
            found[number] = tool_calls(said[ahead])
            at = ahead + 1
    return lambda number: found.get(number, [])


def _ended(info: dict[str, Any], calls: Calls) -> None:
    """How the run ended. A submission is an end, also where a limit was what made it."""
    status = info.get("exit_status")
    if status is None:
        return  # nobody wrote down how
    shown = printable(str(status))
    if str(status).startswith("submitted"):
        calls.add("EXECUTION_COMPLETED", {"output": info.get("submission")})
    else:
        calls.add("EXECUTION_FAILED", {"error": {"type": shown, "message": f"the run ended with {shown}"}})


source = TrajectorySource()
