"""Recorded values that today's types read without a complaint, and lose: a field got another name behind a default.

A value that does not fit is refused by whoever reads it. What is looked for here would go by in silence: the recorded
4999 is dropped, and the new field is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from pytest_loom.errors import printable
from pytest_loom.evals.paths import format_path
from pytest_loom.flow.definition import Flow
from pytest_loom.flow.history import History
from pytest_loom.flow.values import Codec, encode

_MAX_FIELDS = 20


def hidden(codec: Codec, data: Any) -> tuple[str, str] | None:
    """A recorded field that nothing reads beside one of today's that nobody recorded, as paths. None: no such."""
    if codec.json:
        return None

    def read(value: Any) -> Any:
        return codec.dump(codec.load(value))

    try:
        today = read(data)
    except Exception:  # whatever the types of fields raise: the value fits, and how it is said shows nothing
        return None
    for path, lost, new in islice(_places(data, today, ()), _MAX_FIELDS):
        for name in lost[:_MAX_FIELDS]:
            try:
                unread = read(_without(data, (*path, name))) == today
            except Exception:  # it is needed, then
                unread = False
            if unread:
                return format_path((*path, name)), printable(format_path((*path, new)))
    return None


def _places(
    was: Any, today: Any, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], list[str], str]]:
    """The objects that lost fields and got others: their path, the fields that they lost, and one that they got."""
    if isinstance(was, dict) and isinstance(today, dict):
        lost, new = [key for key in was if key not in today], [key for key in today if key not in was]
        if lost and new:
            yield path, lost, new[0]
        for key in was.keys() & today.keys():
            yield from _places(was[key], today[key], (*path, key))
    elif isinstance(was, list) and isinstance(today, list) and len(was) == len(today):
        for index, (one, other) in enumerate(zip(was, today, strict=True)):
            yield from _places(one, other, (*path, index))


def _without(data: Any, path: tuple[str | int, ...]) -> Any:
    """A copy of ``data`` less what is at ``path``."""
    copy = msgspec.json.decode(encode(data))
    inner = copy
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return copy


def renamed_input(flow: Flow[..., Any], history: History) -> tuple[str, str] | None:
    """A recorded field that nothing reads beside one of today's that nobody recorded: both as paths. None: no such."""
    if not history.raw_input or not flow.parameters:
        return None
    data = history.log.state.variables.get("_input")
    if len(flow.parameters) == 1:
        return hidden(flow.input, data)
    parts = data if isinstance(data, dict) else {flow.parameters[0].name: data}
    found = (hidden(flow.input_parts[name], part) for name, part in parts.items())
    return next((pair for pair in found if pair is not None), None)
