"""``pytest-loom scan`` and ``pytest-loom scrub``: secrets are found wherever they stand, never shown, and taken out."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from typing import Any

import pytest

from pytest_loom import load_log, load_logs
from pytest_loom.cli.output import ERROR, FINDING, OK
from pytest_loom.log.event import Log
from tests.cli.conftest import Desk, made
from tests.cli.test_hostile import SECRETS

KEY = SECRETS[0]


def leaky(execution_id: str = "order-17") -> Log:
    """A run with two secrets: one in a text, one under a telling name."""
    given = {"password": SECRETS[2], "note": f"use {KEY} for it", "order": 17}
    return made(execution_id, given=given)


def test_secrets_are_found(desk: Desk) -> None:
    """Each secret is told by file, line, path and kind; the exit status is 1, and 0 where there is none."""
    desk.log("one", leaky())
    desk.log("two", made("order-18"))
    done = desk("scan", "runs")
    assert done.status == FINDING
    assert done.out.splitlines() == [
        "runs/one.loom.jsonl:1: payload.input.password  password",
        "runs/one.loom.jsonl:1: payload.input.note  anthropic-key",
    ]
    assert "2 found in 1 of 2 files" in done.err
    data = desk("scan", "runs", "--json").json
    first = {"file": "runs/one.loom.jsonl", "line": 1, "path": "payload.input.password", "kind": "password"}
    assert (data["ok"], data["files"], data["secrets"][0]) == (False, 2, first)
    done = desk("scan", "runs/two.loom.jsonl")
    assert (done.status, done.out, done.err) == (OK, "", "no secret found in 1 file\n")


def _hidden(desk: Desk) -> dict[str, str]:
    """Files with a secret where nobody looks, each with the line and path that has to be told."""
    line = json.loads((desk.log("plain", made())).read_bytes().splitlines()[0])
    (desk.folder / "runs/plain.loom.jsonl").unlink()

    def write(name: str, text: str | bytes) -> None:
        data = text if isinstance(text, bytes) else text.encode()
        (desk.folder / "runs" / name).write_bytes(data)

    write("id.loom.jsonl", json.dumps(line | {"executionId": f"run {KEY}"}))
    write("kind.loom.jsonl", json.dumps(line | {"eventType": f"Said {KEY}"}))
    write("unknown.loom.jsonl", json.dumps(line | {"extra": KEY}))
    write("key.loom.jsonl", json.dumps(line | {"payload": {"input": {KEY: 1}}}))
    nested = {"text": json.dumps({"api_key": SECRETS[2]})}
    write("nested.loom.jsonl", "\n" + json.dumps(line | {"payload": {"input": nested}}) + "\r\n")
    twice = json.dumps(line).replace('"order": 17', f'"password": "{SECRETS[2]}", "password": "<scrubbed:password>"')
    write("twice.loom.jsonl", twice)
    write("cut.loom.jsonl", json.dumps(line)[:-5] + f' "{KEY}')
    write("packed.loom.jsonl.gz", gzip.compress(json.dumps(line | {"payload": {"input": KEY}}).encode()))
    write("candidate.loom.jsonl.new", json.dumps(line | {"payload": {"input": KEY}}))
    write("summary.loomrun", f'workflow: refund\noutput: {{"password": "{SECRETS[2]}"}}\n')
    write("document.json", json.dumps({"a": [{"token": KEY}]}, indent=2))
    return {
        "id.loom.jsonl": "1: executionId",
        "kind.loom.jsonl": "1: eventType",
        "unknown.loom.jsonl": "1: extra",
        "key.loom.jsonl": "1: payload.input",
        "nested.loom.jsonl": "2: payload.input.text",
        "twice.loom.jsonl": "1: (anywhere)",
        "cut.loom.jsonl": "1: (anywhere)",
        "packed.loom.jsonl.gz": "1: payload.input",
        "candidate.loom.jsonl.new": "1: payload.input",
        "summary.loomrun": "2: (anywhere)",
        "document.json": " a[0].token",
    }


def test_secrets_are_found_wherever_they_hide(desk: Desk) -> None:
    """In ids, kinds, unknown fields, keys, JSON within JSON, doubled names, damaged lines, packed files, documents."""
    for name, where in _hidden(desk).items():
        done = desk("scan", f"runs/{name}")
        assert done.status == FINDING, name
        assert done.out.startswith(f"runs/{name}:{where}"), done.out
        for secret in SECRETS:
            assert secret not in done.out + done.err, name
        assert json.loads(desk("scan", f"runs/{name}", "--json").out)["secrets"], name


def test_other_formats_are_scanned(desk: Desk) -> None:
    """A database is scanned by the source that reads it; what no source knows is passed over in a folder only."""
    (desk.folder / "runs").mkdir()
    (desk.folder / "runs/other.json").write_text(json.dumps({"password": SECRETS[2]}))
    sqlite3.connect(desk.folder / "runs/other.sqlite").execute("create table a (b)").connection.close()
    desk.log("one", made())
    assert desk("scan", "runs").status == OK
    assert desk("scan", "runs/other.json").status == FINDING
    done = desk("scan", "runs/other.sqlite")
    assert (done.status, "no source knows" in done.err) == (FINDING, True)
    assert desk("scan", "nowhere").status == ERROR
    assert desk("scan", "postgresql://host/db").status == ERROR


def test_a_secret_in_a_name_is_not_shown(desk: Desk) -> None:
    """A file that is called after a secret is a finding, and is called otherwise in what is printed."""
    desk.log(KEY, leaky())
    for words in (("scan", "runs"), ("scan", "runs", "--json"), ("scrub", "runs", "--check"), ("scrub", "runs")):
        done = desk(*words)
        assert KEY not in done.out + done.err
        assert "<scrubbed:anthropic-key>" in done.out


def test_rules_of_the_nearest_configuration(desk: Desk) -> None:
    """``loom_scrub`` of the configuration nearest to the file counts; one that makes no sense is an error."""
    desk.log("one", made(given={"staff": "EMP-1234", "session_token": KEY[:40]}))
    assert [one["kind"] for one in desk("scan", "runs", "--json").json["secrets"]] != ["pattern"]
    (desk.folder / "pytest.ini").write_text("[pytest]\nloom_scrub =\n    re:EMP-\\d+\n")
    kinds = [one["kind"] for one in desk("scan", "runs", "--json").json["secrets"]]
    assert "pattern" in kinds
    (desk.folder / "runs/pyproject.toml").write_text('[tool.pytest.ini_options]\nloom_scrub = ["staff"]\n')
    kinds = [one["kind"] for one in desk("scan", "runs", "--json").json["secrets"]]
    assert ("staff" in kinds, "pattern" in kinds) == (True, False)
    for broken in ("re:(", "loom_scrub ="):
        (desk.folder / "runs/pyproject.toml").write_text(f'[tool.pytest.ini_options]\nloom_scrub = ["{broken}"]\n[')
        assert desk("scan", "runs").status == ERROR


def test_scrubbing(desk: Desk) -> None:
    """A log is rewritten without its secrets, all else as it was; a second time there is nothing to do."""
    file = desk.log("one", leaky())
    other = desk.log("two", made("order-18"))
    os.utime(other, (5, 5))
    before = file.read_bytes().splitlines()
    done = desk("scrub", "runs")
    assert (done.status, done.out) == (OK, "runs/one.loom.jsonl: 2 secrets taken out\n")
    assert "2 files read, 1 rewritten" in done.err
    after = file.read_bytes().splitlines()
    assert after[1:] == before[1:]
    assert load_log(file).state.variables["_input"] == {
        "password": "<scrubbed:password>",
        "note": "use <scrubbed:anthropic-key> for it",
        "order": 17,
    }
    assert other.stat().st_mtime == 5
    assert desk("scan", "runs").status == OK
    done = desk("scrub", "runs")
    assert (done.status, done.out) == (OK, "")


def test_check_rewrites_nothing(desk: Desk) -> None:
    """``--check`` says what would be rewritten, and its exit status does."""
    file = desk.log("one", leaky())
    before = file.read_bytes()
    done = desk("scrub", "runs", "--check", "--json")
    assert done.status == FINDING
    assert done.json["changed"] == [{"file": "runs/one.loom.jsonl", "secrets": 2}]
    assert file.read_bytes() == before
    desk("scrub", "runs")
    assert desk("scrub", "runs", "--check").status == OK


def test_scrubbing_where_secrets_hide(desk: Desk) -> None:
    """What scan finds, scrub takes out, packed files included; what is broken or another's format is left, by name."""
    hidden = _hidden(desk)
    (desk.folder / "runs/bom.loom.jsonl").write_bytes(
        b"\xef\xbb\xbf" + (desk.folder / "runs/id.loom.jsonl").read_bytes()
    )
    for name in [*hidden, "bom.loom.jsonl"]:
        file = desk.folder / "runs" / name
        before = file.read_bytes()
        done = desk("scrub", f"runs/{name}")
        if name in ("cut.loom.jsonl", "summary.loomrun", "document.json"):
            assert (done.status, file.read_bytes()) == (FINDING, before), name
            assert "import" in done.err or "not JSON" in done.err
        else:
            assert done.status == OK, done.err
            assert desk("scan", f"runs/{name}").status == OK, name
            if not name.endswith(".new"):
                assert len(list(load_logs(file))) == 1
        for secret in SECRETS:
            assert secret not in done.out + done.err


