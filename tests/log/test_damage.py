"""Damage: whatever a file holds, the reader gives whole logs or LogErrors that say where; it never crashes or hangs."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import random
import re
import sqlite3
import struct
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_loom import Log, LogError, UnknownSchemaVersion, load_log, load_logs
from pytest_loom.log import read
from pytest_loom.log.read import read_jsonl

MakeLine = Callable[..., bytes]
MakeRun = Callable[..., list[bytes]]
ReadAll = Callable[[Path], list[Log | LogError]]

PLAIN = (
    b'{"executionId":"a","workflowId":"refund","sequence":%s,"timestamp":%s,"eventType":%s,"schemaVersion":%s,'
    b'"payload":%s}\n'
)


def plain(
    sequence: bytes | int = 1,
    *,
    timestamp: bytes = b"1",
    kind: bytes = b'"STEP_STARTED"',
    schema: bytes = b'"1.15.0"',
    payload: bytes = b"{}",
) -> bytes:
    """A line whose fields are JSON texts, valid or not."""
    return PLAIN % (str(sequence).encode() if isinstance(sequence, int) else sequence, timestamp, kind, schema, payload)


def whole(*lines: bytes) -> bytes:
    """The bytes of a file."""
    return b"".join(lines)


ONE, TWO, THREE, FOUR = (plain(number) for number in (1, 2, 3, 4))
NESTED = b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"

# What the file holds, the line and the execution that the error names ("" where they cannot be told), what it says.
DAMAGE: dict[str, tuple[bytes, int, str, str]] = {
    "torn last line": (whole(ONE, TWO, THREE[:60]), 3, "a", "cut off"),
    "torn last line, only line": (ONE[:-3], 1, "a", "cut off"),
    "torn inside the execution's id": (whole(ONE, TWO[:16]), 2, "", "cut off"),
    "torn inside a character": (whole(ONE, plain(2, payload=b'{"a":"\xe2\x82')[:-3]), 2, "a", "cut off"),
    "torn inside a number, newline kept": (whole(ONE, TWO[:52] + b"\n", THREE), 2, "a", "one event is one line"),
    "one event missing": (whole(ONE, TWO, FOUR), 3, "a", "event 3 is missing"),
    "several events missing": (whole(ONE, plain(5)), 2, "a", "events 2 to 4 are missing"),
    "an event twice": (whole(ONE, TWO, TWO, THREE), 3, "a", "sequence 2 stands twice"),
    "the first event twice": (whole(ONE, ONE), 2, "a", "sequence 1 stands twice"),
    "events in another order": (whole(ONE, THREE, TWO, FOUR), 2, "a", "event 2 is missing"),
    "an old event again": (whole(ONE, TWO, THREE, ONE), 4, "a", "out of order"),
    "head missing": (whole(TWO, THREE), 1, "a", "its head is missing"),
    "NUL block for a line": (whole(ONE, b"\0" * 64 + b"\n", THREE), 2, "", "NUL bytes (64"),
    "NUL block over lines": (whole(ONE, TWO[:30], b"\0" * 4096, THREE[90:], FOUR), 2, "", "NUL bytes"),
    "NUL block at the end": (whole(ONE, TWO, b"\0" * 4096), 3, "", "NUL bytes (4096"),
    "NUL at the start": (whole(b"\0" * 10, ONE), 1, "", "NUL bytes"),
    "NUL in a text": (whole(ONE, plain(2, payload=b'{"a":"\0"}')), 2, "", "NUL bytes (1"),
    "invalid UTF-8 in a payload": (whole(ONE, plain(2, payload=b'{"a":"\xff"}')), 2, "a", "not valid UTF-8"),
    "Latin-1 in a payload": (whole(ONE, plain(2, payload=b'{"a":"caf\xe9"}')), 2, "a", "not valid UTF-8"),
    "invalid UTF-8 in the id": (whole(ONE, TWO.replace(b'"a"', b'"\xff"')), 2, "", "not valid UTF-8"),
    "a surrogate as UTF-8": (whole(ONE, plain(2, payload=b'{"a":"\xed\xa0\x80"}')), 2, "a", "not valid UTF-8"),
    "an overlong slash": (whole(ONE, plain(2, payload=b'{"a":"\xc0\xaf"}')), 2, "a", "not valid UTF-8"),
    "UTF-16 with a mark": (ONE.decode().encode("utf-16"), 1, "", "UTF-16"),
    "UTF-16 big endian with a mark": (b"\xfe\xff" + ONE.decode().encode("utf-16-be"), 1, "", "UTF-16"),
    "UTF-16 without a mark": (ONE.decode().encode("utf-16-le"), 1, "", "NUL bytes"),
    "a byte order mark inside": (whole(ONE, b"\xef\xbb\xbf", TWO), 2, "", "not one JSON value"),
    "two values on a line": (whole(ONE.rstrip() + TWO, THREE), 1, "", "not one JSON value"),
    "two values on a line, with a space": (whole(ONE.rstrip(), b" ", TWO), 1, "", "not one JSON value"),
    "two values on a line, then a blank one": (whole(ONE.rstrip(), TWO, b"\n", THREE), 1, "", "not one JSON value"),
    "a value over two lines": (whole(ONE, TWO.replace(b",", b",\n", 1), THREE), 3, "", "not an event"),
    "a value over two lines, two on another": (
        whole(ONE.replace(b'"payload":', b'"payload":\n'), TWO.rstrip(), THREE),
        2,
        "",
        "not an event",
    ),
    "a comma at the end of the line": (whole(ONE.rstrip(), b",\n", TWO), 1, "a", "not one JSON value"),
    "a JSON array of events": (b"[" + ONE.rstrip() + b"]\n", 1, "", "not an event"),
    "a raw newline in a text": (whole(ONE, plain(2, payload=b'{"a":"\n"}')), 3, "", "one event is one line"),
    "a raw tab in a text": (whole(ONE, plain(2, payload=b'{"a":"\t"}')), 2, "a", "not one JSON value"),
    "a bad escape": (whole(ONE, plain(2, payload=b'{"a":"\\x"}')), 2, "a", "not one JSON value"),
    "a lone surrogate": (whole(ONE, plain(2, payload=b'{"a":"\\ud800", "b":1}')), 2, "a", "not one JSON value"),
    "half a character": (whole(ONE, plain(2, payload=b'{"a":"\\ud83d"}')), 2, "a", "half of a surrogate pair"),
    "a lone surrogate as id": (whole(ONE, TWO.replace(b'"a"', b'"\\ud800"')), 2, "", "not one JSON value"),
    "NaN": (whole(ONE, plain(2, payload=b'{"a":NaN}')), 2, "a", "not one JSON value"),
    "Python's None": (whole(ONE, plain(2, payload=b'{"a":None}')), 2, "a", "not one JSON value"),
    "single quotes": (ONE.replace(b'"', b"'"), 1, "", "not one JSON value"),
    "nothing but brackets": (whole(ONE, b"[" * 100_000 + b"\n"), 2, "", ""),
    "a number": (b"17\n", 1, "", "not an event"),
    "a text": (b'"executionId"\n', 1, "", "not an event"),
    "null": (b"null\n", 1, "", "not an event"),
    "an empty object": (b"{}\n", 1, "", "not an event"),
    "sequence as text": (whole(ONE, plain(b'"2"')), 2, "a", "$.sequence"),
    "sequence null": (whole(ONE, plain(b"null")), 2, "a", "$.sequence"),
    "sequence true": (plain(b"true"), 1, "a", "$.sequence"),
    "sequence 1.0": (plain(b"1.0"), 1, "a", "$.sequence"),
    "sequence 1e0": (plain(b"1e0"), 1, "a", "$.sequence"),
    "sequence 1e400": (plain(b"1e400"), 1, "a", "$.sequence"),
    "sequence 0": (whole(plain(0), ONE), 1, "a", "$.sequence"),
    "sequence -1": (plain(-1), 1, "a", "$.sequence"),
    "sequence 2**63": (whole(ONE, plain(2**63)), 2, "a", "$.sequence"),
    "sequence 2**80": (whole(ONE, plain(2**80)), 2, "a", "$.sequence"),
    "sequence of 100,000 digits": (whole(ONE, plain(b"9" * 100_000)), 2, "a", "$.sequence"),
    "sequence 007": (plain(b"007"), 1, "a", "not one JSON value"),
    "timestamp 1.5": (plain(timestamp=b"1.5"), 1, "a", "$.timestamp"),
    "timestamp true": (plain(timestamp=b"true"), 1, "a", "$.timestamp"),
    "timestamp null": (plain(timestamp=b"null"), 1, "a", "$.timestamp"),
    "timestamp in words": (plain(timestamp=b'"yesterday"'), 1, "a", "$.timestamp"),
    "timestamp without a zone": (plain(timestamp=b'"2026-01-02T03:04:05"'), 1, "a", "$.timestamp"),
    "timestamp a list": (plain(timestamp=b"[1]"), 1, "a", "$.timestamp"),
    "timestamp of 100,000 digits": (plain(timestamp=b"9" * 100_000), 1, "a", "$.timestamp"),
    "eventType a number": (plain(kind=b"5"), 1, "a", "$.eventType"),
    "eventType empty": (plain(kind=b'""'), 1, "a", "$.eventType"),
    "schemaVersion a number": (plain(schema=b"1.15"), 1, "a", "$.schemaVersion"),
    "payload null": (whole(ONE, plain(2, payload=b"null")), 2, "a", "payload of STEP_STARTED is not an object"),
    "payload a list": (plain(payload=b"[]"), 1, "a", "payload of STEP_STARTED is not an object"),
    "payload a text": (plain(payload=b'"{}"'), 1, "a", "payload of STEP_STARTED is not an object"),
    "payload a number": (plain(payload=b"0"), 1, "a", "payload of STEP_STARTED is not an object"),
    "payload missing": (ONE.replace(b',"payload":{}', b""), 1, "a", "payload"),
    "two workflows in one execution": (
        whole(ONE, TWO.replace(b"refund", b"chargeback")),
        2,
        "a",
        "belongs to workflow chargeback, the events before to refund",
    ),
    "payload of an application event": (plain(kind=b'"Noted"', payload=b"[]"), 1, "a", "payload of Noted is not"),
    "two workflows, in an application event": (
        whole(ONE, plain(2, kind=b'"Noted"').replace(b"refund", b"chargeback")),
        2,
        "a",
        "belongs to workflow chargeback",
    ),
    "executionId a number": (whole(ONE, TWO.replace(b'"a"', b"5")), 2, "", "$.executionId"),
    "executionId null": (ONE.replace(b'"a"', b"null"), 1, "", "$.executionId"),
    "executionId empty": (whole(ONE, TWO.replace(b'"a"', b'""')), 2, "", "$.executionId"),
    "executionId missing": (whole(ONE, TWO.replace(b'"executionId":"a",', b"")), 2, "", "executionId"),
    "workflowId missing": (ONE.replace(b'"workflowId":"refund",', b""), 1, "a", "workflowId"),
    "workflowId empty": (ONE.replace(b"refund", b""), 1, "a", "$.workflowId"),
    "eventVersion a text": (ONE.replace(b'"payload"', b'"eventVersion":"1","payload"'), 1, "a", "$.eventVersion"),
    "eventVersion true": (ONE.replace(b'"payload"', b'"eventVersion":true,"payload"'), 1, "a", "$.eventVersion"),
    "branch a number": (ONE.replace(b'"payload"', b'"branch":0,"payload"'), 1, "a", "$.branch"),
    "namespace a list": (ONE.replace(b'"payload"', b'"namespace":[],"payload"'), 1, "a", "$.namespace"),
    "ignorable a text": (ONE.replace(b'"payload"', b'"ignorable":"yes","payload"'), 1, "a", "$.ignorable"),
    "ignorable 1": (ONE.replace(b'"payload"', b'"ignorable":1,"payload"'), 1, "a", "$.ignorable"),
    "not a log: a JSON document": (b'{\n  "name": "x",\n  "version": 1\n}\n', 1, "", "one event is one line"),
    "not a log: JSON lines of another kind": (b'{"id": 1}\n{"id": 2}\n', 1, "", "executionId"),
    "not a log: CSV": (b"executionId,sequence\na,1\n", 1, "", "not one JSON value"),
    "not a log: PNG": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 1, "", "not valid UTF-8"),
    "not a log: a page of HTML": (b"<!doctype html>\n<p>404</p>\n", 1, "", "not one JSON value"),
    "not a log: an unfetched LFS pointer": (
        b"version https://git-lfs.github.com/spec/v1\n",
        1,
        "",
        "not one JSON value",
    ),
    "not a log: the last line is a note": (whole(ONE, b"# the end"), 2, "", "not one JSON value"),
    "not a log: a merge conflict": (whole(ONE, b"<<<<<<< HEAD\n", TWO), 2, "", "not one JSON value"),
}

UNKNOWN: dict[str, tuple[bytes, int, str]] = {
    "a newer major version": (whole(ONE, plain(2, schema=b'"2.0.0"')), 2, "schemaVersion 2.0.0 has another major"),
    "a newer major version whose envelope has another shape": (
        whole(ONE, TWO.replace(b"1.15.0", b"2.0.0").replace(b"sequence", b"position")),
        2,
        "schemaVersion 2.0.0 has another major",
    ),
    "an older major version": (plain(schema=b'"0.15.0"'), 1, "schemaVersion 0.15.0 has another major"),
    "a major version of ten digits": (plain(schema=b'"1000000000.0.0"'), 1, "is not MAJOR.MINOR.PATCH"),
    "an unknown kernel kind": (whole(ONE, plain(2, kind=b'"STEP_DREAMT"')), 2, "kind STEP_DREAMT is not known"),
    "an unknown kernel kind, not ignorable": (
        whole(ONE, plain(2, kind=b'"MODEL_X","ignorable":false')),
        2,
        "kind MODEL_X is not known",
    ),
    "a kernel prefix alone": (plain(kind=b'"EXECUTION_"'), 1, "kind EXECUTION_ is not known"),
} | {
    f"version {text!r}": (plain(schema=b'"%s"' % text.encode()), 1, "is not MAJOR.MINOR.PATCH")
    for text in (
        "",
        "1",
        "1.15",
        "1.15.0.0",
        "v1.15.0",
        "1.15.0-rc1",
        "1.15.0 ",
        " 1.15.0",
        "1.015.0",
        "-1.15.0",
        "1.15.x",
        "1.1５.0",
    )
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the damaged log goes."""
    return tmp_path / "a.loom.jsonl"


