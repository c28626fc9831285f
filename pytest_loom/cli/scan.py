"""``pytest-loom scan PATH…``: secrets that are left in goldens, for CI and before a commit. None is shown."""

from __future__ import annotations

import argparse
from typing import Any

from pytest_loom.cli.output import FINDING, OK, Output
from pytest_loom.cli.secrets import Rules, broken, files_of, secrets_in
from pytest_loom.errors import LogError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, folders and globs of recorded runs")


def run(arguments: argparse.Namespace, out: Output) -> int:
    """Scan. Gives 1 where a secret is found, or a file cannot be read; raises LogError where there is no such file."""
    rules = Rules()
    secrets: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    files = 0
    for file in files_of(arguments.paths):
        files += 1
        out.progress(f"{files} files scanned")
        scrub = rules.of(file)
        name = scrub.text(str(file))
        for one in secrets_in(file, scrub):
            if isinstance(one, LogError):
                errors.append(broken(one, scrub, out))
                continue
            out.line(f"{name}:{f'{one.line}:' if one.line else ''} {one.path or '(anywhere)'}  {one.kind}", "red")
            secrets.append({"file": name, "line": one.line or None, "path": one.path, "kind": one.kind})
    many = len({one["file"] for one in secrets})
    if secrets:
        out.note(f"{len(secrets)} found in {many} of {files} files. Take them out: pytest-loom scrub PATH")
        out.note("A secret that was committed or shared is known: make a new one where it came from.")
    else:
        out.note(f"no secret found in {files} file{'' if files == 1 else 's'}")
    out.result({"ok": not secrets and not errors, "schema": 1, "files": files, "secrets": secrets, "errors": errors})
    return FINDING if secrets or errors else OK
