"""Secrets in files of recorded runs: by whose rules they are told, and where they stand. None is ever shown.

Logs with an event a line and JSON documents are looked at as the JSON that they are, envelopes and ids included, so
that nothing hides in a run that is damaged; summaries of runs (``*.loomrun``) as text; everything else by the source
that reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pytest_loom.cli.output import Output
from pytest_loom.cli.settings import Settings, read_settings
from pytest_loom.errors import LogError, LoomError
from pytest_loom.log.event import UNDECODABLE
from pytest_loom.log.files import line_blocks, open_log, read_document
from pytest_loom.log.scrub import Scrubber, find_secrets, scrubber_of
from pytest_loom.sources import find_files, is_address, iter_file, source_of

_LINES = re.compile(r"\.jsonl(\.gz)?(\.partial|\.new)?$")
_DOCUMENT = re.compile(r"\.json(\.gz)?$")
_TEXT = ".loomrun"


class Found(NamedTuple):
    """Where a secret stands: the line (0 where the file has none to tell), the path in its JSON, and its kind."""

    line: int
    path: str
    kind: str


class Rules:
    """The scrubber for each file: the default rules, and ``loom_scrub`` of the pytest configuration nearest to it."""

    def __init__(self) -> None:
        self._known: dict[Path, Scrubber] = {}

    def of(self, file: Path) -> Scrubber:
        """Raises LoomError where the configuration cannot be read, or makes no sense."""
        folder = file.resolve().parent
        if folder not in self._known:
            self._known[folder] = scrubber(read_settings(folder))
        return self._known[folder]


def scrubber(settings: Settings, patterns: list[str] | None = None) -> Scrubber:
    """The rules of a project, and further patterns. Raises LoomError for one that makes no sense."""
    try:
        return scrubber_of([*settings.lines("loom_scrub"), *(f"re:{pattern}" for pattern in patterns or ())])
    except (re.error, ValueError) as problem:
        raise LoomError(f"--scrub or loom_scrub: {problem}") from None


def files_of(places: list[str]) -> Iterator[Path]:
    """The files that these places name, each once; of a folder those that some source knows.

    Raises LogError where there is no such place, and for an address: what is in a store is not a golden.
    """
    seen: set[Path] = set()
    for place in places:
        if is_address(place):
            raise LogError("goldens are files, and this is an address", hint="pytest-loom import makes goldens of it.")
        files = find_files(place)
        if files == [Path(place)] and not Path(place).exists():
            raise LogError("there is no such file or folder", path=place)
        for file in files:
            if file not in seen and (len(files) == 1 or is_lines(file) or _is_known(file)):
                seen.add(file)
                yield file


def secrets_in(file: Path, rules: Scrubber) -> Iterator[Found | LogError]:
    """Every secret of a file; LogErrors for what cannot be read."""
    if rules.text(file.name) != file.name:
        yield from (Found(0, "the file's name", kind) for _, kind in rules.secrets(file.name))
    try:
        if is_lines(file):
            yield from _in_lines(file, rules)
        elif file.name.endswith(_TEXT):
            texts = ((number, line.decode("utf-8", "replace")) for number, line in lines_of(file))
            yield from (Found(number, "", kind) for number, text in texts for _, kind in rules.secrets(text.strip()))
        elif _DOCUMENT.search(file.name):
            yield from _in_document(file, rules)
        else:
            for item in iter_file(file):
                if isinstance(item, LogError):
                    yield item
                else:
                    yield from (Found(0, f"payload.{one.path}", one.rule) for one in find_secrets(item, rules))
    except LogError as error:
        error.path = error.path or str(file)
        yield error


def is_lines(file: Path) -> bool:
    """Whether a file has one JSON value a line, by its name."""
    return bool(_LINES.search(file.name))


def lines_of(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their numbers, line ends included. Raises LogError."""
    with open_log(file) as stream:
        for first, _, block in line_blocks(stream, file):
            yield from enumerate(block.splitlines(keepends=True) if b"\r" not in block else _split(block), first)


def _split(block: bytes) -> list[bytes]:
    """Lines by their newline alone, as the reader of logs counts them."""
    lines = [line + b"\n" for line in block.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return [line for line in lines if line]


def _in_lines(file: Path, rules: Scrubber) -> Iterator[Found | LogError]:
    for number, line in lines_of(file):
        text = line.strip()
        if not text:
            continue
        try:
            if rules.raw(text) is text:
                continue
            found = _found(msgspec.json.decode(text), text, rules)
        except UNDECODABLE:
            found = rules.secrets(text.decode("utf-8", "replace"))
            yield LogError("the line is not JSON, so only its text was looked at", path=str(file), line=number)
        yield from (Found(number, path, kind) for path, kind in found)


def _in_document(file: Path, rules: Scrubber) -> Iterator[Found | LogError]:
    text = read_document(file)
    try:
        if rules.raw(text) is text:
            return
        found = _found(msgspec.json.decode(text), text, rules)
    except UNDECODABLE:
        found = rules.secrets(text.decode("utf-8", "replace"))
        yield LogError("the file is not JSON, so only its text was looked at", path=str(file))
    yield from (Found(0, path, kind) for path, kind in found)


def _found(value: Any, text: bytes, rules: Scrubber) -> list[tuple[str, str]]:
    """The secrets of a value that has some. One may hide where a name stands twice: of those only the last is read."""
    return rules.secrets(value) or rules.secrets(text.decode()) or [("", "text")]


def _is_known(file: Path) -> bool:
    try:
        source_of(file)
    except LogError:
        return False
    return True


def broken(error: LogError, rules: Scrubber, out: Output) -> dict[str, Any]:
    """Say what cannot be read, and give it as facts; an error quotes what it is about, which may be a secret."""
    where: dict[str, Any] = {"path": rules.text(error.path), "line": error.line}
    facts = {"message": rules.text(error.what), **where, "hint": rules.text(error.hint)}
    out.error(LogError(facts["message"], path=facts["path"], line=error.line, hint=facts["hint"]))
    return facts
