"""How runs ended otherwise: errors as LangChain writes them, and the questions of LangGraph among them.

An error is one text: the exception as Python shows it, and its traceback behind. It is read as text; nothing in it is
called or imported.
"""

from __future__ import annotations

import ast
from typing import Any

from pytest_loom.sources.literals import parsed, plain
from pytest_loom.sources.toolcalls import NOTHING

_TRACEBACK = "Traceback (most recent call last)"
_STOPS = ("GraphInterrupt", "NodeInterrupt")


def is_interrupt(error: str) -> bool:
    """Whether an error only says that LangGraph stopped to ask somebody."""
    return error.startswith(tuple(f"{name}(" for name in _STOPS))


def is_control(error: str) -> bool:
    """Whether an error only says where LangGraph goes on (a Command to the parent graph)."""
    return error.startswith("ParentCommand(")


def error_of(error: str) -> dict[str, Any]:
    """An error as ``{"type", "message"}``."""
    shown = error.partition(_TRACEBACK)[0].strip() or error
    name, bracket, rest = shown.partition("(")
    if bracket and name.replace(".", "").isidentifier():
        return {"type": name, "message": rest.rstrip(")") or shown}
    return {"type": "Exception", "message": shown}


def questions_of(error: str) -> list[dict[str, Any]]:
    """The questions in an interrupt, ``{"value", "id"}`` each; ``value`` is left out where it is no plain data.

    The exception is shown as ``GraphInterrupt((Interrupt(value=…, id='…'),))``: that is parsed, never run.
    """
    shown = error.partition(_TRACEBACK)[0].strip()
    found = []
    for node in ast.walk(parsed(shown)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Interrupt":
            words = {word.arg: plain(word.value) for word in node.keywords if word.arg in ("value", "id")}
            found.append({word: value for word, value in words.items() if word and value is not NOTHING})
    return found or [{}]