@pytest.mark.usefixtures("passes")
class TestOneFile:
    @pytest.mark.parametrize("name", list(DAMAGE))
    def test_damage_is_one_error_that_says_where(self, file: Path, read_all: ReadAll, name: str) -> None:
        """File, line and execution are named as far as they can be told, and no log comes out of the file."""
        content, line, execution, said = DAMAGE[name]
        file.write_bytes(content)
        (error,) = read_all(file)
        assert isinstance(error, LogError)
        assert not isinstance(error, UnknownSchemaVersion)
        assert (error.path, error.line, error.execution_id) == (str(file), line, execution)
        assert said in error.what
        assert len(str(error)) < 1000

    @pytest.mark.parametrize("name", list(UNKNOWN))
    def test_what_this_version_cannot_know_is_refused_as_such(self, file: Path, read_all: ReadAll, name: str) -> None:
        """Fail closed: an unknown version or kernel kind is UnknownSchemaVersion, whatever else is wrong there."""
        content, line, said = UNKNOWN[name]
        file.write_bytes(content)
        (error,) = read_all(file)
        assert isinstance(error, UnknownSchemaVersion)
        assert (error.path, error.line, error.execution_id) == (str(file), line, "a")
        assert said in error.what

    def test_load_log_raises_the_same_error(self, file: Path) -> None:
        """One execution or many, the words are the same."""
        file.write_bytes(whole(ONE, THREE))
        with pytest.raises(LogError, match=r"a\.loom\.jsonl:2, execution a: event 3: .*event 2 is missing"):
            load_log(file)

    def test_names_out_of_a_damaged_log_are_printable(self, file: Path, read_all: ReadAll) -> None:
        """A log cannot forge lines or colours of a report through the error that it causes."""
        forged = rb'"a\u001b[31m\nFAILED\u2028\u202e"'
        for change in (
            plain(2, kind=forged, payload=b"[]"),
            plain(2, schema=forged),
            plain(2, kind=forged.replace(b'"a', b'"STEP_')),
            TWO.replace(b'"refund"', forged),
            TWO.replace(b'"a"', forged),
        ):
            file.write_bytes(whole(ONE, change))
            text = "".join(str(item) for item in read_all(file) if isinstance(item, LogError))
            assert "FAILED" in text
            assert text.replace("\n  ", "").isprintable()

    def test_a_value_nested_almost_too_deep_is_read_or_refused_but_never_crashes(self, file: Path) -> None:
        """The decoder's limit depends on the interpreter; on both sides of it there is a value or a LogError."""
        outcomes = set()
        for depth in (100, 300, *range(800, 1100, 7), 3000):
            file.write_bytes(plain(payload=b'{"a":' + b"[" * depth + b"]" * depth + b"}"))
            try:
                payload = load_log(file).events[0].payload
                outcomes.add(type(payload["a"]).__name__)
            except LogError as error:
                outcomes.add(error.execution_id)
        assert "list" in outcomes
        assert outcomes <= {"list", "a"}

    def test_nesting_of_5_000_is_refused_by_every_interpreter(self, file: Path, run: MakeRun) -> None:
        """When the line is read, or where the decoder bears that much, when the payload is looked at."""
        for payload in (NESTED, NESTED.replace(b"[", b'{"a":').replace(b"]", b"1}", 1).replace(b"]", b"}")):
            file.write_bytes(whole(ONE, plain(2, payload=payload)))
            with pytest.raises(LogError, match="nested") as caught:
                _ = load_log(file).events[1].payload
            assert (caught.value.path, caught.value.line, caught.value.execution_id) == (str(file), 2, "a")

    def test_what_only_decoding_finds_still_names_the_place(self, file: Path) -> None:
        """Payloads stay bytes until somebody asks; then the error says file, line and execution as well."""
        for value in (b"1e400", b"9" * 5000):
            file.write_bytes(whole(ONE, plain(2, payload=b'{"a":%s}' % value)))
            event = load_log(file).events[1]
            with pytest.raises(LogError, match="payload of STEP_STARTED cannot be decoded") as caught:
                _ = event.payload
            assert (caught.value.path, caught.value.line, caught.value.execution_id) == (str(file), 2, "a")

    def test_a_line_of_50_mb_is_refused_in_bounded_memory(self, file: Path, read_all: ReadAll) -> None:
        """A line may have 32 MiB; more is not even held in memory."""
        file.write_bytes(whole(ONE, plain(2, payload=b'{"a":"%s"}' % (b"x" * 50_000_000))))
        tracemalloc.start()
        try:
            (error,) = read_all(file)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert isinstance(error, LogError)
        assert (error.line, error.what) == (2, "a line of more than 32 MiB")
        assert peak < 45_000_000

    def test_a_line_just_under_the_limit_is_read(self, file: Path) -> None:
        """30 MB in one event are unusual, not wrong."""
        file.write_bytes(plain(payload=b'{"a":"%s"}' % (b"x" * 30_000_000)))
        assert len(load_log(file).events[0].payload["a"]) == 30_000_000


