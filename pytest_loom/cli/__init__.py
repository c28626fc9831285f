"""The console script ``pytest-loom``: one module a command, told apart here, and how every command ends.

A command's module has ``add_arguments(parser)`` and ``run(arguments, out) -> status``; what it prints for programs
goes to standard output, what people read beside it to standard error.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from pytest_loom.cli.output import ERROR, FINDING, OK, STOPPED, Output
from pytest_loom.errors import LoomError

__all__ = ["ERROR", "FINDING", "OK", "main"]

_COMMANDS = {
    "show": ("pytest_loom.cli.show", "a run's timeline, its state after an event, the rounds of a step"),
    "diff": ("pytest_loom.cli.diff", "compare runs, step by step"),
    "contract": ("pytest_loom.cli.contract", "what a flow promises to its runs, and what changed in that"),
    "import": ("pytest_loom.cli.importing", "make golden logs out of recorded runs, wherever they are kept"),
    "review": ("pytest_loom.cli.review", "accept or reject what failed tests would have goldens be"),
    "scan": ("pytest_loom.cli.scan", "find secrets that are left in goldens, and show none of them"),
    "scrub": ("pytest_loom.cli.scrub", "take secrets out of goldens"),
    "simulate": ("pytest_loom.cli.simulate", "hold recorded runs against today's flows, without pytest"),
    "merge": ("pytest_loom.cli.merge", "make one report of the reports of shards"),
    "doctor": ("pytest_loom.cli.doctor", "what is configured and found, and why nothing was collected"),
}
"""By the name of a command: its module, and what it does."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status: 0 fine, 1 something was found, 2 it could not be done."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        arguments = _parser(words).parse_args(words)
    except SystemExit as end:  # argparse has said why
        return end.code if isinstance(end.code, int) else ERROR
    out = Output(as_json=arguments.json)
    for stream in (sys.stdout, sys.stderr):  # what it cannot say (half a character out of a file's name) is escaped
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = importlib.import_module(_COMMANDS[arguments.command][0]).run(arguments, out)
        sys.stdout.flush()
        return int(status)
    except BrokenPipeError:  # whoever read it has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        out.error("stopped")
        return STOPPED
    except LoomError as error:
        out.error(error)
    except OSError as problem:
        out.error(f"{problem.filename or 'system'}: {problem.strerror or problem}")
    return ERROR


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pytest-loom",
        description="Recorded runs of workflows and agents, outside of pytest.",
        epilog="pytest-loom COMMAND --help says more. Exit status: 0 fine, 1 something was found, 2 wrong usage or an"
        " error.",
    )
    parser.add_argument("--version", action="version", version=f"pytest-loom {_version()}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for name, (module, what) in _COMMANDS.items():
        one = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
        one.add_argument("--json", action="store_true", help="say the outcome as one JSON object on standard output")
        if name in words:
            importlib.import_module(module).add_arguments(one)
    return parser


def _version() -> str:
    try:
        return version("pytest-loom")
    except PackageNotFoundError:  # run from a source tree
        return "(not installed)"
