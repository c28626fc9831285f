"""``*.sarif``: the deploy report in SARIF 2.1.0, for code scanning: a rule for each code, a result for each cause.

Messages keep to what GitHub's code scanning shows: plain text, one first location, fingerprints that stay the same
while the cause does, though the log grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from pytest_loom.deploy.report import BREAKING, DeployReport
from pytest_loom.errors import printable
from pytest_loom.log.files import replacing
from pytest_loom.report.codes import NOT_JUDGED, about, help_uri, known_codes, remedy
from pytest_loom.report.places import Place, Places
from pytest_loom.report.plain import fingerprint, headline, hint, message, not_judged, one_line, runs, title
from pytest_loom.report.text import Cause, causes

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST = 1_000
"""How many causes are results."""

LOCATIONS = 20
"""How many runs of a cause have their place in it."""

_LEVELS = {"breaking": "error", "warning": "warning", "info": "note", "acknowledged": "note"}


def write_sarif(report: DeployReport, path: Path, *, ok: bool, extra: Mapping[str, Any]) -> None:
    """Write a SARIF log with one run atomically; what was not judged is a result and makes the run unsuccessful."""
    with replacing(path) as stream:
        for piece in _pieces(report, ok=ok, extra=extra):
            stream.write(piece)


def _pieces(report: DeployReport, *, ok: bool, extra: Mapping[str, Any]) -> Iterator[bytes]:
    places = Places(report)
    grouped = causes(report.finding_rows.in_order(), LOCATIONS)
    codes = [*known_codes(), NOT_JUDGED]
    codes += sorted({cause.key[1] for cause in grouped} - {*codes})
    said = headline(report, ok=ok, extra=extra)
    unseen = not_judged(report, ok=ok, extra=extra)
    notes = [
        (said, "error" if unseen else "note"),
        *((one_line(places.said(note)), "note") for note in sorted(report.all_notes())),
    ]
    if len(grouped) > MOST:
        notes.append((f"{len(grouped) - MOST} more causes are in the JSON report (--loom-report=report.json)", "error"))
    run = {
        "tool": {"driver": {"name": "pytest-loom", **_version(), "rules": [_rule(code) for code in codes]}},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not unseen,
                "toolExecutionNotifications": [
                    {"level": level, "message": {"text": _plain(text)}} for text, level in notes[:MOST]
                ],
            }
        ],
    }
    yield msgspec.json.encode({"$schema": SCHEMA, "version": "2.1.0"})[:-1] + b',"runs":[\n'
    yield msgspec.json.encode(run)[:-1] + b',"results":['
    results = [_not_judged(said, codes.index(NOT_JUDGED), places)] if unseen else []
    separator = b"\n"
    for result in _chain(results, (_result(cause, codes, places) for cause in islice(grouped, MOST))):
        yield separator + msgspec.json.encode(result)
        separator = b",\n"
    yield b"]}]}\n"


def _chain(*parts: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for part in parts:
        yield from part


def _rule(code: str) -> dict[str, Any]:
    """What a code means: its name, a sentence, what to do, and the page about it."""
    if code == NOT_JUDGED:
        short, todo = "Recorded runs were not judged.", "See the failed tests."
    else:
        short, todo = about(code), remedy(code)
    uri = help_uri(code)
    level = "error" if code in BREAKING or code == NOT_JUDGED else "warning"
    return {
        "id": code,
        "shortDescription": {"text": short},
        "help": {"text": f"{short} {todo}".strip()},
        **({"helpUri": uri} if uri else {}),
        "defaultConfiguration": {"level": level},
    }


def _result(cause: Cause, codes: list[str], places: Places) -> dict[str, Any]:
    _, code, flow, step = cause.key
    shown = cause.examples
    first, *others = shown
    lines = [f"{title(cause)}: {message(cause, places)}", *hint(cause, places)]
    lines += [f"Runs: {', '.join(runs(cause, places))}."]
    logical = {
        "name": printable(step or flow),
        "fullyQualifiedName": printable(f"{flow}/{step}" if step else flow, 300),
    }
    accepted = first.acknowledged if cause.state == "acknowledged" else None
    return {
        "ruleId": code,
        "ruleIndex": codes.index(code),
        "level": _LEVELS[cause.state],
        "message": {"text": _plain("\n".join(lines))},
        "occurrenceCount": cause.count,
        "locations": [{"physicalLocation": _physical(places.of(first)), "logicalLocations": [logical]}],
        "relatedLocations": [
            {
                "id": number,
                "physicalLocation": _physical(places.of(found)),
                "message": {"text": _plain(f"run {printable(found.execution_id)}")},
            }
            for number, found in enumerate(others, 1)
        ],
        "partialFingerprints": {"loomCause/v1": fingerprint(cause), "primaryLocationLineHash": f"{_short(cause)}:1"},
        **({"suppressions": [{"kind": "external", "justification": printable(accepted, 500)}]} if accepted else {}),
    }


def _not_judged(said: str, index: int, places: Places) -> dict[str, Any]:
    return {
        "ruleId": NOT_JUDGED,
        "ruleIndex": index,
        "level": "error",
        "message": {"text": _plain(said)},
        "locations": [{"physicalLocation": _physical(places.settings())}],
        "partialFingerprints": {"loomCause/v1": NOT_JUDGED, "primaryLocationLineHash": f"{NOT_JUDGED}:1"},
    }


def _short(cause: Cause) -> str:
    """The form of GitHub's own hash of a line, which it takes where it is given and makes where it is not."""
    return fingerprint(cause)[:16]


def _physical(place: Place) -> dict[str, Any]:
    return {
        "artifactLocation": {"uri": quote(place.path), "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": place.line},
    }


def _plain(text: str) -> str:
    """Text in which a log cannot put a link: ``[text](target)`` is one even in plain text (SARIF 3.11.6)."""
    return text.replace("](", "] (")


def _version() -> dict[str, str]:
    try:
        return {"version": version("pytest-loom")}
    except PackageNotFoundError:  # run from a source tree
        return {}