@pytest.mark.usefixtures("passes")
class TestManyExecutions:
    @pytest.mark.parametrize(
        ("damage", "said"),
        [
            pytest.param(lambda lines: lines.pop(1), "missing", id="gap"),
            pytest.param(lambda lines: lines.insert(1, lines[0]), "twice", id="duplicate"),
            pytest.param(lambda lines: lines.pop(0), "head is missing", id="head"),
            pytest.param(lambda lines: lines.__setitem__(1, lines[1][:70] + b"\n"), "one line", id="torn"),
            pytest.param(lambda lines: lines.__setitem__(1, lines[1].replace(b":2,", b":x,")), "JSON", id="no JSON"),
            pytest.param(lambda lines: lines.__setitem__(1, lines[1].replace(b":2,", b':"2",')), "$.seq", id="type"),
            pytest.param(lambda lines: lines.__setitem__(1, lines[1].replace(b"0}", b'\xff"}')), "UTF-8", id="UTF-8"),
            pytest.param(lambda lines: lines.__setitem__(1, lines[1].replace(b"1.15", b"2.15")), "major", id="major"),
            pytest.param(
                lambda lines: lines.__setitem__(1, lines[1].replace(b"refund", b"other")), "workflow", id="flow"
            ),
        ],
    )
    def test_a_bad_execution_spoils_only_itself(
        self, file: Path, line: MakeLine, read_all: ReadAll, damage: Callable[[list[bytes]], Any], said: str
    ) -> None:
        """Where the bad line's execution can be told, the others of the same file are read."""
        runs = {name: [line(n, payload={"n": n * 10}, run=name) for n in (1, 2, 3)] for name in ("a", "b", "c")}
        damage(runs["b"])
        file.write_bytes(
            b"".join(text for step in range(4) for lines in runs.values() for text in lines[step : step + 1])
        )
        found = read_all(file)
        assert sorted(item.execution_id for item in found if isinstance(item, Log)) == ["a", "c"]
        assert {len(item) for item in found if isinstance(item, Log)} == {3}
        (error,) = [item for item in found if isinstance(item, LogError)]
        assert (error.path, error.execution_id) == (str(file), "b")
        assert error.line > 0
        assert said in error.what

    @pytest.mark.parametrize(
        "torn",
        [
            pytest.param(b'{"payload":{"executionId":"b"},"executionId":"a', id="the id in a payload comes first"),
            pytest.param(b'{"executionId":"b","seq{"executionId":"a","sequence":3}', id="two writers in one line"),
            pytest.param(
                b'{"executionId":"b","sequence":2 \xff\xff "schemaVersion":"1.15.0","schemaVersion":"1.15.0"}',
                id="two tails",
            ),
            pytest.param(b'uence":3,"executionId":"b"', id="the end of a line"),
            pytest.param(b'{"executionId":"b\0","sequence"', id="NUL"),
        ],
    )
    def test_a_line_that_may_be_anybodys_spoils_the_file(
        self, file: Path, run: MakeRun, read_all: ReadAll, torn: bytes
    ) -> None:
        """Blaming the wrong execution would hand out the right one half read, so no log of the file is trusted."""
        file.write_bytes(b"".join([*run("a"), *run("b"), torn + b"\n", *run("c")]))
        (error,) = read_all(file)
        assert isinstance(error, LogError)
        assert (error.line, error.execution_id) == (9, "")

    def test_the_first_bad_line_of_an_execution_is_the_one_named(
        self, file: Path, run: MakeRun, read_all: ReadAll
    ) -> None:
        """What follows a damage is often its consequence."""
        lines = run("a", steps=2)
        lines[2] = lines[2].replace(b":3,", b":null,")
        lines[4] = lines[4].replace(b":5,", b":null,")
        file.write_bytes(b"".join(lines))
        (error,) = read_all(file)
        assert isinstance(error, LogError)
        assert error.line == 3


