"""Untrusted text in Markdown, as GitHub and GitLab render it: it can neither format, link, mention nor command."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from pytest_loom.errors import printable

_APART = "&#8203;"
"""A space of no width: what it stands in is no mention, reference or address any more."""


def prose(text: str, limit: int = 1_000) -> str:
    """Text on one line that shows as what it is.

    Mentions (``@name``), references (``#12``), addresses, and GitLab's quick actions (``/close``) mean nothing in it.
    """
    shown = html.escape(printable(text, limit), quote=False)
    shown = re.sub(r"([\\`*_\[\]~|$])", r"\\\1", shown)
    shown = re.sub(r"([@#!%])(?=\w)", rf"\1{_APART}", shown)
    shown = re.sub(r"(?i)(?=://)|(?<=www)(?=\.)", _APART, shown)
    shown = re.sub(r"^(\d+)([.)])", r"\1\\\2", shown.strip())
    return re.sub(r"^([#+\-=/:])", r"\\\1", shown)


def code(text: str, limit: int = 120) -> str:
    """Text as a code span, whatever backticks are in it."""
    shown = printable(text, limit)
    longest = max(map(len, re.findall("`+", shown)), default=0)
    ticks = "`" * (longest + 1)
    space = " " if longest or shown != shown.strip() or not shown else ""
    return f"{ticks}{space}{shown}{space}{ticks}"


def fenced(lines: Iterable[str], language: str) -> str:
    """Lines as a block of code, set in no deeper than they have to be."""
    shown = [printable(line, 2_000) for line in lines]
    margin = min((len(line) - len(line.lstrip()) for line in shown if line.strip()), default=0)
    longest = max((len(run) for line in shown for run in re.findall("`+", line)), default=0)
    ticks = "`" * max(3, longest + 1)
    return "\n".join([f"{ticks}{language}", *(line[margin:] for line in shown), ticks, "", ""])
