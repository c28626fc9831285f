"""``pytest-loom simulate``: the deploy simulation without pytest, for batch jobs and many processes.

What it is not told comes from the ``loom_`` settings of pytest's configuration. Hooks of a conftest.py are not asked:
sources, checks and flows that only these give need ``pytest --loom-deploy-sim``.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

from pytest_loom.cli.corpus import DEFAULT_LOGS, configured, places_of
from pytest_loom.cli.flows import import_flows
from pytest_loom.cli.output import FINDING, OK, STOPPED, Output
from pytest_loom.cli.secrets import scrubber
from pytest_loom.cli.section import counted, publish, report_file
from pytest_loom.cli.settings import Settings, read_settings
from pytest_loom.contract.targets import import_target, target_for
from pytest_loom.deploy.acks import Ack, acknowledge, load_acks
from pytest_loom.deploy.decide import Today
from pytest_loom.deploy.parts import Part, bytes_of, chosen, corpus_of, divided, items_of
from pytest_loom.deploy.report import DeployReport
from pytest_loom.deploy.simulate import SCOPES, simulate_share, simulate_side_by_side
from pytest_loom.deploy.timeline import Timelines
from pytest_loom.errors import FlowError, LogError, printable
from pytest_loom.log.share import Share, share_of
from pytest_loom.report.forms import shows_runs
from pytest_loom.report.plain import SEE
from pytest_loom.sources import LogStream, Wanted, is_address, masked_address


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "sources", nargs="*", metavar="SOURCE", help="files, folders, globs, addresses of stores (default: loom_logs)"
    )
    parser.add_argument("--flows", metavar="MODULE:ATTR", help="today's flows (default: loom_flows)")
    parser.add_argument("--contracts", type=Path, metavar="DIR", help="captured contracts (default: loom_contracts)")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="which verdict is allowed (default: loom_policy)")
    parser.add_argument(
        "--scope", choices=SCOPES, default="auto",
        help="which runs count: auto (all of a kept file, the unfinished ones of a live store), all, in-flight",
    )  # fmt: skip
    parser.add_argument(
        "--shard", type=_shard, metavar="K/N", help="judge one of N parts of the runs; merge joins them"
    )
    parser.add_argument(
        "--report", action="append", default=[], type=report_file, metavar="FILE",
        help="write the report, in the form of its suffix; may be given several times",
    )  # fmt: skip
    parser.add_argument("--jobs", type=_jobs, default=1, metavar="N", help="judge with N processes side by side")


def run(arguments: argparse.Namespace, out: Output) -> int:
    """Simulate. Gives 1 where a run would break, 130 where it was stopped.

    Raises LogError for no run at all, FlowError for no flows.
    """
    settings = read_settings(Path.cwd())
    if arguments.sources:
        places, empty = places_of(arguments.sources), []
    else:
        found = list(configured(settings))
        places = list(dict.fromkeys(place for _, files in found for place in files))
        empty = [pattern for pattern, files in found if not files and pattern not in DEFAULT_LOGS]
    if not places:
        where = f"{', '.join(settings.lines('loom_logs') or DEFAULT_LOGS)}, below {settings.base}"
        hint = "An empty corpus proves nothing, so it is an error. pytest-loom doctor says what is configured."
        raise LogError(f"no log found ({where})", hint=hint)
    meant = _meant(places, arguments.shard)
    simulation = _Simulation(arguments, settings, out)
    with simulation.stoppable():
        report = simulation.of(meant)
    acks = load_acks(settings.path("loom_acks", "")) if str(settings.values.get("loom_acks") or "").strip() else []
    if acks:
        report.finding_rows = report.finding_rows.like(acknowledge(report.findings, acks, date.today()))
    mine = sum(share is None or not share.number for _, share in meant)
    numbers: dict[str, Any] = {"logs": mine, "not_judged": min(len(simulation.left), mine)}
    if arguments.shard is not None:
        names = [Path(masked_address(place)) for place in places]
        shard = f"{arguments.shard.number + 1}/{arguments.shard.of}"
        numbers |= {"shard": shard, "corpus": corpus_of(names, settings.base)}
    notes = [f"loom_logs {printable(pattern, 200)} matches no file" for pattern in empty]
    notes += [] if arguments.shard or simulation.stopped else [*_idle(acks, report)]
    title = f"deploy simulation of {counted(len(meant), 'log file')}"
    ok = report.ok and not simulation.stopped
    see = "since it was stopped" if simulation.stopped else SEE
    publish(report, out, arguments.report, title=title, ok=ok, numbers=numbers, notes=notes, see=see)
    if simulation.stopped:
        out.error("stopped")
        return STOPPED
    return OK if ok else FINDING


def _meant(places: list[str], shard: Share | None) -> list[tuple[str, Share | None]]:
    """The places of a shard, each with the share of it that is meant."""
    if shard is None:
        return [(place, None) for place in places]
    files = chosen([Path(place) for place in places if not is_address(place)], shard)
    return [*((place, shard) for place in places if is_address(place)), *((str(file), share) for file, share in files)]


class _Simulation:
    """One simulation on its way: each application's runs against its own flows."""

    def __init__(self, arguments: argparse.Namespace, settings: Settings, out: Output) -> None:
        self.jobs: int = arguments.jobs
        self.given: str | None = arguments.flows
        self.settings = settings
        self.out = out
        self.runs = 0
        self.stopped = False
        self.left: set[str] = set()
        folder: Path = arguments.contracts or settings.path("loom_contracts", "loom-contracts")
        policy = str(arguments.policy or settings.values.get("loom_policy") or "").strip()
        self.rules: dict[str, Any] = {
            "contract": folder if arguments.contracts or folder.is_dir() else None,
            "scope": arguments.scope,
            "policy": (arguments.policy or settings.base / policy) if policy else None,
            "checks": (),
            "timelines": Timelines(scrubber(settings)) if any(map(shows_runs, arguments.report)) else None,
        }

    @contextlib.contextmanager
    def stoppable(self) -> Iterator[None]:
        """Within this, Ctrl-C ends the simulation after the run that is being judged, the second one at once.

        ``left`` are then the places that have not been judged to their end.
        """

        def stop(number: int, frame: object) -> None:
            if self.stopped:
                raise KeyboardInterrupt
            self.stopped = True
            self.out.note("stopping; once more to stop at once")

        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield  # whoever has said what it means has said it
            return
        signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def of(self, meant: list[tuple[str, Share | None]]) -> DeployReport:
        """The report of all runs, or of those that were judged before it was stopped."""
        report = DeployReport()
        groups: dict[str, list[Part]] = {}
        total = sum(bytes_of(place, share) for place, share in meant)
        for place, share in meant:
            groups.setdefault(self.target(place), []).extend(divided(place, share, self.jobs, total))
        for target, parts in groups.items():
            flows = import_flows(target, self.settings, setting="--flows" if self.given else "loom_flows")
            if self.jobs == 1:
                report.add(simulate_share(LogStream(functools.partial(self.items, parts)), Today(flows), **self.rules))
                continue
            self.out.progress(f"judging {counted(len(parts), 'part')} with {self.jobs} processes")
            # Ctrl-C reaches the workers, too: they finish what they are at
            with ProcessPoolExecutor(
                self.jobs, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
            ) as executor:
                named = _Named(target, self.settings.base)
                report.add(simulate_side_by_side(self.until_stopped(parts), named, executor=executor, **self.rules))
        if self.jobs > 1:  # which part was done first says nothing
            report.finding_rows = report.finding_rows.like(report.finding_rows.in_order())
        return report

    def target(self, place: str) -> str:
        """The ``module:attr`` that is meant for a place. Raises FlowError where none is."""
        lines = [self.given] if self.given else self.settings.lines("loom_flows")
        found = target_for(lines, Path(place).absolute(), self.settings.base)
        if found is None:
            what = f"no line of loom_flows is for {printable(masked_address(place))}"
            if not lines:
                what = "against which code should these runs be held?"
            raise FlowError(what, hint="Give --flows module:attr, or set loom_flows in pytest's configuration.")
        return found

    def items(self, parts: list[Part], wanted: Wanted | None) -> Iterator[Any]:
        """The runs, counted."""
        for part in self.until_stopped(parts):
            for item in items_of(part, wanted):
                if self.stopped:
                    self.left.add(part.place)
                    break
                self.runs += 1
                if not self.runs % 100:
                    self.out.progress(f"{self.runs} runs judged")
                yield item

    def until_stopped(self, parts: list[Part]) -> Iterator[Part]:
        """The parts, in their turn; those that are left when it is stopped are noted."""
        for part in parts:
            if self.stopped:
                self.left.add(part.place)
            else:
                yield part


class _Named:
    """Flows that every process imports for itself: what they are need not be fit to be handed over."""

    def __init__(self, target: str, base: Path) -> None:
        self.target = target
        self.base = base

    def __reduce__(self) -> Any:
        return functools.partial(import_target, setting="--flows"), (self.target, self.base)


def _idle(acks: list[Ack], report: DeployReport) -> Iterator[str]:
    for ack in acks:
        if not any(ack.covers(found) for found in report.findings):
            yield f"loom_acks: no finding is {printable(ack.code)} of flow {printable(ack.flow)}"


def _shard(text: str) -> Share:
    try:
        return share_of(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(f"{text}: {problem}") from None


def _jobs(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= 1_000):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000")
    return int(text)
