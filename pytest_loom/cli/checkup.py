"""Checks of ``pytest-loom doctor`` on the runs and what they are held against: logs, flows, contracts, rules.

Only the project's own configuration is believed: it names modules, which are imported as a test run imports them.
"""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Iterator
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

from pytest_loom.cli.check import Check, Seen, State, counted, failed, masked, some
from pytest_loom.cli.corpus import DEFAULT_LOGS, configured, shown
from pytest_loom.cli.flows import import_flows
from pytest_loom.cli.output import Output, one_line
from pytest_loom.cli.secrets import scrubber
from pytest_loom.cli.settings import Settings
from pytest_loom.contract.fingerprint import fingerprint
from pytest_loom.contract.resolve import UNNAMED, contract_as, named_flows
from pytest_loom.contract.store import Captured, every
from pytest_loom.contract.targets import target_for
from pytest_loom.deploy.acks import load_acks
from pytest_loom.errors import LogError, LoomError, printable
from pytest_loom.resume.policy import load_policy
from pytest_loom.sources import find_files, is_address, iter_address, iter_file

_MOST = 10_000
"""So many runs of a pattern are read at most."""


def logs(settings: Settings, seen: Seen, out: Output) -> Iterator[Check]:
    """What each pattern of ``loom_logs`` finds: files, runs, who reads them; and what no pattern finds."""
    about = "logs"
    is_set = bool(settings.lines("loom_logs"))
    for pattern, places in configured(settings):
        if not places:
            if is_set:
                yield Check(about, "problem", f"{printable(pattern, 300)} matches no file", _nearest(pattern, settings))
            continue
        yield from _pattern(pattern, places, settings, seen, out)
    below = [place for one in DEFAULT_LOGS for place in map(shown, _found(one, settings.base))]
    others = [place for place in below if place not in seen.files]
    if not seen.files:
        where = ", ".join(map(masked, settings.lines("loom_logs") or DEFAULT_LOGS))
        where = f"{printable(where, 300)}, below {shown(settings.base)}"
        text = f"no log is found ({where}), so --loom-deploy-sim collects nothing to judge"
        hint = "Set loom_logs to where your runs are, record one in a test, or make goldens of runs that are kept:\n"
        hint += "  pytest-loom import SOURCE -o tests/goldens"
        if others:
            hint = f'There are {some(others)}. Set loom_logs = ["{_glob_for(others[0], settings)}"]'
        yield Check(about, "problem", text, hint)
    elif others:
        text = f"{len(others)} more are in no pattern of loom_logs, so no simulation judges them: {some(others)}"
        yield Check(about, "note", text)


def _pattern(pattern: str, places: list[str], settings: Settings, seen: Seen, out: Output) -> Iterator[Check]:
    about = "logs"
    by_source: Counter[str] = Counter()
    broken: list[LogError] = []
    homeless: list[str] = []
    lines = settings.lines("loom_flows")
    runs = 0
    for number, place in enumerate(places, 1):
        seen.files.add(place)
        out.progress(f"{number} of {len(places)} read: {masked(place)}")
        target = target_for(lines, Path(place).absolute(), settings.base)
        homeless += [masked(place)] if target is None and lines else []
        items = iter_address(place) if is_address(place) else iter_file(Path(place))
        for item in islice(items, _MOST - runs):
            runs += 1
            if isinstance(item, LogError):
                broken.append(item)
                continue
            by_source[item.source] += 1
            seen.workflows.setdefault(target or "", set()).add(item.workflow_id)
            if item.engine == "trace":
                by_source["traces, which are compared and not judged"] += 1
        if runs >= _MOST:
            break
    seen.sources |= {source for source in by_source if " " not in source}
    said = ", ".join(f"{count} {printable(source)}" for source, count in sorted(by_source.items()))
    more = " or more" if runs >= _MOST else ""
    files = "an address" if is_address(places[0]) else counted(len(places), "file")
    yield Check(
        about, "ok", f"{printable(masked(pattern), 300)}: {files}, {counted(runs, 'run')}{more} ({said or 'none'})"
    )
    if broken:
        rest = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        what = LogError(broken[0].what, path=broken[0].path, line=broken[0].line, execution_id=broken[0].execution_id)
        yield Check(
            about, "problem", f"cannot be read: {one_line(what)}{rest}", broken[0].hint or "  pytest-loom show LOG"
        )
    if homeless:
        yield Check(
            about, "problem", f"no line of loom_flows is for {some(homeless)}",
            "Add a line to loom_flows: GLOB = module:attr",
        )  # fmt: skip


