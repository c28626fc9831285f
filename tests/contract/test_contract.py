"""Contracts as data, and the ways to today's flows: what is taken, what is refused, and how it is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pytest_loom import Contract, FlowError, LoomError, Unsupported
from pytest_loom.contract.resolve import contract_of, resolver_of

WHOLE: dict[str, Any] = {
    "workflowId": "refund",
    "version": "1.2.0",
    "engine": "journal",
    "inputSchema": {"type": "object"},
    "outputSchema": True,
    "stateSchema": {"type": "object"},
    "reducers": {"messages": "append"},
    "steps": {"assess": {"inputSchema": {"type": "object"}, "outputSchema": {"type": "string"}}, "pay": {}},
    "gates": {"Approved": {"payloadSchema": {"type": "object"}}},
    "joins": {"pay": ["assess", "approve"]},
    "tools": {"charge": {"schema": {"type": "object"}, "version": "2", "approval": True, "permissions": ["money"]}},
    "versions": {"state": 3, "tools": {"charge": "2"}},
}


class TestContract:
    def test_the_whole_of_it(self) -> None:
        """Every part of the JSON has its place, and comes out of it as it went in."""
        contract = Contract.model_validate(WHOLE)
        assert contract.steps is not None
        assert contract.tools is not None
        assert contract.steps["assess"].output_schema == {"type": "string"}
        assert contract.tools["charge"].schema_ == {"type": "object"}
        assert contract.tools["charge"].permissions == ("money",)
        assert json.loads(contract.model_dump_json(by_alias=True, exclude_none=True)) == WHOLE

    def test_all_but_the_id_may_be_absent(self) -> None:
        """A part that is absent is None, which is not the same as empty: it is not checked."""
        contract = Contract.model_validate({"workflowId": "refund"})
        parts = contract.model_dump()
        assert parts.pop("workflow_id") == "refund"
        assert set(parts.values()) == {None}
        assert Contract.model_validate({"workflowId": "refund", "steps": {}}).steps == {}

    def test_it_can_be_written_in_python_too(self) -> None:
        """The fields' own names are taken as well as the camelCase of the JSON."""
        assert Contract(workflow_id="refund", input_schema=True) == Contract.model_validate(
            {"workflowId": "refund", "inputSchema": True}
        )

    @pytest.mark.parametrize(
        ("data", "place"),
        [
            ({}, "workflowId"),
            ({"workflowId": ""}, "workflowId"),
            ({"workflowId": "refund", "step": {}}, "step"),
            ({"workflowId": "refund", "steps": {"pay": {"inputSchemas": {}}}}, "steps.pay.inputSchemas"),
            ({"workflowId": "refund", "steps": ["pay"]}, "steps"),
            ({"workflowId": "refund", "engine": "diary"}, "engine"),
        ],
        ids=str,
    )
    def test_what_is_no_contract(self, data: dict[str, Any], place: str) -> None:
        """A misspelt or misplaced part is an error that names it: else it would be a part that is never checked."""
        with pytest.raises(FlowError, match=f"a contract given as a mapping is not a contract: {place}:"):
            contract_of(data)

    def test_it_does_not_change(self) -> None:
        """A contract is evidence: frozen."""
        contract = Contract(workflow_id="refund")
        with pytest.raises(ValidationError):
            contract.version = "2"


class TestContractOf:
    def test_what_it_takes(self, tmp_path: Path) -> None:
        """A contract, its JSON as a dict, and the path of that JSON give the same contract."""
        file = tmp_path / "refund.json"
        file.write_text(json.dumps(WHOLE))
        contract = Contract.model_validate(WHOLE)
        assert contract_of(contract) is contract
        assert contract_of(WHOLE) == contract_of(file) == contract_of(str(file)) == contract

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            (b"{", "not JSON"),
            (b"\xff\xfe", "not JSON"),
            (b"[" * 100_000, "not JSON"),
            (b"[]", "is not a contract"),
            (b'"refund"', "is not a contract"),
            (b'{"workflowId": "refund", "stepz": {}}', "is not a contract: stepz"),
        ],
        ids=["cut", "no-text", "deep", "list", "string", "misspelt"],
    )
    def test_a_file_that_is_none(self, tmp_path: Path, text: bytes, says: str) -> None:
        """Whatever is wrong with it, the error names the file."""
        file = tmp_path / "refund.json"
        file.write_bytes(text)
        with pytest.raises(FlowError, match=says) as caught:
            contract_of(file)
        assert str(file) in str(caught.value)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        """A missing file and a folder are a FlowError with the reason of the operating system."""
        with pytest.raises(FlowError, match="cannot be read: No such file"):
            contract_of(tmp_path / "refund.json")
        with pytest.raises(FlowError, match="cannot be read"):
            contract_of(tmp_path)

    @pytest.mark.parametrize("flow", [object(), 7, ["assess"], Contract], ids=["object", "number", "list", "the-class"])
    def test_what_has_no_contract(self, flow: Any) -> None:
        """Something else is Unsupported, and the error says what can be given."""
        with pytest.raises(Unsupported, match="no contract can be read from") as caught:
            contract_of(flow)
        hint = "Give a flow declared with @flow, a Contract, its JSON as a dict or as the path of a .json file."
        assert caught.value.hint == hint


