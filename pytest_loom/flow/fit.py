"""Whether a run's recorded input fits today's flow, and what a ``transform_state`` makes of it (ADR 0056, D1 and D3).

The messages show what was recorded, what today's code takes, and a transform to start from.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import msgspec

from pytest_loom.errors import LoomError, ReplayDivergence, StateMigrationError, printable
from pytest_loom.evals.values import short
from pytest_loom.flow.definition import Flow
from pytest_loom.flow.history import History
from pytest_loom.flow.inputs import given, recorded_input
from pytest_loom.flow.lost import renamed_input
from pytest_loom.flow.values import encode, shown_type
from pytest_loom.log.event import Event
from pytest_loom.log.pure import Refused, run_pure

Transform = Callable[[Any], Any]
"""From the input that a run has to the input that today's flow takes."""

_MAX_FIELDS = 20


def check_fit(flow: Flow[..., Any], history: History) -> None:
    """Raise StateMigrationError where the run's input is not one that today's flow takes as it is."""
    why = misfit(flow, history)
    if why is None:
        renamed = renamed_input(flow, history)
        if renamed is None:
            return
        lost, filled = renamed
        why = (
            f"the recorded {printable(lost)} would be dropped, and {filled} filled with its default: today's flow "
            f"{flow.id} would run on what nobody gave it"
        )
        end = "  If that is right, say so: transform_state=lambda old: old\n"
    else:
        end = ""
    _refuse(flow, history, why, f"Without a transform the run cannot go on as {_named(flow)}.", end)


def misfit(flow: Flow[..., Any], history: History) -> str | None:
    """Why today's flow does not take the input that the run has, or None."""
    try:
        recorded_input(flow, history)
    except ReplayDivergence as problem:
        return problem.what
    except LoomError:
        raise
    except Exception as problem:  # a validator of the input's type
        raised = f"{type(problem).__name__}: {printable(str(problem), 200)}"
        return f"the recorded input does not fit today's flow {flow.id}: its type raised {raised}"
    return None


def transformed(flow: Flow[..., Any], history: History, transform: Transform) -> bytes:
    """What the transform makes of the run's input, as JSON text.

    It is called twice, each time with a copy of its own. Raises StateMigrationError where it raises, returns None,
    changes its argument, gives something else the second time, or gives what the flow's input type rejects.
    """
    rejected = ""

    def today(old: Any) -> Any:
        nonlocal rejected
        outcome = transform(old)
        if inspect.iscoroutine(outcome):
            outcome.close()
            raise TypeError("it is async, and a transform only computes: fetch before what it needs")
        if outcome is None:
            return None
        try:
            return msgspec.json.decode(given(flow, outcome)[2])
        except LoomError as problem:
            rejected = problem.what
        except Exception as problem:  # a validator of the input's type
            rejected = f"the input's type raised {type(problem).__name__}: {printable(str(problem), 200)}"
        rejected += f"\n    returned: {short(_shown(outcome), 200)}"
        raise ValueError(rejected)

    try:
        return encode(run_pure(today, _input(history), "input"))
    except Refused as refusal:
        if rejected:
            what = f"what transform_state returned is no input of today's flow: {rejected}"
            _refuse(flow, history, what, f"The run would fail as soon as it goes on as {_named(flow)}.")
        _refuse(flow, history, f"transform_state {refusal.what}", refusal.hint, cause=refusal.__cause__)


def _input(history: History) -> Any:
    """The folded input as plain data; None where the run was started without one."""
    return history.log.state.variables.get("_input")


def _shown(outcome: Any) -> Any:
    try:
        return msgspec.json.decode(encode(outcome))
    except (TypeError, ValueError, RecursionError):
        return printable(repr(outcome), 200)


# What is said -------------------------------------------------------------------------------------------------------


def _refuse(
    flow: Flow[..., Any],
    history: History,
    what: str,
    consequence: str,
    advice: str = "",
    cause: BaseException | None = None,
) -> NoReturn:
    log, data = history.log, _input(history)
    told = _told_by(history)
    hint = f"{consequence} Nothing was appended: the run is as it was.\n{advice}{sketch(flow, history)}"
    raise StateMigrationError(
        f"{what}\n    recorded: {short(data, 200) if history.raw_input else 'no input'}\n    today: {_takes(flow)}",
        path=log.path,
        line=told.line,
        execution_id=log.execution_id,
        hint=hint,
    ) from cause


