"""Exceptions in a log: ``{"type", "message"}``, and raised again only as a class that is at hand without the log.

A recorded name imports nothing: it is looked up among the builtins, what the flow's own module refers to, and the
subclasses of exception classes that it refers to. Any other exception comes back as a StepError.
"""

from __future__ import annotations

import base64
import builtins
import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from pytest_loom.errors import StepError, printable
from pytest_loom.flow.values import type_name

CANCELLED = "asyncio.exceptions.CancelledError"
"""The recorded type of an effect that the flow itself cancelled (a timeout, a failed sibling)."""

MAX_IN_GROUP = 100
"""How many exceptions of a group are recorded, and how deep groups may lie in groups."""

_PLAIN = (str, bool, type(None), bytes)


def error_payload(problem: BaseException, depth: int = 0) -> dict[str, Any]:
    """What is recorded of an exception: its type and text, and its arguments where the text alone would not do.

    A group also has its ``exceptions``, each said like this.
    """
    found: dict[str, Any] = {"type": type_name(type(problem)), "message": _text(problem)}
    if isinstance(problem, StepError) and problem.type:
        return {"type": problem.type, "message": problem.message}
    if isinstance(problem, BaseExceptionGroup):
        found["args"] = [_text(problem.message)]
        parts = problem.exceptions[:MAX_IN_GROUP] if depth < MAX_IN_GROUP else ()
        return {**found, "exceptions": [error_payload(part, depth + 1) for part in parts]}
    args = problem.args
    if isinstance(problem, OSError) and type(problem).__reduce__ is OSError.__reduce__:
        args = problem.__reduce__()[1]  # type: ignore[assignment]  # with the names of files, which args leaves out
    if args != (found["message"],) and all(_is_plain(part) for part in args):
        found["args"] = [
            {"$type": "bytes", "$via": "base64", "$value": base64.b64encode(part).decode()}
            if isinstance(part, bytes)
            else part
            for part in args
        ]
    return found


def _is_plain(part: Any) -> bool:
    """Whether JSON says it so that it comes back the same."""
    if type(part) is float:
        return math.isfinite(part)
    if type(part) is int:
        return -(2**63) <= part < 2**63
    return type(part) in _PLAIN and (type(part) is not str or _text(part) == part)


def _text(problem: object) -> str:
    try:
        return str(problem).encode("utf-8", "replace").decode()
    except Exception as nested:
        return f"<{type(nested).__name__} in its own text>"


def revived(error: Any, fn: Callable[..., Any], step: str) -> BaseException:
    """The exception that a recorded error stands for, as far as code at hand knows its class."""
    facts = error if isinstance(error, dict) else {}
    name, message = str(facts.get("type", "")), str(facts.get("message", ""))
    kind = _class_named(name, fn)
    if kind is not None:
        with contextlib.suppress(Exception):  # a log may say what its class does not take
            if issubclass(kind, BaseExceptionGroup):
                parts = [revived(part, fn, step) for part in facts["exceptions"][:MAX_IN_GROUP]]
                return kind(facts["args"][0], parts)
            return _made(kind, message, facts.get("args"))
    return StepError(
        f"the recorded run failed here with {printable(name)}: {printable(message, 500)}",
        type=name,
        message=message,
        step=step,
        hint=f"Its class is not at hand. To raise it as itself, import {printable(name)} in the flow's module.",
    )


def _made(kind: type[BaseException], message: str, args: Any) -> BaseException:
    given = tuple(_argument(part) for part in args) if isinstance(args, list) else (message,)
    with contextlib.suppress(Exception):  # a constructor of another shape
        made = kind(*given)
        if _text(made) == message:
            return made
    with contextlib.suppress(Exception):
        made = kind.__new__(kind, *given)
        made.args = given
        if _text(made) == message:
            return made
    made = kind.__new__(kind)
    made.args = (message,)
    return made


def _argument(part: Any) -> Any:
    if isinstance(part, dict) and part.get("$type") == "bytes" and part.get("$via") == "base64":
        return base64.b64decode(str(part.get("$value", "")))
    return part


def _class_named(name: str, fn: Callable[..., Any]) -> type[BaseException] | None:
    if "." not in name:
        found = getattr(builtins, name, None) if name else None
        return found if isinstance(found, type) and issubclass(found, Exception) else None
    for kind in _at_hand(fn, name):
        if type_name(kind) == name:
            return kind
    return None


def _at_hand(fn: Callable[..., Any], name: str) -> Iterator[type[Exception]]:
    """Exception classes that the flow's module and closure refer to, and subclasses of those."""
    from pytest_loom.flow.definition import closure_of

    module = sys.modules.get(getattr(fn, "__module__", ""))
    values = [*(vars(module).values() if module else getattr(fn, "__globals__", {}).values()), *closure_of(fn).values()]
    last = name.rpartition(".")[2]
    todo: list[type[Exception]] = []
    for value in values:
        if isinstance(value, ModuleType):
            value = vars(value).get(last)
        if isinstance(value, type) and issubclass(value, Exception):
            todo.append(value)
        elif isinstance(value, type):  # a class may hold exceptions of its own
            todo += [part for part in vars(value).values() if isinstance(part, type) and issubclass(part, Exception)]
    seen: set[type] = {Exception}  # everything is a subclass of it, so that it leads to nothing in particular
    while todo:
        kind = todo.pop()
        if kind not in seen:
            seen.add(kind)
            yield kind
            if kind.__module__ != "builtins":
                todo.extend(type.__subclasses__(kind))