class TestResolver:
    def test_a_mapping(self) -> None:
        """Ids to flows; what is not in it, and None, are missing flows."""
        ask = resolver_of({"refund": WHOLE, "gone": None})
        assert [ask(name, None) for name in ("refund", "gone", "other")] == [WHOLE, None, None]

    def test_one_flow(self, tmp_path: Path) -> None:
        """A contract, alone, is the only flow there is, whether as object, JSON or file."""
        contract = Contract.model_validate(WHOLE)
        file = tmp_path / "refund.json"
        file.write_text(json.dumps(WHOLE))
        for flows in (contract, WHOLE, file, str(file)):
            ask = resolver_of(flows)
            assert (ask("refund", None), ask("order", None)) == (contract, None)

    def test_a_runtime(self) -> None:
        """An object with get_flow is asked by that name, and gets the version if it takes one."""

        class Old:
            def get_flow(self, workflow_id: str) -> str:
                return workflow_id

        class New:
            def get_flow(self, workflow_id: str, version: str | None = None) -> tuple[str, str | None]:
                return workflow_id, version

        class Open:
            def get_flow(self, workflow_id: str, **more: Any) -> dict[str, Any]:
                return more

        assert resolver_of(Old())("refund", "1") == "refund"
        assert resolver_of(New())("refund", "1") == ("refund", "1")
        assert resolver_of(Open())("refund", "1") == {"version": "1"}

    def test_a_runtime_that_is_a_mapping_too(self) -> None:
        """get_flow comes first: a registry may also be a dict, of something else."""

        class Registry(dict[str, str]):
            def get_flow(self, workflow_id: str) -> str:
                return "asked"

        assert resolver_of(Registry(refund="kept"))("refund", None) == "asked"

    def test_a_missing_flow_by_key_error(self) -> None:
        """A resolver that is a plain lookup says so by KeyError; any other error comes through."""

        def get_flow(workflow_id: str) -> Any:
            if workflow_id == "bad":
                raise RuntimeError("down")
            return {"refund": WHOLE}[workflow_id]

        ask = resolver_of(get_flow)
        assert (ask("refund", None), ask("order", None)) == (WHOLE, None)
        with pytest.raises(RuntimeError, match="down"):
            ask("bad", None)

    @pytest.mark.parametrize("flows", [None, 7, ["refund"], Contract], ids=["None", "number", "list", "the-class"])
    def test_what_gives_no_flows(self, flows: Any) -> None:
        """The error says which shapes do."""
        with pytest.raises(FlowError, match="flows cannot be a") as caught:
            resolver_of(flows)
        assert "get_flow(workflow_id, version=None)" in caught.value.hint

    def test_a_contract_that_is_wrong_is_said_at_once(self) -> None:
        """One flow given as JSON is judged when the resolver is made, not when the first log comes by."""
        with pytest.raises(LoomError, match="stepz"):
            resolver_of({"workflowId": "refund", "stepz": {}})


@pytest.mark.parametrize(
    "get_flow",
    [
        lambda workflow_id, version=None: (workflow_id, version),
        lambda workflow_id, version=None, /: (workflow_id, version),
        lambda wid, v: (wid, v),
        lambda *args: args,
        lambda workflow_id, **more: (workflow_id, more["version"]),
    ],
    ids=["by-name", "by-place-only", "other-names", "args", "keywords"],
)
def test_a_resolver_gets_the_version_in_the_form_it_takes(get_flow: Any) -> None:
    """By name, by place, or as whatever comes."""
    assert resolver_of(get_flow)("refund", "2.0.0") == ("refund", "2.0.0")


@pytest.mark.parametrize(
    "get_flow", [lambda workflow_id: workflow_id, {"refund": "refund"}.get], ids=["id-only", "dict.get"]
)
def test_a_resolver_that_takes_no_version_gets_none(get_flow: Any) -> None:
    """dict.get would take it for the answer to a missing flow."""
    assert resolver_of(get_flow)("refund", "2.0.0") == "refund"
