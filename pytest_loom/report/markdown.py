"""``*.md``: the deploy report for a step summary or a comment in a pull request: short, and the same for the same runs.

Its first line is a hidden marker, by which a bot finds the comment that it wrote before. Whatever comes from a log is
either code or prose without markup, mentions and links (``markup.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from pytest_loom.deploy.changed import ChangedContract
from pytest_loom.deploy.report import DeployReport
from pytest_loom.log.files import replacing
from pytest_loom.report.markup import code, fenced, prose
from pytest_loom.report.places import Places
from pytest_loom.report.plain import SHOWN, headline, hint, message, one_line
from pytest_loom.report.text import OTHERS, Cause, causes, strategy_lines
from pytest_loom.report.ways import Way, acceptance

MARKER = "<!-- pytest-loom: deploy simulation"
"""How the first line begins."""

LIMIT = 60_000
"""Bytes: GitHub takes comments of 65,536 characters."""

MOST = 20
"""How many causes are told that block the deploy, and how many others."""

_NOTES = 5
_ACKS = 3


class _Page:
    """Pieces of text that come to no more than a number of bytes."""

    def __init__(self, room: int) -> None:
        self.pieces: list[bytes] = []
        self.room = room

    def add(self, text: str) -> bool:
        """Take a piece, if it fits."""
        data = text.encode("utf-8", "backslashreplace")
        if len(data) > self.room:
            return False
        self.room -= len(data)
        self.pieces.append(data)
        return True


def write_markdown(report: DeployReport, path: Path, *, ok: bool, extra: Mapping[str, Any]) -> None:
    """Write the verdict, the causes with a few runs each, the strategies and what to type, atomically.

    At most ``LIMIT`` bytes: what is left out is said, by number.
    """
    places = Places(report)
    grouped = causes(report.finding_rows.in_order(), SHOWN)
    blocking = [cause for cause in grouped if cause.state == "breaking"]
    others = [cause for cause in grouped if cause.state != "breaking"]
    head = "".join(_head(report, ok=ok, extra=extra))
    tail = "".join([*_strategies(report), *_what_to_type(blocking)])
    page = _Page(LIMIT)
    page.add(head)
    page.room -= len(tail.encode()) + _RESERVED
    notes = sorted(report.all_notes())[:_NOTES]
    _add_listed(page, [f"- note: {prose(one_line(places.said(note)), 400)}\n" for note in notes])
    _add_listed(page, [_contract(one) for one in sorted(report.changed, key=_contract_order)[:_NOTES]])
    _add_causes(page, blocking, places)
    if others:
        number = f"{len(others)} cause{'' if len(others) == 1 else 's'}"
        page.add(f"<details>\n<summary>To look at, though it stops nothing: {number}</summary>\n\n")
        _add_causes(page, others, places)
        page.add(_CLOSING)
    page.room += len(tail.encode()) + _RESERVED
    page.add(tail)
    with replacing(path) as stream:
        stream.writelines(page.pieces)


_RESERVED = 1_000
"""Bytes for what is said around the causes."""

_CLOSING = "</details>\n\n"


def _head(report: DeployReport, *, ok: bool, extra: Mapping[str, Any]) -> Iterator[str]:
    shard = str(extra.get("shard", ""))
    shard = shard if re.fullmatch(r"[0-9]+/[0-9]+", shard) else ""
    yield f"{MARKER}{f', shard {shard}' if shard else ''} -->\n"
    said = headline(report, ok=ok, extra=extra)
    yield f"## {said[:1].upper()}{said[1:]}\n\n"
    numbers = report.summary()
    files = int(extra.get("logs", 0))
    unfinished = f"{numbers['in_flight'] or 'none'} unfinished"
    yield f"pytest-loom held {_number(numbers['runs'], 'recorded run')} ({unfinished}) from "
    yield f"{_number(files, 'log file')} against today's code."
    yield f" This is shard {shard}; `pytest-loom merge` makes one report of all shards.\n\n" if shard else "\n\n"


def _number(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _add_listed(page: _Page, lines: Sequence[str]) -> None:
    if sum([page.add(line) for line in lines]):
        page.add("\n")


def _contract_order(changed: ChangedContract) -> tuple[str, str, str]:
    return (changed.workflow_id, changed.was, changed.now)


def _contract(changed: ChangedContract) -> str:
    """One line: which contract changed, under how many runs, what of it breaks, which number should have moved."""
    worst = [change.detail for change in changed.changes if change.effect == "breaking"]
    what = f": {prose('; '.join(worst[:SHOWN]), 300)}" if worst else ""
    unmoved = f" ({', '.join(changed.unmoved)} should have moved)" if changed.unmoved else ""
    runs = _number(changed.runs, "unfinished run")
    return f"- contract of {code(changed.workflow_id)} {changed.was[:8]} → {changed.now[:8]}, {runs}{what}{unmoved}\n"


def _add_causes(page: _Page, some: Sequence[Cause], places: Places) -> None:
    shown = sum([page.add("".join(_cause(cause, places))) for cause in some[:MOST]])
    if shown < len(some):
        more = f"{len(some) - shown} {'more ' if shown else ''}cause{'' if len(some) - shown == 1 else 's'}"
        page.add(f"**Not shown here: {more}.** All findings are in the JSON report, `--loom-report=report.json`.\n\n")


def _cause(cause: Cause, places: Places) -> Iterator[str]:
    """A heading, what would happen, to which runs, and what to do."""
    _, name, flow, step = cause.key
    version = cause.examples[0].version if len(cause.versions) == 1 else None
    weight = "" if cause.state == "breaking" else f"{cause.state}: "
    parts = [f"flow {code(flow)}" if flow else "unknown flow"]
    parts[0] += f" {code(version, 40)}" if version is not None else ""
    parts += [f"step {code(step)}"] if step else []
    parts += [f"{cause.count} runs"] if cause.count > 1 else []
    yield f"### {weight}{code(name)}, {', '.join(parts)}\n\n"
    yield f"{prose(message(cause, places))}\n\n"
    for found in cause.examples:
        run = code(found.execution_id) if found.execution_id else "(no execution named)"
        where = f" in {code(places.shown(found), 200)}" if found.source else ""
        accepted = f", acknowledged by {prose(found.acknowledged, 300)}" if found.acknowledged else ""
        yield f"- {run}{where}{accepted}\n"
    yield f"- and {cause.count - len(cause.examples)} more\n\n" if cause.count > len(cause.examples) else "\n"
    begin = "**What to do:** "
    for is_typed, group in groupby(hint(cause, places), lambda line: line.startswith(" ")):  # each way its own lines
        lines = list(group)
        yield fenced(lines, "python") if is_typed else f"{begin}{prose(' '.join(lines))}\n\n"
        begin = "" if not is_typed else begin


def _strategies(report: DeployReport) -> Iterator[str]:
    """The table of ways to deploy, where unfinished runs differ in them."""
    if not any(strategy_lines(report)):
        return
    yield "What each way to deploy makes of the unfinished runs:\n\n"
    yield "| strategy | go on | need a person | stranded |\n| --- | ---: | ---: | ---: |\n"
    for strategy, row in report.strategies().items():
        yield f"| {code(strategy)} | {row['go_on']} | {row['need_a_person']} | {row['stranded']} |\n"
    yield "\n"


def _what_to_type(blocking: Sequence[Cause]) -> Iterator[str]:
    """How to see it, how to accept a finding for a while, and how to keep the contracts that are deployed."""
    yield "<details>\n<summary>What to type</summary>\n\n"
    yield "To see this on your machine:\n\n"
    yield fenced(["python -m pytest --loom-deploy-sim"], "sh")
    accepted = [way for cause in blocking if (way := _ack(cause)) is not None]
    if accepted:
        yield "To accept a finding until a day, in the TOML file that the setting `loom_acks` names:\n\n"
        yield fenced("\n\n".join(way.code for way in accepted[:_ACKS]).splitlines(), "toml")
    yield "To keep the contracts of what is deployed, for the next change to be held against (commit the files):\n\n"
    yield fenced(["python -m pytest --loom-deploy-sim --snapshot-update -k deploy-sim"], "sh")
    yield _CLOSING


def _ack(cause: Cause) -> Way | None:
    _, name, flow, step = cause.key
    return acceptance(name, "" if flow == OTHERS else flow, step)
