"""Workflow commands of GitHub Actions: a deploy report as annotations on the lines of a pull request.

GitHub shows ten errors and ten warnings of a step, so there is one for a cause, and the last says how many more there
are. Text from logs is printed beside them: ``inert`` keeps a line of it from being taken for a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_loom.deploy.report import DeployReport
from pytest_loom.report.places import Place, Places
from pytest_loom.report.plain import SHOWN, headline, hint, message, not_judged, runs, title
from pytest_loom.report.text import causes

MOST = 10
"""How many annotations of each kind GitHub shows of one step."""

_KINDS = {"breaking": "error", "warning": "warning"}


def annotation_lines(report: DeployReport, *, ok: bool, extra: Mapping[str, Any]) -> Iterator[str]:
    """``::error`` and ``::warning`` lines, one for each cause that nobody accepted; at most ``MOST`` of each."""
    places = Places(report)
    open_causes = [cause for cause in causes(report.finding_rows.in_order(), SHOWN) if cause.state in _KINDS]
    unseen = not_judged(report, ok=ok, extra=extra)
    for severity, kind in _KINDS.items():
        group = [cause for cause in open_causes if cause.severity == severity]
        said = severity == "breaking" and bool(unseen)
        if said:
            yield _command(kind, places.settings(), "pytest-loom", headline(report, ok=ok, extra=extra))
        room = MOST - said
        fitting = group if len(group) <= room else group[: room - 1]
        for cause in fitting:
            lines = [message(cause, places), *hint(cause, places), *runs(cause, places)]
            yield _command(kind, places.of(cause.examples[0]), title(cause), "\n".join(lines))
        if len(fitting) < len(group):
            what = f"{len(group) - len(fitting)} more causes of this weight are in the report"
            yield _command(kind, places.settings(), "pytest-loom", what)


def inert(text: str) -> str:
    """Lines in which the runner finds no command: neither ``::name::`` at the start of one nor ``##[name]``."""
    return re.sub(r"^(\s*:)(?=:)", r"\1 ", text, flags=re.M).replace("##[", "## [")


def _command(kind: str, place: Place, name: str, text: str) -> str:
    where = {"file": place.path, "line": str(place.line), "title": name}
    properties = ",".join(f"{key}={_property(value)}" for key, value in where.items())
    return f"::{kind} {properties}::{_data(text)}"


def _data(text: str) -> str:
    """The message of a command, escaped as the runner unescapes it."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
