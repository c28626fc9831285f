"""``*.html``: the deploy report as one page for a browser, that asks for nothing from the network.

The verdict, the causes with their runs and what to type, all runs to be searched, timelines of a few, what changed in
the contracts, and what each strategy makes of the runs. The page is ``page/report.html.j2``, its style and its script
beside it. Nothing that comes from a log becomes markup or code: Jinja2 escapes all of it, data for the script is JSON
in which no tag can begin, and a content security policy allows this one script and no other.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_loom.deploy.report import DeployReport, Finding
from pytest_loom.deploy.timeline import EXAMPLES
from pytest_loom.errors import Unsupported, printable
from pytest_loom.log.files import replacing
from pytest_loom.report.codes import help_uri
from pytest_loom.report.html_contracts import contract_entries
from pytest_loom.report.html_runs import LISTED, RunList
from pytest_loom.report.places import Places
from pytest_loom.report.plain import headline, not_judged, one_line
from pytest_loom.report.since import change_of, since_lines
from pytest_loom.report.text import OTHERS, Cause, causes
from pytest_loom.report.ways import CAPTURE, ON_RESUME, ways_of

if TYPE_CHECKING:
    from jinja2 import Template

MOST = 100
"""How many causes are shown that block the deploy, and how many others."""

_CONTRACTS = 30
_TOLD = 20_000

VERDICTS = (
    ("resume", "goes on as it is"),
    ("upcast", "goes on; old events are read through upcasters"),
    ("migrate", "goes on; what it saved is carried over by migrations"),
    ("pin", "goes on, on a worker of its own version that is kept"),
    ("reapprove", "waits for an approval of what is no longer the call that was shown: it is asked for again"),
    ("fork", "has done what today's code would not do: a person confirms that it goes on otherwise, in a fork"),
    ("manual", "cannot go on by itself: the answer, the state or a tool would be misread or is gone"),
    ("reject", "cannot be read with certainty, so it is not read at all"),
)

_NO_CONTRACTS = (
    "No contract is kept that changed under an unfinished run. Kept contracts tell since which change a run breaks:"
    " capture them with each deploy."
)

STRATEGIES = {
    "compatible-window": "today's code reads what the last versions wrote, nothing older",
    "pinned-workers": "a run stays on the version that it was started on, where a worker of it is kept",
    "explicit-migration": "every registered upcaster and migration is applied before the deploy",
    "fail-closed": "only what nothing changed for goes on; a person confirms a fork of the rest",
}


def write_html(report: DeployReport, path: Path, *, ok: bool, extra: Mapping[str, Any]) -> None:
    """Write the page atomically (``write_json`` says what ``ok`` and ``extra`` are).

    At most ``html_runs.LISTED`` runs are listed, those that would break first. Raises Unsupported where Jinja2 is not
    installed (the extra ``html``).
    """
    page = _template()
    context = _context(report, ok=ok, extra=extra)
    with replacing(path) as stream:
        for piece in page.generate(context):
            stream.write(piece.encode("utf-8", "backslashreplace"))


def missing() -> str:
    """What is missing to write such a report, and what to type; "" where nothing is."""
    from importlib.util import find_spec

    return "" if find_spec("jinja2") else "an HTML report needs Jinja2: pip install 'pytest-loom[html]'"


def _template() -> Template:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise Unsupported(missing()) from None
    loader = PackageLoader("pytest_loom.report", "page")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template("report.html.j2")


def _context(report: DeployReport, *, ok: bool, extra: Mapping[str, Any]) -> dict[str, Any]:
    from markupsafe import Markup

    style, script = _file("report.css"), _file("report.js")
    places = Places(report)
    grouped = causes(_told_first(report), EXAMPLES)
    entries = [_entry(number, cause, report, places) for number, cause in enumerate(grouped)]
    blocking = sorted((entry for entry in entries if entry["state"] == "breaking"), key=lambda entry: -entry["count"])
    others = [entry for entry in entries if entry["state"] != "breaking"]
    contracts = list(contract_entries(report.changed[:_CONTRACTS]))
    listed = RunList(report, grouped, places)
    strategies = [{"name": name, "what": STRATEGIES.get(name, ""), **row} for name, row in report.strategies().items()]
    return {
        "style": Markup(style),
        "style_hash": _hash(style),
        "script": Markup(script),
        "script_hash": _hash(script),
        "verdict": _verdict(report, ok=ok, extra=extra),
        "files": _number(extra["logs"], "log file") if isinstance(extra.get("logs"), int) else None,
        "shard": printable(str(extra.get("shard") or ""), 40),
        "sections": list(_sections(report, blocking, others, contracts, strategies)),
        "notes": [one_line(places.said(note)) for note in sorted(report.all_notes())],
        "blocking": blocking[:MOST],
        "left_out": max(0, len(blocking) - MOST),
        "others": others[:MOST],
        "nothing_broke": _nothing_broke(report, ok=ok, extra=extra),
        "verdicts": VERDICTS,
        "contracts": contracts,
        "contracts_left_out": max(0, len(report.changed) - _CONTRACTS),
        "no_contracts": _NO_CONTRACTS,
        "capture": CAPTURE,
        "strategies": strategies,
        "version": _version(),
        "not_listed": _not_listed(report),
        "data": map(Markup, listed.data()),
        "timelines": lambda: map(Markup, listed.timelines()),
    }


def _told_first(report: DeployReport) -> Iterator[Finding]:
    """All findings, those of runs that have a timeline first, so that they become the examples of their causes."""
    runs = (run for run in report.run_rows.in_order() if run.timeline is not None)
    told = {(run.execution_id, run.source) for run in islice(runs, _TOLD)}
    for is_told in (True, False):
        for found in report.finding_rows.in_order():
            if ((found.execution_id, found.source) in told) is is_told:
                yield found


def _verdict(report: DeployReport, *, ok: bool, extra: Mapping[str, Any]) -> dict[str, str]:
    title, _, lead = headline(report, ok=ok, extra=extra).partition(": ")
    if not lead:  # nothing was found
        head, _, rest = title.partition(" for ")
        title, lead = "No breaking change found", f"In {rest}" if rest else head[:1].upper() + head[1:]
    lead = re.sub(r"(?<![\w.-])\d{4,}(?= )", lambda found: f"{int(found[0]):,}", lead)
    state = "bad" if not report.ok else "open" if not ok else "good"
    return {"title": title, "lead": lead, "state": state}


def _sections(
    report: DeployReport, blocking: list[Any], others: list[Any], contracts: list[Any], strategies: list[Any]
) -> Iterator[tuple[str, str, int | None]]:
    yield "broke", "What broke", len(blocking)
    if others:
        yield "look", "To look at", len(others)
    yield "runs", "Runs", len(report.run_rows)
    if contracts or blocking:
        yield "contracts", "Contracts", len(contracts) or None
    if strategies:
        yield "strategies", "Strategies", None


def _entry(number: int, cause: Cause, report: DeployReport, places: Places) -> dict[str, Any]:
    """One cause, all of it text to be escaped."""
    _, code, flow, step = cause.key
    first = cause.examples[0]
    version = f" {printable(first.version, 40)}" if len(cause.versions) == 1 and first.version is not None else ""
    place = f"{printable(flow) if flow else 'unknown flow'}{version}" + (f", step {printable(step)}" if step else "")
    is_breaking = cause.severity == "breaking"
    prose = [line for line in first.hint.splitlines() if not line.startswith(" ")]
    ways = ways_of(cause.engines.values())
    hint = one_line(places.said(" ".join(prose)))
    return {
        "number": number,
        "state": cause.state,
        "code": printable(code),
        "place": place,
        "count": cause.count,
        "runs": _number(cause.count, "run"),
        "message": one_line(places.said(first.message)),
        "recorded": first.recorded,
        "today": first.today if is_breaking else None,
        "on_resume": ON_RESUME.get(code) if is_breaking else None,
        "since": _since(cause, report),
        "examples": [
            {
                "run": printable(found.execution_id) or "(no execution named)",
                "version": printable(found.version, 40) if found.version is not None and not version else None,
                "where": places.shown(found),
                "message": one_line(places.said(found.message)) if found.message != first.message else None,
                "acknowledged": one_line(found.acknowledged) if found.acknowledged else None,
            }
            for found in cause.examples
        ],
        "hint": hint,
        "do": hint.partition(". ")[0].removesuffix(".").removesuffix(":"),
        "type": ways[0].code if is_breaking and ways and "\n" not in ways[0].code else None,
        "ways": [
            {
                "name": way.name,
                "what": way.what,
                "code": "\n".join(printable(line, 300) for line in way.code.splitlines()),
            }
            for way in ways
        ],
        "page": help_uri(code),
    }


def _since(cause: Cause, report: DeployReport) -> list[str]:
    """Since which change the cause is there, as far as contracts tell; never nothing."""
    _, code, flow, step = cause.key
    found = [] if flow == OTHERS else [_arrow(line) for line in since_lines(code, flow, step, report.changed)]
    if found:
        return found
    if code == "flow-missing":
        return ["the change that took the flow out of today's code"]
    elsewhere = [change_of(one) for one in report.changed if one.workflow_id == flow]
    if elsewhere:
        return [f"{_arrow(elsewhere[0])}, which changed in other places (see Contracts)"]
    if report.changed:
        return ["a change of the code that no kept contract tells"]
    return ["not known, because no contract was kept that has changed (see Contracts)"]


def _arrow(line: str) -> str:
    return one_line(line).replace("->", "→", 1)


def _nothing_broke(report: DeployReport, *, ok: bool, extra: Mapping[str, Any]) -> str:
    missing = not_judged(report, ok=ok, extra=extra)
    return f"Nothing that was judged. Not judged: {missing}." if missing else "Nothing."


def _not_listed(report: DeployReport) -> str:
    runs = len(report.run_rows)
    return f"The list has {LISTED:,} of {runs:,} runs, those that would break first." if runs > LISTED else ""


def _file(name: str) -> str:
    """A file of the page; no tag can end in it."""
    return (files("pytest_loom.report") / "page" / name).read_text(encoding="utf-8").replace("</", "<\\/")


def _hash(text: str) -> str:
    """What a content security policy calls a style or a script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _number(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _version() -> str:
    from pytest_loom import __version__

    return __version__
