"""Every error that pytest-loom raises on purpose, in one place so that no room imports another for them.

Each names where the trouble is (file, line, execution, step) and, as ``hint``, what to do next.
"""

from __future__ import annotations

from typing import Any


class LoomError(Exception):
    """Base of all errors raised by pytest-loom.

    ``what`` says what is wrong in one sentence; ``path``, ``line``, ``execution_id`` and ``step`` say where
    (empty or 0 where unknown); ``hint`` says what to do next. ``str(error)`` shows all of it.
    """

    def __init__(
        self,
        what: str,
        *,
        path: str = "",
        line: int = 0,
        execution_id: str = "",
        step: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(what)
        self.what = what
        self.path = path
        self.line = line
        self.execution_id = execution_id
        self.step = step
        self.hint = hint

    @property
    def where(self) -> str:
        """``file:line, execution X, step Y``, as far as it is known."""
        path = printable(self.path, 4096)
        place = f"{path}:{self.line}" if path and self.line else path
        parts = [
            place,
            f"execution {printable(self.execution_id)}" if self.execution_id else "",
            f"step {printable(self.step)}" if self.step else "",
        ]
        return ", ".join(part for part in parts if part)

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}\n  {self.hint}" if self.hint else head

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors cross process borders (pytest-xdist, executors), so they pickle with everything they know."""
        return (_rebuild, (type(self), self.__dict__.copy()))


class LogError(LoomError, ValueError):
    """A log is damaged, or is no log at all."""


class UnknownSchemaVersion(LogError):
    """A log says something that this version does not know: a kernel event kind, a newer major version, a version of an
    event kind that is newer than today's.

    Reading it anyway would mean guessing, so it is refused (seed 003: fail closed, fill in nothing).
    """


class UpcastError(LogError):
    """A recorded event cannot be raised to today's version of its kind.

    There is a gap in the chain of upcasters, or one of them raised, is not pure, or says by ``Unsupported`` that there
    is no lossless way.
    """


class MigrationError(LoomError):
    """A saved state, plan or tool argument cannot be carried to the version that is asked for."""


class StateMigrationError(MigrationError):
    """A run's state (its input or a snapshot) cannot be carried to today's shape; nothing was appended to the run.

    ADR 0056 names it for a ``transform_state`` that raises, returns None or returns what the flow does not accept.
    """


class ApprovalError(LoomError):
    """An approval does not hold for what today's code or tools would do; nothing was appended to the run.

    What was shown is what was approved (seed 003): it is asked again, never mapped to another call.
    """


class FlowError(LoomError):
    """Today's flows cannot be had: a module that does not import, a resolver or contract of the wrong shape."""


class Unsupported(LoomError):
    """A thing that is understood but that pytest-loom cannot do, or refuses to do."""


class ScoreError(LoomError):
    """A scorer raised, or returned something that is not a score."""


class LiveCallError(LoomError):
    """Code under replay tried to reach the outside world: the network, a subprocess, a file that is not the test's."""


class ReplayDivergence(LoomError):
    """Today's code asked for something else than the golden run did, or left something out.

    ``kind`` says what: argument-changed, step-added, step-skipped, order-changed, occurrence-added, left-over or
    stuck. ``expected`` is the recorded effect at that place and ``asked`` what today's code wants, both
    ``{"kind", "name", "key", "input", "sequence"}`` or None; ``candidates`` are the closest recorded effects.
    """

    kind: str = ""
    expected: dict[str, Any] | None = None
    asked: dict[str, Any] | None = None
    candidates: tuple[dict[str, Any], ...] = ()

    def __str__(self) -> str:
        """The difference first, then where it is, the details, and what to do, in lines of a terminal's width."""
        from textwrap import wrap

        first, *details = self.what.splitlines() or [""]
        where = [f"  in {self.where}"] if self.where else []
        hints = []
        for line in self.hint.splitlines():  # one that is set in is to be copied
            hints += [line] if line.startswith(" ") else wrap(line, 78, break_on_hyphens=False)
        return "\n".join([first, *where, *details, *(f"  {line}" for line in hints)])


class RecordingError(LoomError):
    """A run cannot be recorded so that it could be replayed: a value that would not come back as what it was."""


class StepError(LoomError):
    """Stands for a recorded exception whose class is not at hand: the log's word imports nothing.

    ``type`` is the name that was recorded (``module.Qualname``), ``message`` its text.
    """

    def __init__(self, what: str, *, type: str = "", message: str = "", **where: Any) -> None:
        super().__init__(what, **where)
        self.type = type
        self.message = message


def printable(text: str, limit: int = 120) -> str:
    """``text`` on one line, without control characters, cut to ``limit`` characters: names come from logs.

    Unicode's own line breaks and text-direction marks count as control characters: a log cannot forge a line.
    """
    shown = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[: limit + 1]
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def set_in(text: str, indent: str = "", later: str | None = None, *, width: int = 80, limit: int = 2_000) -> list[str]:
    """``text`` in lines of a terminal's width: the first after ``indent``, the others after ``later`` (as ``indent``).

    A line of it that begins with blanks is code to be copied: it stays a line, however long. What is in it may come
    from a log: it goes through ``printable``, and is cut to ``limit`` characters.
    """
    import textwrap

    later = indent if later is None else later
    text = text if len(text) <= limit else f"{text[: limit - 1]}…"
    lines: list[str] = []
    prose: list[str] = []
    for line in [*text.splitlines(), None]:
        if line is not None and not line.startswith(" "):
            prose.append(line)
            continue
        shown = printable(" ".join(" ".join(prose).split()), limit)
        first = later if lines else indent
        lines += textwrap.wrap(shown, width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)
        lines += [] if line is None else [f"{later}{printable(line, limit)}"]
        prose = []
    return lines


def folded(text: str, *, width: int = 80) -> str:
    """``text``, what an error says, in lines of a terminal's width, cut between words only.

    What is folded is set in by four blanks more than the line that it comes from.
    """
    import textwrap

    lines: list[str] = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        later = f"{indent}    "
        lines += textwrap.wrap(
            line, width, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "\n".join(lines)


def _rebuild(cls: type[LoomError], facts: dict[str, Any]) -> LoomError:
    error = cls.__new__(cls)
    Exception.__init__(error, facts["what"])
    error.__dict__.update(facts)
    return error
