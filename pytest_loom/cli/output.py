"""What a command says: results on standard output, everything else on standard error, one line an error.

Colours are for terminals only, and for nobody where NO_COLOR is set (https://no-color.org).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import Any, Literal

from pytest_loom.errors import LoomError, printable

OK, FINDING, ERROR, STOPPED = 0, 1, 2, 130
"""The exit statuses of every command; the last one after Ctrl-C, as shells have it."""

Style = Literal["", "bold", "dim", "red", "green", "yellow"]
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
_LONGEST = 2_000


class Output:
    """``as_json``: the outcome is one JSON object, and no line of text stands beside it on standard output."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self._shown = 0
        self._paints = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def line(self, text: str = "", style: Style = "") -> None:
        """One line of the result."""
        if not self.as_json:
            self._clear()
            shown = _shown(text)
            print(f"\x1b[{_STYLES[style]}m{shown}\x1b[0m" if style and shown and self._paints else shown)

    def lines(self, texts: Iterable[str], style: Style = "") -> None:
        """Lines of the result."""
        for text in texts:
            self.line(text, style)

    def result(self, data: dict[str, Any]) -> None:
        """The whole outcome, where JSON was asked for."""
        if self.as_json:
            self._clear()
            utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
            print(json.dumps(data, indent=2, ensure_ascii=not utf8))

    def bytes(self, pieces: Iterable[bytes]) -> None:
        """The whole outcome, where JSON was asked for, as a stream of UTF-8 text."""
        if self.as_json:
            self._clear()
            sys.stdout.flush()
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()

    def note(self, text: str) -> None:
        """A line for people."""
        self._clear()
        print(_shown(text), file=sys.stderr)

    def error(self, problem: LoomError | str) -> None:
        """What went wrong, where, and what to do next, in one line."""
        self.note(f"pytest-loom: {one_line(problem)}")

    def progress(self, text: str) -> None:
        """What a long work is at; seen only on a terminal, and gone when something else is said."""
        if sys.stderr.isatty():
            shown = printable(text, 78)
            print(f"\r{shown.ljust(self._shown)}", end="", file=sys.stderr, flush=True)
            self._shown = len(shown)

    def _clear(self) -> None:
        if self._shown:
            print(f"\r{' ' * self._shown}\r", end="", file=sys.stderr, flush=True)
            self._shown = 0


def _shown(text: str) -> str:
    """A line in which nothing that a log says is a command: to a terminal, or to a step of GitHub Actions."""
    text = printable(text, _LONGEST)
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return text
    from pytest_loom.report.github import inert

    return inert(text)


def one_line(problem: LoomError | str) -> str:
    """An error as one line of text."""
    if isinstance(problem, str):
        return problem
    head = f"{problem.where}: {problem.what}" if problem.where else problem.what
    return " ".join(f"{head} {f'({problem.hint})' if problem.hint else ''}".split())