def flows(settings: Settings, seen: Seen) -> Iterator[Check]:
    """Whether today's flows can be imported, and are those that the runs are of; their contracts, captured or not."""
    about = "flows"
    lines = settings.lines("loom_flows")
    if not lines:
        state: State = "problem" if seen.files else "note"
        hint = 'Set loom_flows = "module:attr", or override the fixture loom_flows.'
        yield Check(about, state, "loom_flows is not set: against which code should runs be held?", hint)
    for target in dict.fromkeys(line.rpartition("=")[2].strip() for line in lines):
        try:
            found = named_flows(import_flows(target, settings, setting="loom_flows"))
        except LoomError as error:
            yield failed(about, error)
            continue
        except Exception as problem:  # an engine's own object that cannot be looked at
            yield failed(about, LoomError(f"{target}: {type(problem).__name__}: {printable(str(problem), 300)}"))
            continue
        if not found:
            yield Check(about, "ok", f"{printable(target)}: says what flow there is when it is asked")
            continue
        yield Check(about, "ok", f"{printable(target)}: {printable(', '.join(found), 500)}")
        missing = sorted(name for name in seen.workflows.get(target, ()) if name not in (*found, UNNAMED))
        if missing:
            yield Check(
                about, "note", f"runs are of flows that {printable(target)} has not: {some(missing)}",
                "Were they renamed? This says which runs that would strand:\n  pytest --loom-deploy-sim",
            )  # fmt: skip
        yield from _captured(found, settings)


def effects(settings: Settings) -> Iterator[Check]:
    """Whether the functions that are recorded by name are there."""
    for line in settings.lines("loom_effects"):
        module, _, name = line.partition(":")
        try:
            import_flows(line if name != "*" else f"{module}:__name__", settings, setting="loom_effects")
        except LoomError as error:
            yield failed("effects", error)


def _captured(found: dict[str, Any], settings: Settings) -> Iterator[Check]:
    """Today's contracts beside those that are kept."""
    about = "contracts"
    folder = settings.path("loom_contracts", "loom-contracts")
    capture = "Capture them with the deploy:\n  pytest --loom-deploy-sim --snapshot-update -k deploy-sim"
    kept = list(every(folder)) if folder.is_dir() else []
    yield from (failed(about, one) for one in kept if isinstance(one, LoomError))
    prints = {(one.contract.workflow_id, one.fingerprint) for one in kept if isinstance(one, Captured)}
    today: list[str] = []
    for name, flow in found.items():
        try:
            contract = contract_as(flow, name)
            today += [] if (contract.workflow_id, fingerprint(contract)) in prints else [name]
        except LoomError as error:
            yield failed("flows", error)
    if not kept:
        yield Check(
            about, "note", f"none is captured in {shown(folder)}: runs are held against today's code alone", capture
        )
        return
    yield Check(
        about,
        "ok",
        f"{shown(folder)}: {len(prints)} captured, of {counted(len({name for name, _ in prints}), 'flow')}",
    )
    if today:
        yield Check(about, "note", f"today's is not among them: {some(today)}", capture)


def rules(settings: Settings, today: date) -> Iterator[Check]:
    """Acknowledgements, policy, and what else is secret."""
    try:
        scrubber(settings)
    except LoomError as error:
        yield failed("rules", error)
    if name := settings.text("loom_acks"):
        try:
            acks = load_acks(settings.base / name)
            over = [ack.code for ack in acks if ack.expires <= today]
            yield Check("rules", "ok", f"{printable(name, 300)}: {counted(len(acks), 'acknowledgement')}")
            if over:
                hint = "Renew them, or take them out."
                yield Check(
                    "rules", "note", f"{len(over)} have expired, so their findings count again: {some(over)}", hint
                )
        except LoomError as error:
            yield failed("rules", error)
    if name := settings.text("loom_policy"):
        try:
            load_policy(settings.base / name)
            yield Check("rules", "ok", f"{printable(name, 300)}: a policy")
        except LoomError as error:
            yield failed("rules", error)


def _found(pattern: str, base: Path) -> list[Path]:
    try:
        return find_files(pattern, root=base)
    except LogError:
        return []


def _nearest(pattern: str, settings: Settings) -> str:
    """Why a pattern may match nothing: the first of its folders that is not there."""
    place = settings.base
    for part in Path(pattern).parts[:-1]:
        if any(sign in part for sign in "*?["):
            break
        if not (place / part).is_dir():
            names = [one.name for one in place.iterdir() if one.is_dir()] if place.is_dir() else []
            near = difflib.get_close_matches(part, names, n=1)
            return f"{shown(place)} has no folder {printable(part)}{f': did you mean {near[0]}?' if near else ''}"
        place /= part
    return f"The pattern starts from {shown(settings.base)}; its folder is there."


def _glob_for(place: str, settings: Settings) -> str:
    folder = os.path.relpath(os.path.dirname(os.path.abspath(place)), settings.base)
    return "*.loom.jsonl" if folder == "." else f"{Path(folder).as_posix()}/*.loom.jsonl"
