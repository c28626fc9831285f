"""``pytest-loom scrub PATH…``: golden logs rewritten without the secrets that are in them, each as one act."""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from pytest_loom.cli.output import FINDING, OK, Output
from pytest_loom.cli.secrets import Found, Rules, broken, files_of, is_lines, lines_of, secrets_in
from pytest_loom.errors import LogError
from pytest_loom.log.files import locked, replacing
from pytest_loom.log.scrub import Scrubber


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, folders and globs of golden logs")
    parser.add_argument("--check", action="store_true", help="rewrite nothing; exit status 1 where something would be")


def run(arguments: argparse.Namespace, out: Output) -> int:
    """Scrub. Gives 1 where a file with secrets could not be rewritten, or would be; raises LogError for no file."""
    rules = Rules()
    changed: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    files = 0
    for file in files_of(arguments.paths):
        files += 1
        out.progress(f"{files} files read")
        scrub = rules.of(file)
        try:
            count = scrub_file(file, scrub, check=arguments.check)
        except LogError as error:
            error.path = error.path or str(file)
            errors.append(broken(error, scrub, out))
            continue
        if count:
            name = scrub.text(str(file))
            secrets = "1 secret" if count == 1 else f"{count} secrets"
            out.line(f"{name}: {secrets}{'' if arguments.check else ' taken out'}")
            changed.append({"file": name, "secrets": count})
    done = "would be rewritten" if arguments.check else "rewritten"
    out.note(f"{files} file{'' if files == 1 else 's'} read, {len(changed) or 'none'} {done}")
    if changed and not arguments.check:
        out.note("A secret that was committed or shared is known: make a new one where it came from.")
    ok = not errors and not (changed and arguments.check)
    out.result({"ok": ok, "schema": 1, "files": files, "changed": changed, "errors": errors})
    return OK if ok else FINDING


def scrub_file(file: Path, rules: Scrubber, *, check: bool = False) -> int:
    """Rewrite one log without its secrets; how many there were. A file without any is not touched.

    Raises LogError, having changed nothing, where the file is broken, is none that pytest-loom writes, is a link, or
    holds secrets in ids by which its runs are told apart.
    """
    with locked(file):
        found = []
        for one in secrets_in(file, rules):
            if isinstance(one, LogError):
                raise one
            if one.path != "the file's name":
                found.append(one)
        if found and not check:
            _rewrite(file, rules, found)
        return len(found)


def _rewrite(file: Path, rules: Scrubber, found: list[Found]) -> None:
    if not is_lines(file):
        raise LogError(
            f"{len(found)} secrets are in it, and it is not written by pytest-loom, so it is not rewritten",
            hint="pytest-loom import makes a golden of it that has none.",
        )
    if file.is_symlink():
        raise LogError("this is a link, through which nothing is written", hint="Name the file that it points to.")
    if any(one.path == "executionId" for one in found):
        _check_ids(file, rules)
    with replacing(file) as stream:
        if file.name.endswith(".gz"):
            with gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0) as packed:
                packed.writelines(_scrubbed(file, rules))
        else:
            stream.writelines(_scrubbed(file, rules))


def _scrubbed(file: Path, rules: Scrubber) -> Iterator[bytes]:
    for _, line in lines_of(file):
        text = line.strip()
        clean = rules.raw(text) if text else text
        yield line if clean is text else line.replace(text, clean, 1)


class _Head(msgspec.Struct, rename="camel"):
    execution_id: str


def _check_ids(file: Path, rules: Scrubber) -> None:
    """Raise LogError where two runs would have one id."""
    was: dict[str, str] = {}
    for number, line in lines_of(file):
        if line.strip():
            name = msgspec.json.decode(line, type=_Head).execution_id
            if was.setdefault(rules.text(name), name) != name:
                raise LogError(
                    "the runs of this file are told apart by secrets in their ids",
                    line=number,
                    hint="pytest-loom import gives each a name of its own.",
                )
