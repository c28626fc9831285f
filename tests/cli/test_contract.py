"""``pytest-loom contract``: contracts in words, what changed in them, and what is refused."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from pytest_loom.cli.output import ERROR, FINDING, OK
from pytest_loom.cli.signature import signature
from pytest_loom.contract.model import Contract
from pytest_loom.contract.store import capture
from tests.cli.conftest import Desk
from tests.cli.test_show import ESCAPES

OLD: dict[str, Any] = {
    "workflowId": "refund",
    "version": "1.0",
    "engine": "journal",
    "inputSchema": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
    "steps": {"assess": {"outputSchema": {"type": "number"}}, "pay": {}},
    "gates": {"Approved": {"payloadSchema": {"type": "boolean"}}},
    "tools": {"look": {"schema": {"type": "object"}, "version": 2, "approval": True, "permissions": ["shop:read"]}},
    "versions": {"state": 3},
}
NEW: dict[str, Any] = {**OLD, "steps": {"assess_risk": {"outputSchema": {"type": "number"}}, "pay": {}}}


@pytest.fixture
def shop(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Two contracts as files, and an application that has both."""
    (desk.folder / "old.json").write_text(json.dumps(OLD))
    (desk.folder / "new.json").write_text(json.dumps(NEW))
    text = f"old = {{'refund': {OLD!r}, 'other': {{'workflowId': 'other'}}}}\nnew = {{'refund': {NEW!r}}}\n"
    (desk.folder / "loom_contract_app.py").write_text(text)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "loom_contract_app", raising=False)
    return desk


def test_a_contract_in_words(shop: Desk) -> None:
    """Each part of a contract is a line: its schema as a type, and what else is promised."""
    done = shop("contract", "show", "old.json")
    assert (done.status, done.err) == (OK, "")
    title, *lines = done.out.splitlines()
    assert title.startswith("refund 1.0  (journal, fingerprint ")
    assert lines == [
        "  takes  {order: string}",
        "  step assess  ? -> number",
        "  step pay",
        "  gate Approved  boolean",
        "  tool look  object, version 2, asks for approval, may use shop:read",
        "  version of state  3",
    ]
    data = shop("contract", "show", "old.json", "--json").json
    assert data == shop("contract", "--json", "show", "old.json").json
    assert Contract.model_validate(data["contracts"][0]["contract"]) == Contract.model_validate(OLD)


def test_contracts_of_an_application(shop: Desk) -> None:
    """A mapping of flows is shown flow by flow; a flow that the engine names itself is called so."""
    done = shop("contract", "show", "loom_contract_app:old")
    assert [line.split()[0] for line in done.out.splitlines() if line[:1].isalpha()] == ["refund", "other"]


def test_what_changed(shop: Desk) -> None:
    """Breaking changes come first, with the number that should have moved; the status says that something breaks."""
    done = shop("contract", "diff", "old.json", "new.json")
    assert done.status == FINDING
    title, *lines = done.out.splitlines()
    assert title.endswith(": 1 breaking, 1 additive")
    assert lines == [
        "  breaking  step assess is gone; flowVersion should have moved",
        "  additive  step assess_risk is new; flowVersion should have moved",
    ]
    data = shop("contract", "diff", "old.json", "new.json", "--json").json
    assert [(one["effect"], one["version"]) for one in data["flows"][0]["changes"]] == [
        ("breaking", "flowVersion"),
        ("additive", "flowVersion"),
    ]
    done = shop("contract", "diff", "old.json", "old.json")
    assert (done.status, done.out) == (OK, "refund: no change\n")


def test_flows_that_came_and_went(shop: Desk) -> None:
    """Of several flows each is compared with its namesake; one that is gone counts, a new one does not."""
    done = shop("contract", "diff", "loom_contract_app:old", "loom_contract_app:new")
    assert "other: the flow is gone" in done.out
    (shop.folder / "more.py").write_text(f"a = {{'refund': {OLD!r}}}\nb = {{**a, 'c': {{'workflowId': 'c'}}}}\n")
    done = shop("contract", "diff", "more:a", "more:b")
    assert (done.status, done.out) == (OK, "refund: no change\nc: the flow is new\n")
    assert shop("contract", "diff", "more:b", "more:a").status == FINDING


