"""Captured contracts and the policy in a project: ``loom_contracts``, ``loom_policy``, ``--snapshot-update``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.plugin.conftest import Desk

CAPTURE = ("--loom-deploy-sim", "--snapshot-update")
APP = """
refund = {{"workflowId": "refund", "version": "1", "steps": {{"{step}": {{}}}}, "gates": {{"Approved": {{}}}}}}
flows = {{"refund": refund}}
"""


@pytest.fixture
def waiting(desk: Desk) -> Desk:
    """A project whose run waits, and that keeps no contract yet."""
    desk.ini()
    desk.write("app.py", APP.format(step="assess"))
    desk.log("logs/a.loom.jsonl", "r-1", "assess", status="suspended")
    desk.log("logs/b.loom.jsonl", "r-2", "assess", status="suspended")
    return desk


def captured(desk: Desk, folder: str = "loom-contracts") -> dict[str, bytes]:
    """The captured files and what is in them."""
    return {path.name: path.read_bytes() for path in sorted((desk.path / folder).rglob("*.json"))}


@pytest.mark.parametrize("plugins", [("syrupy",), ("syrupy", "xdist.plugin")], ids=["alone", "two workers"])
def test_captured_once_and_never_again(waiting: Desk, plugins: tuple[str, ...]) -> None:
    """One file for one contract, also by two workers at once: nothing else is written, and it is never touched."""
    workers = ("-n", "2") if "xdist.plugin" in plugins else ()
    logs = {path: path.read_bytes() for path in (waiting.path / "logs").iterdir()}
    before = waiting.files()
    assert waiting.apart(*CAPTURE, *workers, "-W", "error", plugins=plugins) == 0
    first = captured(waiting)
    assert len(first) == 1
    assert set(json.loads(next(iter(first.values())))) == {"capturedAt", "fingerprint", "contract"}
    new = {name for name in waiting.files() if name not in before}
    assert new == {f"loom-contracts/refund/{name}" for name in first}
    assert waiting.apart(*CAPTURE, *workers, plugins=plugins) == 0
    assert captured(waiting) == first
    assert {path: path.read_bytes() for path in (waiting.path / "logs").iterdir()} == logs


def test_without_the_flag_nothing_is_captured(waiting: Desk) -> None:
    """A simulation only looks."""
    assert waiting.apart("--loom-deploy-sim", plugins=("syrupy",)) == 0
    assert captured(waiting) == {}


def test_a_second_deploy_compares_and_keeps_both(waiting: Desk) -> None:
    """What changed without its number is said, and accepting it does not erase the evidence."""
    waiting.ini("loom_contracts = kept")
    assert waiting.apart(*CAPTURE, plugins=("syrupy",)) == 0
    old = captured(waiting, "kept")
    waiting.write("app.py", APP.format(step="assess").replace('"Approved": {}', '"Approved": {}, "Granted": {}'))
    assert waiting.apart("--loom-deploy-sim", "--loom-report=report.json", plugins=("syrupy",)) == 0
    assert waiting.apart(*CAPTURE, plugins=("syrupy",)) == 0
    both = captured(waiting, "kept")
    assert len(both) == 2
    assert {name: both[name] for name in old} == old
    assert captured(waiting) == {}


def test_a_schema_that_changed_while_its_number_did_not(waiting: Desk) -> None:
    """contract-drift names the number that should have moved."""
    of = APP.format(step="assess")
    waiting.write("app.py", of.replace('"Approved": {}', '"Approved": {"payloadSchema": {"type": "boolean"}}'))
    assert waiting.apart(*CAPTURE, plugins=("syrupy",)) == 0
    waiting.write("app.py", of.replace('"Approved": {}', '"Approved": {"payloadSchema": {"type": "string"}}'))
    assert waiting.apart("--loom-deploy-sim", "--loom-report=report.json", plugins=("syrupy",)) == 1
    found = {finding["code"]: finding for finding in waiting.report["findings"]}
    assert {"contract-drift", "gate-changed"} <= set(found)
    assert "Raise that number" in found["contract-drift"]["hint"]


def test_a_contract_that_is_not_among_those_kept(waiting: Desk) -> None:
    """contract-unknown, only where contracts are kept."""
    path = waiting.path / "logs" / "a.loom.jsonl"
    path.write_bytes(
        path.read_bytes().replace(b'{"input":', b'{"manifest":{"contractFingerprint":"0123456789abcdef"},"input":', 1)
    )
    for kept in (False, True):
        if kept:
            assert waiting.apart(*CAPTURE, plugins=("syrupy",)) == 0
        assert waiting.apart("--loom-deploy-sim", "--loom-report=report.json", plugins=("syrupy",)) == 0
        assert ("contract-unknown" in {finding["code"] for finding in waiting.report["findings"]}) is kept


def test_a_captured_file_that_was_edited(waiting: Desk) -> None:
    """Evidence that does not say what it was is refused by its name."""
    assert waiting.apart(*CAPTURE, plugins=("syrupy",)) == 0
    (path,) = (waiting.path / "loom-contracts").rglob("*.json")
    path.write_text(path.read_text().replace('"assess"', '"asses"'))
    assert waiting.apart("--loom-deploy-sim", plugins=("syrupy",)) == 1
    assert path.name in waiting.result.stdout.str()


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "two workers"])
def test_the_policy_is_asked(waiting: Desk, workers: tuple[str, ...]) -> None:
    """A rule turns a verdict red, and one that allows a breaking verdict turns it green."""
    plugins = ("syrupy", "xdist.plugin") if workers else ("syrupy",)
    waiting.ini("loom_policy = policy.toml")
    waiting.write("policy.toml", '[[rule]]\nflow = "refund"\nallow = ["pin"]\n')
    assert waiting.apart("--loom-deploy-sim", *workers, "-W", "error", plugins=plugins) == 1
    assert "the policy does not allow that" in waiting.result.stdout.str()
    waiting.write("policy.toml", '[[rule]]\nflow = "refund"\nallow = ["resume", "fork"]\n')
    waiting.write("app.py", APP.format(step="other"))
    assert waiting.apart("--loom-deploy-sim", *workers, plugins=plugins) == 0


@pytest.mark.parametrize(
    "text", ["[[rules]]\nallow = []", "[[rule]]\nallow = ['resumed']", "[[worker]]\nflow = 'x'", None]
)
def test_a_policy_that_is_none(waiting: Desk, text: str | None) -> None:
    """A policy that is misspelt or missing is a usage error that names the file, never one that is left out."""
    waiting.ini("loom_policy = policy.toml")
    if text is not None:
        waiting.write("policy.toml", text)
    assert waiting.apart("--loom-deploy-sim") == pytest.ExitCode.USAGE_ERROR
    told = waiting.result.stderr.str()
    assert "loom_policy" in told
    assert str(Path("policy.toml")) in told
    assert waiting.apart() != pytest.ExitCode.USAGE_ERROR
