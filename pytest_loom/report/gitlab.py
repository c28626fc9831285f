"""``*.gitlab.json``: GitLab's code quality report (an artifact), one issue for each cause.

GitLab tells issues of two pipelines apart by their fingerprints, which must be unique in a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from pytest_loom.deploy.report import DeployReport
from pytest_loom.log.files import replacing
from pytest_loom.report.codes import NOT_JUDGED
from pytest_loom.report.places import Place, Places
from pytest_loom.report.plain import SHOWN, fingerprint, headline, hint, message, not_judged, runs, title
from pytest_loom.report.text import Cause, causes

MOST = 1_000
"""How many causes are listed."""

_SEVERITIES = {"breaking": "blocker", "warning": "minor", "info": "info", "acknowledged": "info"}


def write_gitlab(report: DeployReport, path: Path, *, ok: bool, extra: Mapping[str, Any]) -> None:
    """Write ``[{"description", "check_name", "fingerprint", "severity", "location"}]`` atomically.

    What was not judged is an issue of its own: an empty list would look as if all were well.
    """
    with replacing(path) as stream:
        separator = b"[\n"
        for issue in _issues(report, ok=ok, extra=extra):
            stream.write(separator + msgspec.json.encode(issue))
            separator = b",\n"
        stream.write(b"\n]\n" if separator == b",\n" else b"[]\n")


def _issues(report: DeployReport, *, ok: bool, extra: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    places = Places(report)
    if not_judged(report, ok=ok, extra=extra):
        said = headline(report, ok=ok, extra=extra)
        yield _issue(NOT_JUDGED, said, _print_of(NOT_JUDGED), "blocker", places.settings())
    grouped = causes(report.finding_rows.in_order(), SHOWN)
    for cause in islice(grouped, MOST):
        where = places.of(cause.examples[0])
        yield _issue(cause.key[1], _said(cause, places), fingerprint(cause), _SEVERITIES[cause.state], where)
    if len(grouped) > MOST:
        said = f"{len(grouped) - MOST} more causes are in the JSON report (--loom-report=report.json)"
        yield _issue("more-causes", said, _print_of("more-causes"), "blocker", places.settings())


def _said(cause: Cause, places: Places) -> str:
    accepted = [f"Acknowledged by {cause.examples[0].acknowledged}."] if cause.state == "acknowledged" else []
    todo = " ".join(" ".join(hint(cause, places)).split())
    parts = [f"{title(cause)}: {message(cause, places)}", *accepted, todo, f"Runs: {', '.join(runs(cause, places))}."]
    return " ".join(filter(None, parts))


def _issue(code: str, said: str, print_of: str, severity: str, place: Place) -> dict[str, Any]:
    return {
        "description": said,
        "check_name": code,
        "fingerprint": print_of,
        "severity": severity,
        "location": {"path": place.path, "lines": {"begin": place.line}},
    }


def _print_of(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