def test_captured_contracts(shop: Desk) -> None:
    """A folder of captured contracts is shown whole; compared is the newest of each flow."""
    folder = shop.folder / "loom-contracts"
    capture(folder, Contract.model_validate(NEW), datetime(2026, 1, 1, tzinfo=UTC))
    capture(folder, Contract.model_validate(OLD), datetime(2026, 2, 1, tzinfo=UTC))
    done = shop("contract", "show", "loom-contracts")
    assert (done.status, done.out.count("captured 2026-0")) == (OK, 2)
    assert shop("contract", "diff", "loom-contracts", "old.json").status == OK
    assert shop("contract", "diff", "loom-contracts/refund", "new.json").status == FINDING
    (damaged,) = folder.rglob(f"{shop('contract', 'show', 'new.json', '--json').json['contracts'][0]['fingerprint']}*")
    damaged.write_text(damaged.read_text().replace("assess_risk", "assess_rick"))
    done = shop("contract", "show", "loom-contracts")
    assert (done.status, done.out.count("captured"), str(damaged.name) in done.err) == (FINDING, 1, True)
    assert shop("contract", "diff", "loom-contracts", "old.json").status == ERROR


@pytest.mark.parametrize(
    "words",
    [
        ("contract",),
        ("contract", "show"),
        ("contract", "list", "old.json"),
        ("contract", "show", "nowhere.json"),
        ("contract", "show", "no_such_module:flows"),
        ("contract", "show", "loom_contract_app:nothing"),
        ("contract", "show", ":x"),
        ("contract", "show", "pytest.ini"),
        ("contract", "show", "empty"),
        ("contract", "diff", "old.json"),
        ("contract", "diff", "old.json", "pytest.ini"),
        ("contract", "show", "json:dumps"),
    ],
)
def test_wrong_usage(shop: Desk, words: tuple[str, ...]) -> None:
    """What is no contract ends with status 2 and a line that says so, or with 1 where it is a file of one."""
    (shop.folder / "pytest.ini").write_text("[pytest]\n")
    (shop.folder / "empty").mkdir()
    done = shop(*words)
    assert (done.status, done.out, "Traceback" in done.err) in [(ERROR, "", False), (FINDING, "", False)]
    assert done.err


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (True, "anything"),
        (False, "nothing"),
        ({}, "anything"),
        (5, "?"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"enum": ["a", 1, None]}, '"a" | 1 | null'),
        ({"const": "a"}, '"a"'),
        ({"type": "array", "items": {"type": "integer"}}, "[integer]"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "{any: number}"),
        ({"allOf": [{"type": "object"}, {"type": "string"}]}, "object & string"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "string", "format": "date"}}}, "date"),
        ({"$ref": "https://x/y/Order"}, "Order"),
        ({"enum": 5, "anyOf": 7}, "?"),
        ({"anyOf": 7, "properties": 5, "type": {}}, "object"),
    ],
)
def test_signatures(schema: Any, text: str) -> None:
    """A schema is told as a type, whatever it holds."""
    assert signature(schema) == text


def test_schemas_without_an_end() -> None:
    """A schema that contains itself, is deep or wide, is told in so many characters."""
    looping: Any = {"$defs": {"A": {"type": "object", "properties": {"next": {"$ref": "#/$defs/A"}}}}}
    looping["$ref"] = "#/$defs/A"
    assert signature(looping) == "{next?: {next?: A}}"
    deep: Any = {"type": "string"}
    for _ in range(5_000):
        deep = {"type": "array", "items": deep}
    assert len(signature(deep)) < 20
    wide = {"properties": {f"key-{number}": {"anyOf": [{"const": "x" * 10_000}] * 50} for number in range(50)}}
    assert len(signature({"anyOf": [wide] * 50})) <= 300


def test_what_a_contract_says_cannot_reach_the_terminal(desk: Desk) -> None:
    """Names and words of a contract are shown escaped."""
    schema = {"type": "object", "properties": {ESCAPES: {"const": ESCAPES, "type": ESCAPES}}}
    evil = {
        "workflowId": ESCAPES,
        "version": ESCAPES,
        "inputSchema": schema,
        "reducers": {ESCAPES: ESCAPES},
        "steps": {ESCAPES: {"inputSchema": schema, "next": [ESCAPES], "asks": True}},
        "gates": {ESCAPES: {"payloadSchema": schema}},
        "joins": {ESCAPES: [ESCAPES]},
        "tools": {ESCAPES: {"schema": schema, "version": ESCAPES, "permissions": [ESCAPES], "external": True}},
        "agents": {ESCAPES: {"handoffs": {ESCAPES: ESCAPES}, "tools": {ESCAPES: {}}, "inputGuardrails": [ESCAPES]}},
        "versions": {ESCAPES: ESCAPES},
        "moreTools": True,
    }
    (desk.folder / "evil.json").write_text(json.dumps(evil))
    (desk.folder / "plain.json").write_text(json.dumps({"workflowId": "a", "steps": {}, "tools": {}}))
    for words in (("show", "evil.json"), ("diff", "evil.json", "plain.json"), ("diff", "plain.json", "evil.json")):
        done = desk("contract", *words)
        assert done.out
        assert all(line.isprintable() for line in (done.out + done.err).split("\n")), words