def test_ids_that_are_told_apart_by_secrets(desk: Desk) -> None:
    """Two runs whose ids would become one are left as they are: merged, neither could be read."""
    others = (f"run {KEY}", f"run {KEY[:-1]}8")
    file = desk.folder / "runs/one.loom.jsonl"
    desk.log("one", made(others[0]))
    data = file.read_bytes()
    file.write_bytes(data + desk.log("two", made(others[1])).read_bytes())
    before = file.read_bytes()
    done = desk("scrub", "runs/one.loom.jsonl")
    assert (done.status, "import" in done.err, file.read_bytes()) == (FINDING, True, before)


def test_links_are_not_written_through(desk: Desk) -> None:
    """A link is refused, and what it points to stays as it is."""
    target = desk.folder / "elsewhere.loom.jsonl"
    target.write_bytes(desk.log("one", leaky()).read_bytes())
    (desk.folder / "runs/one.loom.jsonl").unlink()
    (desk.folder / "runs/one.loom.jsonl").symlink_to(target)
    before = target.read_bytes()
    assert (desk("scrub", "runs").status, target.read_bytes()) == (FINDING, before)


def test_a_failed_rewrite_leaves_the_old_file(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the new file cannot be written, the old one stands whole and nothing lies beside it."""
    file = desk.log("one", leaky())
    before = file.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device", str(file))

    monkeypatch.setattr(os, "fsync", full)
    done = desk("scrub", "runs")
    assert (done.status, "No space left" in done.err) == (ERROR, True)
    assert file.read_bytes() == before
    assert [path.name for path in (desk.folder / "runs").iterdir()] == ["one.loom.jsonl"]


def test_names_in_a_log_cannot_reach_the_terminal(desk: Desk) -> None:
    """The path of a secret is made of the log's own names, which are escaped; a long one is cut."""
    given: dict[str, Any] = {"\x1b[2J\n\u202e": {"password": SECRETS[2]}, "k" * 100_000: {"password": SECRETS[2]}}
    desk.log("one", made(given=given))
    done = desk("scan", "runs")
    assert all(line.isprintable() and len(line) < 2_100 for line in done.out.split("\n"))


def test_runs_of_any_size(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is read and rewritten in blocks: it is never in memory as a whole."""
    monkeypatch.setattr("pytest_loom.log.files._BLOCK", 4096)
    line = desk.log("one", made()).read_bytes().splitlines()[0]
    file = desk.folder / "runs/one.loom.jsonl"
    events = [line.replace(b'"sequence":1', b'"sequence":%d' % number) for number in range(1, 500)]
    events[400] = events[400].replace(b'"order":17', b'"password":"%s"' % SECRETS[2].encode())
    file.write_bytes(b"\n".join(events))
    assert desk("scan", "runs").out == "runs/one.loom.jsonl:401: payload.input.password  password\n"
    assert desk("scrub", "runs").status == OK
    events[400] = events[400].replace(SECRETS[2].encode(), b"<scrubbed:password>")
    assert file.read_bytes() == b"\n".join(events)
