"""The runs that a command is given by name: a file, a folder, a glob or an address, and which of its runs is meant."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pytest_loom.cli.flows import import_flows
from pytest_loom.cli.sampling import status_of
from pytest_loom.cli.settings import read_settings
from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import Log
from pytest_loom.sources import find_files, is_address, iter_address, iter_logs, masked_address, readers_of

_NAMED = 5


def add_flows(parser: argparse.ArgumentParser) -> None:
    """The option ``--flows`` of a command that only has to read runs."""
    parser.add_argument(
        "--flows", metavar="MODULE:ATTR", help="today's flows: imports the upcasters that old events may need"
    )


def use_flows(arguments: argparse.Namespace) -> None:
    """Import what ``--flows`` names, where it was given. Raises FlowError."""
    if arguments.flows:
        import_flows(arguments.flows, read_settings(Path.cwd()))


def runs_of(place: str) -> Iterator[Log | LogError]:
    """Every run of a place, a broken one as its LogError. Raises LogError where there is no such place."""
    if is_address(place):
        readers_of(place)
        return iter_address(place)
    files = find_files(place)
    if files == [Path(place)] and not Path(place).exists():
        raise LogError("there is no such file or folder", path=place)
    return iter_logs(files)


def one_of(runs: Iterator[Log | LogError], place: str, run_id: str | None) -> Log:
    """The run that is called ``run_id``, or the only one whose id begins so; without it the only one that there is.

    Raises LogError where none or several are meant, and where the one that is meant is broken.
    """
    if run_id is None:
        found = list(islice(runs, 2))
        if len(found) == 1:
            return _whole(found[0])
        raise several([*found, *islice(runs, _NAMED)], place)
    beginning: list[Log | LogError] = []
    for item in runs:
        if item.execution_id == run_id:
            return _whole(item)
        if item.execution_id.startswith(run_id) and len(beginning) < _NAMED:
            beginning.append(item)
    if len(beginning) == 1:
        return _whole(beginning[0])
    if beginning:
        raise several(beginning, place)
    hint = "Without --run, show lists the runs that there are."
    raise LogError(f"no run here is called {printable(run_id)}", path=masked_address(place), hint=hint)


def several(items: list[Log | LogError], place: str) -> LogError:
    """The refusal where one run was asked for and there are several."""
    names = [printable(item.execution_id, 60) or "one that is broken" for item in items[:_NAMED]]
    more = ", …" if len(items) > _NAMED else ""
    return LogError(
        f"several runs are meant: {', '.join(names)}{more}",
        path=masked_address(place),
        hint="Say which one: --run ID.",
    )


def facts_of(log: Log) -> dict[str, Any]:
    """What a run is, for programs. ``status`` is None where its log is broken."""
    try:
        status: str | None = status_of(log)
    except LogError:
        status = None
    return {
        "executionId": log.execution_id,
        "workflowId": log.workflow_id,
        "status": status,
        "events": len(log),
        "source": log.source,
        "engine": log.engine,
        "path": log.path,
    }


def error_facts(error: LogError) -> dict[str, Any]:
    """What is wrong with a run, for programs."""
    where = {"path": error.path, "line": error.line, "executionId": error.execution_id}
    return {"message": error.what, **where, "hint": error.hint}


def _whole(item: Log | LogError) -> Log:
    if isinstance(item, LogError):
        raise item
    return item
