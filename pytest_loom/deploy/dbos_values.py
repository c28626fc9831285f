"""Whether today's classes still take what runs of DBOS have recorded, without importing or calling any.

DBOS pickles values: a class is looked up again by module and name, and an object gets its attributes back as they
were, with nothing of its class run. So a class that is gone ends the run in status ERROR, a field that is new is not
there, and one that got another name has its default, without a word.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

from pytest_loom.contract.pending import value_problems
from pytest_loom.deploy.checkpoint_types import is_in_source
from pytest_loom.deploy.report import Finding, Severity, finding
from pytest_loom.errors import printable
from pytest_loom.log.event import Log
from pytest_loom.sources.dbos.pickles import is_typed
from pytest_loom.sources.dbos.recorded import Record
from pytest_loom.sources.dbos.texts import reads_attribute

_MOST = 10_000
"""So many values of a run are looked at."""

_NOTHING = object()


def misfits(log: Log, flow: Any, record: Record) -> Iterator[Finding]:
    """What was recorded of a run, and what today's classes make of it where that is not what it was."""
    told: set[str] = set()
    for where, step, value in _values(record):
        for item in _objects(value):
            name = str(item["$type"])
            if name in told:
                continue
            problem, severity = _problem(name, item["$value"], flow)
            if problem:
                told.add(name)
                yield finding(
                    log,
                    "input-contract" if step is None else "output-contract",
                    f"{where} holds an object of {printable(name)}, and {problem}",
                    f"Keep {printable(name)} able to stand for what was recorded (an alias for a class, a property"
                    " under the new name that reads the old one), or let executors of the old code finish these runs.",
                    step=step,
                    severity=severity,
                )


def _values(record: Record) -> Iterator[tuple[str, str | None, Any]]:
    """What DBOS would build: where it is, the step whose answer it is, and the value."""
    yield "the recorded input", None, [record.args, record.kwargs]
    for number, operation in sorted(record.operations.items()):
        name = operation["name"]
        where = f"the recorded answer of {printable(name)} (operation {number})"
        yield where, name, [operation.get("output"), operation.get("raised")]
    for name, child in record.children.items():
        where = f"the result of the workflow {printable(name)}"
        yield where, str(child.get("name")), [child.get("output"), child.get("raised")]
    for letter in record.mail:
        yield "a message that is not read yet", "DBOS.recv", letter.get("message")


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object that is pickled by the name of its class, outermost first."""
    waiting = [value]
    for _ in range(_MOST):
        if not waiting:
            return
        item = waiting.pop()
        if is_typed(item):
            if item["$via"] == "pickle":
                yield item
            waiting.append(item["$value"])
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def _problem(name: str, content: Any, flow: Any) -> tuple[str, Severity]:
    root = name.partition(".")[0]
    if root in ("__main__", "builtins", "dbos") or root in sys.stdlib_module_names or "." not in name:
        return "", "info"
    cls = _today(name)
    if cls is None:
        return (
            "there is no such class today: DBOS cannot read it, and the run ends in status ERROR (AttributeError or"
            " ModuleNotFoundError).",
            "breaking",
        )
    state = _state(content)
    if not isinstance(cls, type) or state is None or _makes_up(cls):
        return "", "info"
    return _unfit(cls, state, flow)


def _today(name: str) -> Any:
    """What of that name there is; None where there is nothing, ``_NOTHING`` where that cannot be told."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        found: Any = sys.modules.get(".".join(parts[:count]))
        if found is None:
            continue
        for part in parts[count:]:
            if part in vars(found):
                found = vars(found)[part]
            elif isinstance(found, type) or not hasattr(found, "__path__"):
                return _NOTHING if "__getattr__" in vars(found) else None
            else:
                break  # a package: it may be a module of it that is not loaded
        else:
            return found if hasattr(found, "__dict__") else _NOTHING
        break
    places = range(1, len(parts))
    if any(_is_elsewhere(module, parts) for module in list(sys.modules)):
        return _NOTHING
    return _NOTHING if any(is_in_source(".".join(parts[:at]), parts[at]) for at in places) else None


def _is_elsewhere(module: str, parts: list[str]) -> bool:
    """Whether a loaded module is the recorded one under another root: where tests have another folder on the path."""
    holds = getattr(sys.modules.get(module), "__dict__", {})
    for at in range(1, len(parts)):
        name = ".".join(parts[:at])
        if name != module and parts[at] in holds and (name.endswith(f".{module}") or module.endswith(f".{name}")):
            return True
    return False


def _state(content: Any) -> dict[str, Any] | None:
    """The attributes by name; None where they were kept otherwise."""
    state = content.get("state") if isinstance(content, dict) else None
    if isinstance(state, dict) and isinstance(state.get("__dict__"), dict):
        state = state["__dict__"]  # pydantic
    return state if isinstance(state, dict) and not is_typed(state) else None


def _makes_up(cls: type) -> bool:
    """Whether the class has a way of its own to take a state, or to answer for attributes that are not there."""
    own = [vars(base) for base in cls.__mro__ if base.__module__.partition(".")[0] not in ("builtins", "pydantic")]
    return any(name in names for names in own for name in ("__setstate__", "__getattr__", "__getattribute__"))


def _unfit(cls: type, state: dict[str, Any], flow: Any) -> tuple[str, Severity]:
    names = vars(cls).get("__dataclass_fields__" if is_dataclass(cls) else "__pydantic_fields__")
    if not isinstance(names, dict):
        return "", "info"
    attributes = {
        name for base in cls.__mro__ for name, value in vars(base).items() if not inspect.ismemberdescriptor(value)
    }
    unset = [name for name in names if name not in state and name not in attributes]
    lost = [name for name in state if name not in names and name not in attributes]
    gone = f" (it has {_listed(lost)}, which today's class does not)" if lost else ""
    read = [name for name in unset if reads_attribute(flow, name)]
    if read or unset:
        return (
            f"it lacks {_listed(read or unset)} of today's class{gone}: an object is not made anew but gets back the"
            " attributes that it had. Where it is read, that is an AttributeError, and the run ends in status ERROR.",
            "breaking" if read else "warning",
        )
    for problem in value_problems(None, _schema(cls), {name: _plain(value) for name, value in state.items()}):
        if problem.kind == "renamed" and problem.path in lost:
            return f"{problem.detail}. DBOS says nothing.", "breaking"
    return "", "info"


def _schema(cls: type) -> Any:
    from pydantic import TypeAdapter

    try:
        return TypeAdapter(cls).json_schema()
    except Exception:  # pydantic has no schema for it
        return True


def _plain(value: Any) -> Any:
    """A value as it would stand in JSON."""
    if is_typed(value):
        return None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _listed(names: list[str]) -> str:
    return ", ".join(printable(name) for name in names[:4])
