"""Whether the classes that a saved state names are still what they were, without importing or calling any.

A store names classes by module and name, and engines build them anew on resume: where that fails they hand over plain
dicts, or objects that never were validated, without an error. Only modules that today's application has loaded itself
are looked into; of others it is only looked whether their source has such a class.
"""

from __future__ import annotations

import ast
import enum
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from pytest_loom.contract.binding import bind
from pytest_loom.contract.model import Contract
from pytest_loom.contract.nodes import Undecided
from pytest_loom.deploy.checkpoint import applies, frontier_of, items
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.errors import FlowError, printable
from pytest_loom.log.event import Log
from pytest_loom.sources.langgraph.calls import typed_values

_KEYS = {"$type", "$via", "$value"}
_UNTOLD = object()


def class_drift(log: Log, contract: Contract, yesterday: Contract | None) -> Iterator[Finding]:
    """A class that the saved state holds objects of is gone, or does not take their fields any more."""
    if not applies(log, contract):
        return
    said: set[str] = set()
    for key, value in _saved(log, contract):
        for item in typed_values(value):
            name = item["$type"]
            if name in said:
                continue
            problem = _problem(name, item["$via"], item["$value"])
            if problem:
                said.add(name)
                yield finding(
                    log,
                    "state-type",
                    f"the saved {printable(key)} holds an object of {printable(name)}, and {problem}.",
                    f"Keep {printable(name)} able to take what was saved (an alias for a class, a default for a field)"
                    " until these runs are over, or convert the value with update_state.",
                    step=key,
                )


def _saved(log: Log, contract: Contract) -> Iterator[tuple[str, Any]]:
    """The values that a resume would build: of keys that today's state has, and the arguments of sent work."""
    schema = contract.state_schema
    known = schema.get("properties") if isinstance(schema, dict) else None
    snapshots: dict[str, Any] = {}
    for event in log.events:
        if event.event_type == "STATE_SNAPSHOT":
            snapshots[event.namespace or ""] = event
    for namespace, event in snapshots.items():
        state = event.payload.get("state")
        for key, value in state.items() if isinstance(state, dict) else ():
            if namespace or not isinstance(known, dict) or key in known:
                yield key, value
    for send in items(frontier_of(log), "sends"):
        yield str(send.get("node")), send.get("arg")


def _problem(name: str, via: Any, value: Any) -> str:
    module, _, label = name.rpartition(".")
    root = module.partition(".")[0]
    if via in ("opaque", "lc", "numpy", "delta") or not module or root in ("__main__", "builtins"):
        return ""
    if root in sys.stdlib_module_names or root in ("langchain_core", "langgraph", "langchain"):
        return ""
    loaded = sys.modules.get(module)
    if loaded is None:
        return "" if is_in_source(module, label) else f"there is no such class today: {_AS_DICT}"
    cls = vars(loaded).get(label)
    if cls is None:
        return "" if "__getattr__" in vars(loaded) else f"there is no such class today: {_AS_DICT}"
    if not isinstance(cls, type):
        return ""
    return _unfit(cls, via, value)


_AS_DICT = "it would come back as plain data, not as an object"


def _unfit(cls: type, via: Any, value: Any) -> str:
    """Why today's class does not take what was saved of an object; "" where it does, or that cannot be told."""
    if issubclass(cls, enum.Enum):
        known = [member.value for member in cls]
        return "" if not isinstance(value, (str, int)) or value in known else f"it has no member {value!r} today"
    if not isinstance(value, dict) or via not in ("kwargs", "pydantic", "pydantic1"):
        return ""
    model = getattr(cls, "model_fields", None)
    if isinstance(model, dict):
        return _unfit_model(cls, model, value)
    if is_dataclass(cls):
        taken = {item.name for item in fields(cls) if item.init}
        needed = {
            item.name
            for item in fields(cls)
            if item.init and item.default is MISSING and item.default_factory is MISSING
        }
    elif issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple):
        taken = set(cls._fields)  # type: ignore[attr-defined]
        needed = taken - set(getattr(cls, "_field_defaults", ()))
    else:
        return ""
    return _gap(set(value) - taken, needed - set(value))


def _gap(extra: set[str], missing: set[str]) -> str:
    found = []
    if missing:
        found.append(f"it needs {_listed(missing)} today")
    if extra:
        found.append(f"it has no field {_listed(extra)} any more")
    return f"{' and '.join(found)}: {_AS_DICT}" if found else ""


def _unfit_model(cls: type, model: dict[str, Any], value: dict[str, Any]) -> str:
    """A pydantic model that does not validate is made without validation: fields are missing or of another type."""
    if any(field.alias or field.validation_alias for field in model.values()):
        return ""
    missing = {name for name, field in model.items() if field.is_required()} - set(value)
    extra = set(value) - set(model)
    config = getattr(cls, "model_config", {})
    if missing:
        return f"it needs {_listed(missing)} today: an object would be made without validation, and lack them"
    if extra and config.get("extra") == "forbid":
        return f"it has no field {_listed(extra)} any more: an object would be made without validation"
    empty = [name for name in model if name not in value]
    if extra and empty and config.get("extra") != "allow":
        return (
            f"it has no field {_listed(extra)} any more: what was saved in it is dropped, and {printable(empty[0])}"
            " gets its default"
        )
    try:
        facts = bind(cls.model_json_schema(), _bare(value))  # type: ignore[attr-defined]
    except (Undecided, FlowError, RecursionError, TypeError, ValueError):
        return ""
    except Exception:  # a model's own hooks may raise anything; then nothing can be said
        return ""
    for path, fact in facts.items():
        if fact.kind == "refused" and path:
            return f"its {printable('.'.join(map(str, path)))} {fact.note} today: an object is made without validation"
    return ""


def _bare(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == _KEYS:
        if value["$via"] in ("kwargs", "pydantic"):
            return _bare(value["$value"])
        raise Undecided("a value of another class")
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items()}
    return [_bare(item) for item in value] if isinstance(value, list) else value


def _listed(names: set[str]) -> str:
    return ", ".join(printable(name) for name in sorted(names)[:4])


@lru_cache(maxsize=256)
def is_in_source(module: str, label: str) -> bool:
    """Whether the source of a module that is not loaded has such a name; True where that cannot be told."""
    spec: ModuleSpec | None = None
    path: list[str] | None = None
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        try:
            spec = PathFinder.find_spec(name, path)
        except (ImportError, ValueError, TypeError, OSError):
            return True
        if spec is None:
            return name in sys.modules  # something made it up while running
        path = list(spec.submodule_search_locations or ())
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return True
    try:
        tree = ast.parse(Path(spec.origin).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return True
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == label:
            return True
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if any((alias.asname or alias.name.partition(".")[0]) in (label, "*") for alias in node.names):
                return True
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if any(isinstance(inner, ast.Name) and inner.id == label for inner in ast.walk(node)):
                return True
            if any(isinstance(inner, ast.ClassDef) and inner.name == label for inner in ast.walk(node)):
                return True
    return False


CHECKS = (class_drift,)