def _told_by(history: History) -> Event:
    """The event that told the input which the run has."""
    events = history.log.events
    return events[history.migrated_at - 1] if history.migrated_at else events[0]


def _named(flow: Flow[..., Any]) -> str:
    return f"{flow.id} {flow.version}" if flow.version is not None else flow.id


def _takes(flow: Flow[..., Any]) -> str:
    """The input that today's flow takes, in a line."""
    if not flow.parameters:
        return f"{_named(flow)} takes no input"
    if len(flow.parameters) == 1:
        return f"{_named(flow)} takes {_typed(flow)}"
    fields = _fields(flow) or {}
    return f"{_named(flow)} takes {', '.join(f'{name}: {kind}' for name, (kind, _) in fields.items())}"


def _typed(flow: Flow[..., Any]) -> str:
    fields = _fields(flow)
    name = shown_type(flow.input.annotation)
    if fields is None:
        return name
    shown = [f"{key}: {kind}" for key, (kind, _) in list(fields.items())[:_MAX_FIELDS]]
    return f"{name} ({', '.join(shown)})"


def _fields(flow: Flow[..., Any]) -> dict[str, tuple[str, bool]] | None:
    """The fields of today's input, each with its type as text and whether it is required; None where it has none."""
    if len(flow.parameters) > 1:
        return {
            part.name: (shown_type(flow.annotation(part.name)), part.default is part.empty) for part in flow.parameters
        }
    schema = flow.input.schema()
    if schema is None:
        return None
    if "$ref" in schema:
        schema = schema.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], schema)
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return None
    required = schema.get("required", ())
    return {name: (_kind(part), name in required) for name, part in properties.items()}


def _kind(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_kind(part) for part in schema["anyOf"]))
    return str(schema.get("format") or schema.get("type", "any"))


def sketch(flow: Flow[..., Any], history: History) -> str:
    """A transform of the run's input to start from, and how it is given."""
    data = _input(history)
    if not flow.parameters:
        return f"  Let the flow take it still: def {flow.fn.__name__}(ctx, _old=None)."
    fields = _fields(flow)
    lines = ["def to_today(old):"]
    if fields is None or not isinstance(data, dict):
        lines.append(f"    return ...  # {_takes(flow)}")
    else:
        lines += ["    return {", *_entries(flow, data, fields), "    }"]
    code = [*lines, "", "resume_as(log, flow, transform_state=to_today)"]
    return "  Say what the recorded input is today, such as:\n\n" + "\n".join(f"      {line}".rstrip() for line in code)


def _entries(flow: Flow[..., Any], data: dict[str, Any], fields: dict[str, tuple[str, bool]]) -> Iterator[str]:
    gone = [name for name in data if name not in fields]
    missing = [name for name, (_, required) in fields.items() if name not in data and required]
    missing = missing or [name for name in fields if name not in data and gone]
    misfits = _misfits(flow, data)
    for name, (kind, _) in list(fields.items())[:_MAX_FIELDS]:
        key = json.dumps(printable(name))
        if name in misfits and name in data:
            yield f"        {key}: ...,  # {kind}; recorded: {short(data[name], 40)}"
        elif name in data:
            yield f"        {key}: old[{key}],"
        elif name in missing and len(gone) == 1 and len(missing) == 1:
            old = json.dumps(printable(gone[0]))
            yield f"        {key}: old[{old}],  # {kind}; recorded: {short(data[gone[0]], 40)}. In the same unit?"
        elif name in missing:
            yield f"        {key}: ...,  # {kind}; not recorded"


def _misfits(flow: Flow[..., Any], data: dict[str, Any]) -> set[str]:
    """The recorded fields whose values today's types reject."""
    found: set[str] = set()
    if len(flow.parameters) > 1:
        for name in data.keys() & flow.input_parts.keys():
            try:
                flow.input_parts[name].load(data[name])
            except Exception:
                found.add(name)
        return found
    try:
        flow.input.load(data)
    except Exception as problem:
        errors = getattr(problem, "errors", None)
        if callable(errors):
            found = {str(error["loc"][1]) for error in errors() if len(error["loc"]) > 1}
    return found
