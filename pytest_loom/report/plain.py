"""What forms for other tools say, as plain text: the verdict, and each cause with its runs and the way out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from pytest_loom.deploy.report import DeployReport
from pytest_loom.errors import printable
from pytest_loom.report.places import Places
from pytest_loom.report.text import Cause, verdict_line

SHOWN = 3
"""How many runs of a cause are named."""

SEE = "see the failed tests"
"""Why something was not judged, where nothing else is said."""

_LONG = 2_000


def headline(report: DeployReport, *, ok: bool, extra: Mapping[str, Any], see: str = SEE) -> str:
    """The verdict of the whole session in one line; ``ok`` and ``extra`` as ``write_json`` takes them."""
    missing = not_judged(report, ok=ok, extra=extra, see=see)
    if missing and report.ok:
        return f"NOT JUDGED: {missing}"
    return f"{verdict_line(report)}; NOT JUDGED: {missing}" if missing else verdict_line(report)


def not_judged(report: DeployReport, *, ok: bool, extra: Mapping[str, Any], see: str = SEE) -> str:
    """What the simulation could not judge, in words; "" where it judged all there was."""
    logs, missing = extra.get("logs"), extra.get("not_judged")
    if missing:
        return f"{missing} of {logs} log file{'' if logs == 1 else 's'}, {see}"
    if ok or not report.ok:
        return ""
    return see if logs else "no log file was judged"


def title(cause: Cause) -> str:
    """``code: flow, step, how many runs``."""
    _, code, flow, step = cause.key
    version = cause.examples[0].version if len(cause.versions) == 1 else None
    parts = [printable(flow) if flow else "unknown flow"]
    parts[0] += f" {printable(version, 40)}" if version is not None else ""
    parts += [f"step {printable(step)}"] if step else []
    parts += [f"{cause.count} runs"] if cause.count > 1 else []
    return f"{printable(code)}: {', '.join(parts)}"


def message(cause: Cause, places: Places) -> str:
    """What happened and what would happen, on one line."""
    return one_line(places.said(cause.examples[0].message))


def hint(cause: Cause, places: Places) -> list[str]:
    """What to do, in lines; one that begins with blanks is to be copied."""
    text = places.said(cause.examples[0].hint)[:_LONG]
    return [printable(line, _LONG).rstrip() for line in text.splitlines() if line.strip()]


def runs(cause: Cause, places: Places) -> list[str]:
    """The first runs of a cause, each with its place, and how many more there are."""
    named = [
        f"{printable(found.execution_id) or '(no execution named)'} in {places.shown(found) or '(no file)'}"
        for found in cause.examples[:SHOWN]
    ]
    return [*named, f"and {cause.count - len(named)} more"] if cause.count > len(named) else named


def fingerprint(cause: Cause) -> str:
    """The same for the same cause in every run, whatever runs it is about; no two causes of a report share it."""
    named = "\0".join(["1", *map(repr, cause.key)])
    return hashlib.sha256(named.encode("utf-8", "backslashreplace")).hexdigest()


def one_line(text: str) -> str:
    """Text on one line, without control characters, not too long."""
    return printable(" ".join(text[: 2 * _LONG].split()), _LONG)
