"""Reading ``*.loom.jsonl``: one event a line, executions may interleave, damage is found before a log is handed out.

A small file is grouped in one pass. A large one is walked twice: first for who stands where, then log by log, so
that memory follows the longest run rather than the file. A bad line spoils its execution where that can be told,
else its file; it never spoils another file.
"""

from __future__ import annotations

import gc
import json
import os
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import IO, cast

import msgspec
from msgspec.structs import force_setattr

from pytest_loom.errors import LogError, UnknownSchemaVersion, printable
from pytest_loom.log.event import UNDECODABLE, Event, Log, NonEmpty, unknown_kind
from pytest_loom.log.files import line_blocks, open_log
from pytest_loom.log.schema import SCHEMA_VERSION, is_kernel_type, known_event_types, schema_problem
from pytest_loom.log.share import Share

WHOLE_FILE = 64 * 1024 * 1024
"""Up to this many bytes are grouped in memory in one pass."""


_MANY_HEADS = 200_000


class _Head(msgspec.Struct, gc=False, rename="camel"):
    execution_id: NonEmpty


class _Version(msgspec.Struct, gc=False, rename="camel"):
    schema_version: str


class Changed(LogError):
    """Of no run, and yet to be told by whoever sees it: another share may have been read before."""


class Group:
    """The lines of one execution as they come by: its events, and the first line that is none."""

    __slots__ = ("error", "events", "execution_id")

    def __init__(self, execution_id: str) -> None:
        self.execution_id = execution_id
        self.events: list[Event] = []
        self.error: LogError | None = None

    def take(self, items: list[Event | LogError]) -> None:
        """The next lines of this execution. A line that is nobody's raises: it spoils the file."""
        bad = [item for item in items if isinstance(item, LogError)]
        if not bad:
            self.events += cast("list[Event]", items)
            return
        self.events += [item for item in items if isinstance(item, Event)]
        for error in bad:
            if not error.execution_id:
                raise error
            self.error = self.error or error


_decode_events = msgspec.json.Decoder(Event).decode_lines
_decode_event = msgspec.json.Decoder(Event).decode
decode_heads = msgspec.json.Decoder(_Head).decode_lines
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_version = msgspec.json.Decoder(_Version).decode
_LEADING_ID = re.compile(rb'\s*\{\s*"executionId"\s*:\s*("(?:[^"\\\x00-\x1f]|\\.)+")\s*[,}]')
_NO_EVENT = "the file holds no event"
_TRUNCATED = "Input data was truncated"
_OTHER_VERSION = "Read it with the pytest-loom of that version; nothing is guessed."
_PARTIAL = "an unfinished recording; a last line that is cut off was never acknowledged and is left out"


def read_jsonl(path: Path, share: Share | None = None) -> Iterator[Log | LogError]:
    """Every execution of one ``.jsonl`` file as a Log, or as the LogError that says why it is none.

    With a ``share``, only its executions; of a large file the others are not decoded.
    """
    try:
        with paused_gc():
            groups = _group(path)
        if groups is not None:
            own = groups if share is None else [group for group in groups if share.holds(group.execution_id)]
            yield from (finish(group, path) for group in own)
        else:
            yield from _walk(path, *_index(path), share)
    except LogError as error:
        if share is None or share.holds(error.execution_id) or isinstance(error, Changed):
            yield error


@contextmanager
def paused_gc() -> Iterator[None]:
    """Pause the garbage collector while many objects are made: there are no cycles among events (DESIGN section 10)."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _group(path: Path) -> list[Group] | None:
    """The file's executions in order of appearance; None where the file is too large for that."""
    groups: dict[str, Group] = {}
    size = 0
    name = str(path)
    with open_log(path) as stream:
        for first_line, lines, block in line_blocks(stream, path):
            size += len(block)
            if size > WHOLE_FILE:
                return None
            for execution_id, items in stretches_of(read_block(block, first_line, lines, name)):
                group = groups.get(execution_id)
                if group is None:
                    group = groups[execution_id] = Group(execution_id)
                group.take(items)
    if not groups:
        raise LogError(_NO_EVENT, path=name)
    return list(groups.values())