class TestNotReadable:
    """What is no ordinary readable file; each is an error of its own that names the path."""

    @staticmethod
    def refused(path: Path, said: str) -> LogError:
        """The error that both ``load_log`` and ``load_logs`` raise for the path."""
        with pytest.raises(LogError) as one:
            load_log(path)
        assert said in one.value.what
        assert one.value.path == str(path)
        with pytest.raises(LogError) as many:
            next(load_logs(path))
        if not os.path.isdir(path):
            assert str(many.value) == str(one.value)
        return one.value

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "the file is empty"),
            (b" \n\n\t\r\n", "no event"),
            (b"\n" * 5000, "no event"),
            (b"\xef\xbb\xbf", "no event"),
            (gzip.compress(b""), "no event"),
        ],
        ids=["empty", "whitespace", "blank lines", "byte order mark", "empty gzip"],
    )
    @pytest.mark.usefixtures("passes")
    def test_a_file_without_events(self, file: Path, content: bytes, said: str) -> None:
        """Nothing is no log: a test must not pass because its golden is empty."""
        file.write_bytes(content)
        self.refused(file, said)

    def test_a_missing_file(self, file: Path) -> None:
        """The operating system's reason is given."""
        self.refused(file, "No such file")

    @pytest.mark.parametrize("name", ["notes.txt", "data.json", "x.csv", "x.png", "events.jsonl"])
    def test_a_file_that_no_source_knows(self, tmp_path: Path, name: str) -> None:
        """The error says which sources were asked and how to add one."""
        path = tmp_path / name
        path.write_bytes(b"\x89PNG\r\n\x1a\nhello, 1, 2\n")
        error = self.refused(path, "not a log that any source knows (asked: loom, temporal")
        assert "pytest_loom_sources" in error.hint

    def test_an_sqlite_database(self, tmp_path: Path) -> None:
        """A database is told from a damaged log, and its side files are never logs."""
        path = tmp_path / "runs.db"
        with sqlite3.connect(path) as store:
            store.execute("create table runs (id text)")
        store.close()
        self.refused(path, "SQLite database")
        path = path.rename(tmp_path / "runs.loom.jsonl")
        self.refused(path, "NUL bytes")

    @pytest.mark.parametrize("name", ["runs.db-wal", "runs.db-shm", "runs.db-journal", "a.loom.jsonl-wal"])
    def test_the_side_files_of_sqlite(self, tmp_path: Path, name: str) -> None:
        """They are refused by name, before anybody opens them."""
        path = tmp_path / name
        path.write_bytes(ONE)
        self.refused(path, "side file of an SQLite database")

    def test_a_directory(self, tmp_path: Path) -> None:
        """load_log wants a file; the error names what walks directories."""
        folder = tmp_path / "a.loom.jsonl"
        folder.mkdir()
        assert "load_logs()" in self.refused(folder, "").hint or "empty corpus" in str(folder)

    def test_a_dangling_link_and_a_loop_of_links(self, tmp_path: Path) -> None:
        """Links that lead nowhere are errors of the path that was named."""
        dangling, loop = tmp_path / "a.loom.jsonl", tmp_path / "b.loom.jsonl"
        dangling.symlink_to(tmp_path / "gone")
        loop.symlink_to(loop)
        self.refused(dangling, "No such file")
        self.refused(loop, "cannot be read")

    @pytest.mark.parametrize("special", ["fifo", "/dev/zero", "/proc/self/mem", "socket"])
    def test_what_never_ends_is_not_opened(self, tmp_path: Path, special: str) -> None:
        """A pipe without a writer, an endless device or a socket is refused at once instead of hanging."""
        path = tmp_path / "a.loom.jsonl"
        if special == "fifo":
            os.mkfifo(path)
        elif special == "socket":
            import socket

            server = socket.socket(socket.AF_UNIX)
            short = os.open(tmp_path, os.O_RDONLY)
            server.bind(f"/proc/self/fd/{short}/a.loom.jsonl")
            server.close()
            os.close(short)
        elif not Path(special).exists():
            pytest.skip(f"{special} is not there on this system")
        else:
            path.symlink_to(special)
        errors: list[LogError] = []

        def attempt() -> None:
            try:
                load_log(path)
            except LogError as error:
                errors.append(error)

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive(), "reading it hangs"
        assert errors[0].path == str(path)
        if special != "/proc/self/mem":  # which says that it is an ordinary file
            assert errors[0].what == "this is not an ordinary file"

    @pytest.mark.parametrize("name", ["a\0b.loom.jsonl", "x" * 5000 + ".loom.jsonl", "a/" * 3000 + "b.loom.jsonl"])
    def test_paths_that_no_file_system_takes(self, name: str) -> None:
        """A NUL or too many characters in a path are errors like any other."""
        self.refused(Path(name), "cannot be read")

    @pytest.mark.usefixtures("passes")
    @pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
    def test_a_file_that_the_system_will_not_open(
        self, file: Path, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        """Permission denied and dying disks are LogErrors with the system's words."""
        file.write_bytes(ONE)

        def refuse(*_: Any, **__: Any) -> Any:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(Path, "open", refuse)
        self.refused(file, os.strerror(number))

    @pytest.mark.usefixtures("passes")
    def test_a_disk_that_fails_in_the_middle(self, file: Path, run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
        """A read error after good blocks spoils the file: what follows is not known."""
        file.write_bytes(b"".join(run("a", steps=20)))

        class Failing(io.BytesIO):
            def read(self, size: int | None = -1, /) -> bytes:
                if self.tell() > 500:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                return super().read(size)

            def fileno(self) -> int:
                return 0

        monkeypatch.setattr("pytest_loom.log.files._BLOCK", 200)
        monkeypatch.setattr(Path, "open", lambda path, mode: Failing(path.read_bytes()))
        monkeypatch.setattr(Path, "read_bytes", lambda path: b"".join(run("a", steps=20)))
        self.refused(file, "Input/output error")


class TestCompressed:
    @pytest.fixture
    def data(self, run: MakeRun) -> bytes:
        """A compressed log of some length."""
        return gzip.compress(b"".join(b"".join(run(f"run-{n}", steps=5)) for n in range(40)))

    @pytest.mark.usefixtures("passes")
    @pytest.mark.parametrize("name", ["a.loom.jsonl.gz", "a.loom.jsonl"])
    @pytest.mark.parametrize(
        ("damage", "said"),
        [
            pytest.param(lambda data: data[:-9], "cut off", id="torn"),
            pytest.param(lambda data: data[:-1], "cut off", id="torn in the trailer"),
            pytest.param(lambda data: data[: len(data) // 2], "cut off", id="torn in the middle"),
            pytest.param(lambda data: data[:5], "cut off", id="torn in the header"),
            pytest.param(lambda data: data[:-8] + b"\xff" * 4 + data[-4:], "CRC", id="bad checksum"),
            pytest.param(lambda data: data[:-4] + struct.pack("<I", 5), "length", id="bad length"),
            pytest.param(lambda data: data + b"garbage", "Not a gzipped file", id="trailing garbage"),
            pytest.param(lambda data: data[:60] + b"\xff\xff\xff\xff" + data[64:], "", id="flipped bits"),
            pytest.param(lambda data: b"\x1f\x8b\x09" + data[3:], "compression method", id="unknown method"),
        ],
    )
    def test_damaged_compression_is_an_error_of_the_file(
        self, tmp_path: Path, read_all: ReadAll, data: bytes, damage: Callable[[bytes], bytes], said: str, name: str
    ) -> None:
        """Nothing of a file whose checksum is wrong is trusted, and it is never half read."""
        path = tmp_path / name
        path.write_bytes(damage(data))
        errors = read_all(path)
        assert [type(error) for error in errors] == [LogError]
        assert isinstance(errors[0], LogError)
        assert errors[0].path == str(path)
        assert said in errors[0].what

    @pytest.mark.usefixtures("passes")
    def test_a_bomb_of_one_endless_line_is_refused_in_bounded_memory(self, tmp_path: Path, read_all: ReadAll) -> None:
        """It is decompressed only as far as a line may go."""
        path = tmp_path / "a.loom.jsonl.gz"
        chunk = zlib.compressobj(1, zlib.DEFLATED, 31)
        path.write_bytes(b"".join([chunk.compress(b"x" * 2**20) for _ in range(80)]) + chunk.flush())
        assert path.stat().st_size < 2**20
        tracemalloc.start()
        try:
            (error,) = read_all(path)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert isinstance(error, LogError)
        assert error.what == "a line of more than 32 MiB"
        assert peak < 45_000_000


class TestChangingFiles:
    """A large file is read twice; what happens to it in between must not cut a log in half."""

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda path, data: path.write_bytes(data + data[:300]), id="appended to"),
            pytest.param(lambda path, data: path.write_bytes(data[: len(data) // 2]), id="cut"),
            pytest.param(lambda path, data: path.write_bytes(data[::-1]), id="overwritten"),
            pytest.param(lambda path, data: (path.rename(f"{path}.old"), path.write_bytes(data[300:])), id="replaced"),
            pytest.param(lambda path, data: path.unlink(), id="removed"),
        ],
    )
    def test_a_file_that_changes_between_the_passes_gives_no_half_log(
        self,
        file: Path,
        run: MakeRun,
        read_all: ReadAll,
        monkeypatch: pytest.MonkeyPatch,
        change: Callable[[Path, bytes], Any],
    ) -> None:
        """The second pass notices and says so; only complete logs come out."""
        monkeypatch.setattr("pytest_loom.log.read.WHOLE_FILE", 0)
        data = b"".join(b"".join(pair) for pair in zip(run("a", steps=4), run("b", steps=4), strict=True))
        file.write_bytes(data)
        os.utime(file, ns=(1, 1))
        walk = read._walk

        def late(path: Path, *index: Any) -> Iterator[Log | LogError]:
            change(path, data)
            return walk(path, *index)

        monkeypatch.setattr(read, "_walk", late)
        (error,) = read_all(file)
        assert isinstance(error, LogError)
        assert error.path == str(file)

    def test_a_file_that_changes_while_it_is_walked_gives_no_half_log(
        self, file: Path, run: MakeRun, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The logs that were handed out before are whole; then the change is said and the reading ends."""
        monkeypatch.setattr("pytest_loom.log.read.WHOLE_FILE", 0)
        monkeypatch.setattr("pytest_loom.log.files._BLOCK", 500)
        file.write_bytes(b"".join(b"".join(run(f"run-{n}")) for n in range(100)))
        logs = load_logs(file)
        assert len(next(logs)) == 4
        with file.open("ab") as stream:
            stream.write(run("late")[0])
        with pytest.raises(LogError, match="the file changed while it was read"):
            next(logs)
        assert list(logs) == []


IDS = ["alpha", "bravo-22", "charlie/3", "δ"]


def corpus(seed: int) -> tuple[dict[str, list[bytes]], list[tuple[str, bytes]]]:
    """Four valid runs, and their lines mixed at random with whose each is."""
    chosen = random.Random(seed)
    runs: dict[str, list[bytes]] = {}
    for name in IDS:
        lines = []
        for number in range(1, chosen.randrange(2, 7)):
            text = plain(number, payload='{{"text":"é {} \\" \\\\ {{"}}'.format("x" * chosen.randrange(9)).encode())
            lines.append(text.replace(b'"a"', f'"{name}"'.encode(), 1))
        runs[name] = lines
    order = [name for name, lines in runs.items() for _ in lines]
    chosen.shuffle(order)
    rest = {name: iter(lines) for name, lines in runs.items()}
    return runs, [(name, next(rest[name])) for name in order]


def said(items: list[Log | LogError]) -> list[tuple[Any, ...]]:
    """What came out, in an order that does not depend on when it came out."""
    told: list[tuple[Any, ...]] = []
    for item in items:
        if isinstance(item, Log):
            told.append((item.execution_id, [(e.sequence, e.line, bytes(e.raw)) for e in item.events]))
        else:
            assert type(item) in (LogError, UnknownSchemaVersion)
            told.append((item.execution_id, str(item), type(item)))
    return sorted(told, key=repr)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for all examples of a property."""
    return tmp_path_factory.mktemp("random") / "a.loom.jsonl"


class TestRandomDamage:
    """Properties of reading a corpus of several executions in which anything may be broken."""

    def both(self, place: Path, data: bytes) -> list[Log | LogError]:
        """What both ways of reading give, which has to be the same, however the file is cut into blocks."""
        place.write_bytes(data)
        found = []
        for limit, block in ((2**20, 2**20), (0, 2**20), (0, 97)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("pytest_loom.log.read.WHOLE_FILE", limit)
                patch.setattr("pytest_loom.log.files._BLOCK", block)
                found.append(list(read_jsonl(place)))
        assert said(found[0]) == said(found[1])
        if not data.startswith(b"\x1f\x8b"):  # there a damaged line may come before the checksum, or after it
            assert said(found[0]) == said(found[2])
        return found[0]

    @settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data(), seed=st.integers(0, 2**32))
    def test_damaged_lines_spoil_their_execution_or_the_file_and_nothing_is_half_read(
        self, place: Path, data: st.DataObject, seed: int
    ) -> None:
        """A log that comes out has all its events, each as it was written unless that very line was damaged."""
        runs, mixed = corpus(seed)
        lines = [bytearray(text) for _, text in mixed]
        touched: set[str] = set()
        for _ in range(data.draw(st.integers(0, 3))):
            index = data.draw(st.integers(0, len(lines) - 1))
            name, text = mixed[index]
            start = text.index(b",")  # the id itself stays: another id is another execution, and nobody can tell
            offset = data.draw(st.integers(min(start, len(lines[index]) - 1), len(lines[index]) - 1))
            new = data.draw(
                st.one_of(st.binary(min_size=0, max_size=3), st.sampled_from([b"\n", b"\0\0", b'"', b"}", b" "]))
            )
            lines[index][offset : offset + 1] = new
            touched.add(name)
            if not lines[index].endswith(b"\n"):
                touched.update(name for name, _ in mixed[index + 1 : index + 2])
        found = self.both(place, b"".join(lines))
        if any(isinstance(item, LogError) and not item.execution_id for item in found):
            assert len(found) == 1, "a file with a line that is nobody's gives nothing else"
            return
        assert {item.execution_id for item in found} == set(runs)
        for item in found:
            if isinstance(item, Log):
                assert len(item) == len(runs[item.execution_id]), "half read"
            if item.execution_id not in touched:
                assert isinstance(item, Log)
                originals = [re.search(rb'"payload":(.*)}\n', text) for text in runs[item.execution_id]]
                assert [bytes(event.raw) for event in item.events] == [match[1] for match in originals if match]

    @settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data(), seed=st.integers(0, 2**32))
    def test_lost_repeated_and_swapped_lines_spoil_their_execution_only(
        self, place: Path, data: st.DataObject, seed: int
    ) -> None:
        """An execution whose lines are complete and in order is read; any other is not, unless it lost its end."""
        runs, mixed = corpus(seed)
        lines = list(mixed)
        for _ in range(data.draw(st.integers(1, 3))):
            if not lines:
                break
            action = data.draw(st.sampled_from(["drop", "repeat", "swap"]))
            one, two = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
            if action == "drop":
                del lines[one]
            elif action == "repeat":
                lines.insert(two, lines[one])
            else:
                lines[one], lines[two] = lines[two], lines[one]
        found = self.both(place, b"".join(text for _, text in lines))
        present = {name: [text for owner, text in lines if owner == name] for name in runs}
        for item in found:
            if not lines:
                assert isinstance(item, LogError)
                continue
            now = present.pop(item.execution_id)
            begins = now == runs[item.execution_id][: len(now)]
            assert isinstance(item, Log) == begins
        assert not lines or not any(present.values())

    @settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data(), seed=st.integers(0, 2**32), squeezed=st.booleans())
    def test_nothing_but_logs_and_log_errors_comes_out_of_any_bytes(
        self, place: Path, data: st.DataObject, seed: int, squeezed: bool
    ) -> None:
        """Bytes overwritten, cut out or put in anywhere, compressed or not: no other exception, ever."""
        content = bytearray(b"".join(text for _, text in corpus(seed)[1]))
        if squeezed:
            content = bytearray(gzip.compress(bytes(content), 1))
        for _ in range(data.draw(st.integers(0, 4))):
            start = data.draw(st.integers(0, len(content)))
            content[start : start + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=20))
        if content:
            for item in self.both(place, bytes(content)):
                if isinstance(item, Log):
                    with contextlib.suppress(LogError):
                        item.state.facts()
                    with contextlib.suppress(LogError):
                        _ = item.state.duration_ms
                else:
                    assert item.path == str(place)
