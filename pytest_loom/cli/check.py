"""What a check of ``pytest-loom doctor`` says, and words that checks share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from pytest_loom.cli.output import one_line
from pytest_loom.errors import LogError, LoomError, printable
from pytest_loom.sources import masked_address

State = Literal["ok", "note", "problem"]
_NAMED = 3


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``hint``: what to type; a line of it that begins with blanks is to be copied."""

    about: str
    state: State
    text: str
    hint: str = ""


@dataclass
class Seen:
    """What the logs told that other checks ask for.

    ``workflows``: flows by the target that they are held against; ``sources``: who reads the runs; ``files``: where.
    """

    workflows: dict[str, set[str]] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)


def failed(about: str, error: LoomError) -> Check:
    """A check that an error answers."""
    return Check(about, "problem", one_line(LoomError(error.what, path=error.path, line=error.line)), error.hint)


def version_of(package: str) -> str | None:
    """The version of a package, None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def masked(text: str) -> str:
    """A setting without the password of an address."""
    try:
        return masked_address(text)
    except LogError:
        return f"{text.partition('://')[0]}://…"


def some(names: Iterable[str]) -> str:
    """The first of these names, and how many more there are."""
    shown = list(names)
    more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
    return f"{', '.join(printable(name) for name in shown[:_NAMED])}{more}"


def counted(number: int, thing: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