def _index(path: Path) -> tuple[FileFacts, dict[int, int]]:
    """First pass over a large file: for each execution whose lines are not all together, its last stretch of lines.

    Costs eight bytes a stretch. Executions are told by hash: a collision only makes two of them wait longer. The file's
    facts come first, so that the second pass can tell whether it is still the same.
    """
    heads = array("q")
    name = str(path)
    current: str | None = None
    with open_log(path) as stream:
        facts = facts_of(stream)
        for first_line, lines, block in line_blocks(stream, path):
            for execution_id in _heads(block, first_line, lines, name):
                if execution_id != current:
                    current = execution_id
                    heads.append(hash(execution_id))
    if not heads:
        raise LogError(_NO_EVENT, path=name)
    scattered = repeated(heads)
    return facts, {head: position for position, head in enumerate(heads) if head in scattered} if scattered else {}


def repeated(heads: array[int]) -> set[int]:
    """The numbers that an array holds more than once; those of a long one are not all made objects at once."""
    parts = 1 if len(heads) < _MANY_HEADS else 8
    found: set[int] = set()
    for part in range(parts):
        counts = Counter(heads if parts == 1 else (head for head in heads if head % parts == part))
        found.update(head for head, count in counts.items() if count > 1)
    return found


def _walk(
    path: Path, facts: FileFacts, last_stretch: dict[int, int], share: Share | None = None
) -> Iterator[Log | LogError]:
    """Second pass over a large file: each execution is handed out as soon as its last line has gone by."""
    groups: dict[str, Group] = {}
    name = str(path)
    current: str | None = None
    number = -1
    with open_log(path) as stream:
        for first_line, lines, block in line_blocks(stream, path):
            for execution_id, items in _own_stretches(block, first_line, lines, name, share):
                if execution_id != current:
                    if current in groups and last_stretch.get(hash(current), number) == number:
                        check_unchanged(stream, facts, path)
                        yield finish(groups.pop(current), path)
                    current = execution_id
                    number += 1
                if items is None:
                    continue
                if hash(execution_id) in last_stretch:
                    _detach(items)
                groups.setdefault(execution_id, Group(execution_id)).take(items)
        check_unchanged(stream, facts, path)
    for group in groups.values():
        yield finish(group, path)


def _own_stretches(
    block: bytes, first_line: int, lines: int, path: str, share: Share | None
) -> Iterator[tuple[str, list[Event | LogError] | None]]:
    """The stretches of a block; those of other shares are not decoded, and None."""
    if share is None:
        yield from stretches_of(read_block(block, first_line, lines, path))
        return
    heads = _heads(block, first_line, lines, path)
    texts = block.split(b"\n")
    if len(heads) != lines:  # there are blank lines
        for execution_id, items in stretches_of(read_block(block, first_line, lines, path)):
            yield execution_id, items if share.holds(execution_id) else None
        return
    start = 0
    for execution_id, stretch in groupby(heads):
        end = start + sum(1 for _ in stretch)
        if share.holds(execution_id):
            text = b"\n".join(texts[start:end]) + (b"\n" if end < len(texts) else b"")
            yield execution_id, read_block(text, first_line + start, end - start, path)
        else:
            yield execution_id, None
        start = end


FileFacts = tuple[int, int, int, int]


def facts_of(stream: IO[bytes]) -> FileFacts:
    """What tells whether a file that is read twice is still the same."""
    facts = os.fstat(stream.fileno())
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def check_unchanged(stream: IO[bytes], facts: FileFacts, path: Path) -> None:
    """Raise LogError where the file is not the one that was indexed: its runs could come out cut in half."""
    if facts_of(stream) != facts:
        raise Changed("the file changed while it was read", path=str(path), hint="Read it when nobody writes to it.")


def _detach(items: list[Event | LogError]) -> None:
    """Let payloads that wait for the rest of their execution not keep a whole block of the file in memory."""
    for item in items:
        if isinstance(item, Event):
            force_setattr(item, "raw", item.raw.copy())


