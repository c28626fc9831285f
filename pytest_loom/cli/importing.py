"""``pytest-loom import SOURCE... -o DIR``: runs from anywhere as golden logs, without secrets, in their normal form.

One run is in memory at a time. Its text waits in a private temporary folder, scrubbed and normalised, until it is known
which runs are taken and what the runs that it refers to are called; then each file is written whole, or not at all.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from pytest_loom.cli import goldens, sidecar
from pytest_loom.cli.contracts import Contracts
from pytest_loom.cli.git import git_state
from pytest_loom.cli.output import FINDING, OK, Output, one_line
from pytest_loom.cli.sampling import Candidate, Sample, Wanted, moment, path_of, size, status_of
from pytest_loom.cli.secrets import scrubber
from pytest_loom.cli.settings import Settings, read_settings
from pytest_loom.errors import LogError, LoomError
from pytest_loom.log.aliases import is_drawn, normal_form
from pytest_loom.log.event import Log
from pytest_loom.log.origin import CONTRACT, ENGINE, SOURCE, origin_of, with_origin
from pytest_loom.log.scrub import Scrubber
from pytest_loom.log.write import encode_events
from pytest_loom.sources import find_files, is_address, iter_address, iter_file, masked_address, readers_of

_ENDINGS = re.compile(r"(\.loom)?\.(jsonl|json|eval)(\.gz)?$")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="a file, a folder, a glob, or the address of a store: postgresql://…, temporal://host/namespace?query=…",
    )
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="DIR", help="where the goldens go")
    parser.add_argument("--force", action="store_true", help="replace goldens that are there with other content")
    parser.add_argument(
        "--scrub", action="append", default=[], metavar="PATTERN",
        help="one more expression whose matches are secret, beside the rules and the loom_scrub setting",
    )  # fmt: skip
    parser.add_argument("--flows", metavar="MODULE:ATTR", help="today's flows, whose contracts are captured as well")
    parser.add_argument(
        "--contracts", type=Path, metavar="DIR", help="where contracts are kept (default: loom_contracts)"
    )
    which = parser.add_argument_group("which runs")
    which.add_argument("--flow", action="append", default=[], metavar="NAME", help="only runs of this flow (a glob)")
    which.add_argument("--in-flight", action="store_true", help="only unfinished runs")
    which.add_argument("--since", metavar="TIME", help="only runs whose last event is not older: RFC 3339, or like 7d")
    which.add_argument("--until", metavar="TIME", help="only runs whose last event is not newer")
    which.add_argument(
        "--one-per-path",
        action="store_true",
        help="of each path through a flow only the shortest run, loops taken once",
    )
    which.add_argument("--newest", type=_count, metavar="N", help="only the N newest runs of each flow")
    which.add_argument("--limit", type=_count, metavar="N", help="at most N runs in all")
    which.add_argument("--max-bytes", metavar="SIZE", help="at most so much in all: bytes, or like 20M")


def run(arguments: argparse.Namespace, out: Output) -> int:
    """Import. Gives 1 where a log was broken or a golden in the way; raises LoomError for what makes no sense."""
    now = datetime.now(UTC)
    settings = read_settings(Path.cwd())
    wanted = Wanted(
        flows=arguments.flow,
        in_flight=arguments.in_flight,
        since=arguments.since and moment(arguments.since, lambda: now),
        until=arguments.until and moment(arguments.until, lambda: now),
        newest=arguments.newest,
        one_per_path=arguments.one_per_path,
        limit=arguments.limit,
        max_bytes=None if arguments.max_bytes is None else size(arguments.max_bytes),
    )
    work = _Import(arguments, out, settings, wanted, now)
    with tempfile.TemporaryDirectory(prefix="loom-import-") as folder:
        work.read(Path(folder))
        return work.write()


class _Import:
    """One import on its way."""

    def __init__(
        self, arguments: argparse.Namespace, out: Output, settings: Settings, wanted: Wanted, now: datetime
    ) -> None:
        self.arguments, self.out, self.wanted, self.now = arguments, out, wanted, now
        self.folder: Path = arguments.output
        if self.folder.exists() and not self.folder.is_dir():
            raise LoomError("goldens go into a folder, and this is none", path=str(self.folder))
        self.scrubber = scrubber(settings, arguments.scrub)
        self.places = list(_places(arguments.sources, self.folder))
        if not self.places:
            raise LogError("no log to import but the goldens themselves", path=", ".join(arguments.sources))
        self.contracts = Contracts(arguments, settings, now)
        self.sample = Sample(wanted)
        self.aliases: dict[str, str] = {}
        self.kinds: set[str] = set()
        self.errors: list[dict[str, Any]] = []
        self.runs = 0

    def read(self, spool: Path) -> None:
        """Every run of the sources, as far as it is wanted."""
        for item in self._items():
            self.runs += isinstance(item, Log)
            if isinstance(item, LogError):
                self._broken(item)
            else:
                try:
                    self._take(item, spool)
                except LogError as error:
                    self._broken(_named(error, item))
            self.out.progress(f"{self.runs} runs read, {len(self.aliases)} taken")
            if self.sample.is_full:
                break

    def _items(self) -> Iterator[Log | LogError]:
        for place in self.places:
            yield from iter_address(place) if isinstance(place, str) else iter_file(place)

    def _take(self, log: Log, spool: Path) -> None:
        """Scrub and normalise one run, and let its text wait. Raises LogError where it is broken."""
        status = status_of(log)
        if not self.wanted.takes(log, status):
            return
        facts = {} if log.source == "loom" else {SOURCE: log.source, ENGINE: log.engine}
        if (named := self.contracts.of(log)) is not None:
            facts[CONTRACT] = named
        clean = _scrubbed(with_origin(log, facts), self.scrubber)
        form = normal_form(clean)
        data = encode_events(form.events)
        if self.wanted.max_bytes is not None and len(data) > self.wanted.max_bytes:
            self.wanted.counts["over the budget"] += 1
            return
        text = spool / str(self.runs)
        text.write_bytes(data)
        self.kinds.add(log.source)
        self.aliases.setdefault(form.was, form.alias)
        self.sample.add(
            Candidate(
                order=self.runs,
                text=text,
                size=len(data),
                events=len(form.events),
                flow=clean.workflow_id,
                status=status,
                was=form.was,
                alias=form.alias,
                name=_name(clean, form.alias, was_imported=bool(origin_of(log))),
                links=form.links,
                seen=log.events[-1].time_ms,
                path=path_of(clean, status) if self.wanted.one_per_path else "",
            )
        )

    def write(self) -> int:
        """The goldens, the sidecar, and the outcome."""
        written = goldens.Written(self.folder, self.arguments.force)
        for run in self.sample.chosen():
            self.out.progress(f"writing {run.name}")
            try:
                file = written.put(run, self.aliases)
            except LoomError as error:
                self._broken(error)
                continue
            self.out.line(str(file))
        left_out = {reason: count for reason, count in sorted(self.wanted.counts.items()) if count}
        if written.files:
            sidecar.write_sidecar(self.folder, self._entry(written, left_out))
        done = ", ".join(f"{count} {what}" for what, count in written.changes.items() if count) or "none imported"
        more = "".join(f"; {count} left out: {reason}" for reason, count in left_out.items())
        stopped = "; stopped at the limit" if self.sample.is_full else ""
        broken = f"; {len(self.errors)} could not be imported" if self.errors else ""
        self.out.note(f"{self.runs} run{'' if self.runs == 1 else 's'} read: {done}{more}{stopped}{broken}")
        if "temporal" in self.kinds and written.files:
            self.out.note(
                "goldens of Temporal have no history: a simulation judges them by contract. To have today's code"
                " replayed, name the histories themselves (histories/*.json) in loom_logs"
            )
        self.out.result(
            {
                "ok": not self.errors,
                "schema": 1,
                "folder": str(self.folder),
                "read": self.runs,
                "imported": written.files,
                "leftOut": left_out,
                "errors": self.errors,
            }
        )
        return FINDING if self.errors else OK

    def _broken(self, error: LoomError) -> None:
        self.out.error(self.scrubber.text(one_line(error)))
        where = {"path": error.path, "line": error.line, "executionId": error.execution_id}
        self.errors.append({"message": error.what, **where, "hint": error.hint})
        for name, value in self.errors[-1].items():
            self.errors[-1][name] = self.scrubber.text(value) if isinstance(value, str) else value

    def _entry(self, written: goldens.Written, left_out: dict[str, int]) -> dict[str, Any]:
        asked = {
            name: value
            for name in ("flow", "in_flight", "since", "until", "one_per_path", "newest", "limit", "max_bytes", "flows")
            if (value := getattr(self.arguments, name))
        }
        return {
            "sources": [self.scrubber.text(masked_address(source)) for source in self.arguments.sources],
            "asked": asked,
            "capturedAt": self.now.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "git": git_state(Path.cwd()),
            "python": sidecar.python_version(),
            "packages": sidecar.versions(self.kinds),
            "contracts": self.contracts.facts(),
            "read": self.runs,
            "leftOut": left_out,
            "broken": len(self.errors),
            "runs": {one["file"]: one["executionId"] for one in written.files},
        }


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _places(sources: list[str], folder: Path) -> Iterator[str | Path]:
    """The files and addresses to read. Raises LogError where a source is none.

    A folder that holds the goldens as well is read without them.
    """
    goldens_of = folder.resolve()
    for source in sources:
        if is_address(source):
            readers_of(source)
            yield source
            continue
        inside = Path(source).resolve().is_relative_to(goldens_of)
        files = find_files(source)
        if files == [Path(source)] and not Path(source).exists():
            raise LogError("there is no such file or folder", path=source)
        yield from (file for file in files if inside or not file.resolve().is_relative_to(goldens_of))


def _scrubbed(log: Log, scrubber: Scrubber) -> Log:
    """The run without its secrets, wherever they stand. Raises LogError where a payload cannot be decoded."""

    def text(value: str | None) -> str | None:
        return value if value is None else scrubber.text(value)

    events = []
    for event in log.events:
        try:
            raw = scrubber.raw(bytes(event.raw))
        except LogError as error:
            raise event.error(error.what) from None
        events.append(
            msgspec.structs.replace(
                event,
                execution_id=scrubber.text(event.execution_id),
                workflow_id=scrubber.text(event.workflow_id),
                event_type=scrubber.text(event.event_type),
                branch=text(event.branch),
                namespace=text(event.namespace),
                raw=msgspec.Raw(raw),
            )
        )
    return Log(events, path=log.path, source=log.source, engine=log.engine, live=log.live, notices=log.notices)


def _name(log: Log, alias: str, *, was_imported: bool) -> str:
    """What a run's file is called: the id that somebody gave it, else the file that it came from, else its alias.

    A golden that was imported before keeps its name.
    """
    stem = "" if log.live else _ENDINGS.sub("", Path(log.path).name)
    if was_imported and stem:
        return stem
    if not is_drawn(log.execution_id):
        return log.execution_id
    given = log.events[0].payload.get("temporal")
    workflow = given.get("workflowId") if isinstance(given, dict) else None
    if isinstance(workflow, str) and workflow and not is_drawn(workflow):
        return workflow
    return stem if stem and not is_drawn(stem) else alias


def _named(error: LogError, log: Log) -> LogError:
    error.path = error.path or log.path
    error.execution_id = error.execution_id or log.execution_id
    return error
