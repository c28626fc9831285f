"""Every way to have a wrong type somewhere: each value of a document in turn replaced by each of some others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

VALUES: tuple[Any, ...] = (None, 3, "x", [1], {"a": 1}, True)


def spoiled(document: Any) -> Iterator[Any]:
    """The document again and again, with one value replaced each time."""
    for value in VALUES:
        yield from _each(document, value)


def _each(document: Any, value: Any) -> Iterator[Any]:
    if isinstance(document, dict):
        for key in document:
            for inner in (value, *_each(document[key], value)):
                yield {**document, key: inner}
    elif isinstance(document, list):
        for index in range(len(document)):
            for inner in (value, *_each(document[index], value)):
                yield [*document[:index], inner, *document[index + 1 :]]