def stretches_of(items: list[Event | LogError]) -> Iterator[tuple[str, list[Event | LogError]]]:
    """The items cut where the execution changes."""
    start = 0
    current: str | None = None
    for position, item in enumerate(items):
        if item.execution_id != current:
            if current is not None:
                yield current, items[start:position]
            start, current = position, item.execution_id
    if current is not None:
        yield current, items[start:]


def read_block(block: bytes, first_line: int, lines: int, path: str) -> list[Event | LogError]:
    """The events of a block of lines; a line that is none is an error in its place."""
    try:
        if not block.isascii():
            block.decode()
        events = _decode_events(block)
    except UNDECODABLE:
        return list(_event_by_event(block, first_line, lines, path))
    if not is_one_a_line(block, len(events), lines):
        return list(_event_by_event(block, first_line, lines, path))
    for line, event in enumerate(events, first_line):
        force_setattr(event, "path", path)
        force_setattr(event, "line", line)
    return events  # type: ignore[return-value]  # a list of events is one of events and no errors


def is_one_a_line(block: bytes, values: int, lines: int) -> bool:
    """Whether each line holds one value: none is blank, none holds two, none only a part.

    A newline between two objects can only stand between two values, since within one a comma would be needed too. Most
    files begin each line alike, and a longer text is found faster.
    """
    if values != lines:
        return False
    alike = block[:1] == b"{" and block.count(b"}\n" + block[:14]) == lines - 1
    return alike or block.count(b"}\n{") == lines - 1


def _event_by_event(block: bytes, first_line: int, lines: int, path: str) -> Iterator[Event | LogError]:
    unfinished = 0 if block.endswith(b"\n") else first_line + lines - 1
    for number, text in enumerate(block.split(b"\n"), first_line):
        if not text.strip():
            continue
        try:
            text.decode()
            event = _decode_event(text)
        except UNDECODABLE as problem:
            if number == unfinished and path.endswith(".partial") and not _is_whole(text):
                continue  # it was never acknowledged (a recording that was killed)
            yield _bad_line(text, number, path, problem, is_unfinished=number == unfinished)
        else:
            force_setattr(event, "path", path)
            force_setattr(event, "line", number)
            yield event


def _heads(block: bytes, first_line: int, lines: int, path: str) -> list[str]:
    """Whose the lines of a block are. A line that is nobody's raises: known before anything is handed out."""
    try:
        heads = [head.execution_id for head in decode_heads(block)]
    except UNDECODABLE:
        heads = []
    if not is_one_a_line(block, len(heads), lines):
        heads = []
        for item in _event_by_event(block, first_line, lines, path):
            if isinstance(item, LogError) and not item.execution_id:
                raise item
            heads.append(item.execution_id)
    return heads


def _bad_line(text: bytes, line: int, path: str, problem: Exception, *, is_unfinished: bool) -> LogError:
    """Say what is wrong with a line, and whose it is where that can be told."""
    hint = ""
    kind = LogError
    is_cut = str(problem) == _TRUNCATED or getattr(problem, "reason", "") == "unexpected end of data"
    if line == 1 and text.startswith((b"\xff\xfe", b"\xfe\xff")):
        what = "this is UTF-16, a log is UTF-8"
        hint = "Windows PowerShell writes UTF-16 with '>': use Set-Content -Encoding utf8."
    elif b"\0" in text:
        what = f"NUL bytes ({text.count(0)} of them) stand where an event should be"
        hint = "A crash or a full disk leaves such holes. Restore the file from a copy."
    elif is_cut and _is_whole(text):
        what = "a string holds one half of a surrogate pair (such as \\ud83d), which UTF-8 cannot say"
        hint = "Whoever wrote it cut a character in two: write whole characters."
    elif is_unfinished and is_cut:
        what = "the last line is cut off: this event was not written whole"
        hint = "The writer died there. Restore the file, or delete that line if the event was never acknowledged."
    elif isinstance(problem, UnicodeDecodeError):
        what = f"not valid UTF-8 (byte {problem.start} of the line)"
    elif isinstance(problem, RecursionError):
        what = "nested too deeply"
    elif isinstance(problem, msgspec.ValidationError):
        what = f"not an event: {problem}"
        unknown = _told_version_problem(text)
        if unknown is not None:
            what, hint, kind = unknown, _OTHER_VERSION, UnknownSchemaVersion
    elif is_cut:
        what = "the line ends in the middle of its JSON value: one event is one line"
    else:
        what = f"not one JSON value: {problem}"
    return kind(what, path=path, line=line, execution_id=_told_execution(text), hint=hint)


def _is_whole(text: bytes) -> bool:
    """Whether a line that msgspec finds cut off is a JSON value to its end."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _told_execution(text: bytes) -> str:
    """The execution that a damaged line belongs to, or "" where it cannot be told beyond doubt.

    A line that is no JSON is told by how it begins, unless there may be parts of two events in it: then both their
    executions have lost one, and whose the second was may be part of what is lost.
    """
    try:
        return _decode_head(text).execution_id
    except UNDECODABLE:
        leading = _LEADING_ID.match(text)
    if leading is None or b"\0" in text or text.count(b'"executionId"') > 1 or text.count(b'"schemaVersion"') > 1:
        return ""
    try:
        return msgspec.json.decode(leading[1], type=str)
    except UNDECODABLE:
        return ""


def _told_version_problem(text: bytes) -> str | None:
    """Why a line that has not the shape of an event may be right in another version of the schema."""
    try:
        return schema_problem(_decode_version(text).schema_version)
    except UNDECODABLE:
        return None


def finish(group: Group, path: Path) -> Log | LogError:
    """The Log of a complete group, or what is wrong with it."""
    try:
        if group.error is not None:
            raise group.error
        check_events(group.events)
    except LogError as error:
        return error
    return Log(group.events, path=str(path), notices=(_PARTIAL,) if path.name.endswith(".partial") else ())


def check_events(events: Sequence[Event]) -> None:
    """Raise LogError unless the events are one execution's, complete and in order, in a version that is understood."""
    workflow_id, execution_id = events[0].workflow_id, events[0].execution_id
    known = known_event_types()
    for sequence, event in enumerate(events, 1):
        if (
            event.sequence != sequence
            or event.event_type not in known
            or event.schema_version != SCHEMA_VERSION
            or event.workflow_id != workflow_id
            or event.execution_id != execution_id
            or bytes(event.raw)[:1] != b"{"
        ):
            _check_event(event, sequence, events[0])


def _check_event(event: Event, sequence: int, first: Event) -> None:
    """Raise the LogError for what is wrong with an event; one that is merely unusual passes."""
    problem = schema_problem(event.schema_version)
    if problem is not None:
        raise event.error(problem, hint=_OTHER_VERSION, kind=UnknownSchemaVersion)
    if event.sequence != sequence:
        raise _sequence_error(event, sequence)
    if event.workflow_id != first.workflow_id:
        raise event.error(
            f"belongs to workflow {printable(event.workflow_id)}, the events before to {printable(first.workflow_id)}"
        )
    if event.execution_id != first.execution_id:
        raise event.error(f"is another execution's than the events before ({printable(first.execution_id)})")
    if is_kernel_type(event.event_type) and event.event_type not in known_event_types() and not event.ignorable:
        raise unknown_kind(event)
    if bytes(event.raw)[:1] != b"{":
        raise event.error(f"the payload of {printable(event.event_type)} is not an object")


def _sequence_error(event: Event, expected: int) -> LogError:
    found = event.sequence
    if expected == 1:
        return event.error(f"the log begins at sequence {found}: its head is missing")
    if found == expected - 1:
        return event.error(f"sequence {found} stands twice")
    if found < expected:
        return event.error(f"sequence {found} comes after {expected - 1}: out of order or repeated")
    missing = f"event {expected} is" if found == expected + 1 else f"events {expected} to {found - 1} are"
    return event.error(f"sequence {found} follows {expected - 1}: {missing} missing")
