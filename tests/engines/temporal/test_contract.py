"""The contract of a workflow class: what it declares, and what does not move it."""

# mypy: disallow-untyped-decorators=False, disallow-subclassing-any=False

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_loom.contract.changes import compare_contracts
from pytest_loom.contract.fingerprint import fingerprint
from pytest_loom.contract.model import Contract
from pytest_loom.contract.pending import value_problems
from pytest_loom.contract.resolve import contract_of, named_flows, own_name, patches_of, resolver_of
from pytest_loom.sources.temporal.types import schema_of

temporalio: Any = pytest.importorskip("temporalio", reason="needs the extra temporal")
workflow: Any = pytest.importorskip("temporalio.workflow")
common: Any = pytest.importorskip("temporalio.common")
pydantic: Any = pytest.importorskip("pydantic")


class Tier(enum.StrEnum):
    """A plan."""

    FREE = "free"
    PAID = "paid"


@dataclass
class Order:
    """What a run begins with."""

    order_id: str
    cents: int
    tier: Tier = Tier.FREE
    lines: list[str] = field(default_factory=list)


class Answer(pydantic.BaseModel):
    """What a clerk says."""

    approved: bool
    note: str | None = None


@workflow.defn(name="Purchase", versioning_behavior=common.VersioningBehavior.PINNED)
class PurchaseWorkflow:
    """Has handlers of every kind."""

    @workflow.run
    async def run(self, order: Order) -> str:
        """Nothing that a contract may run."""
        raise AssertionError("a contract runs nothing")

    @workflow.signal
    async def decide(self, answer: Answer) -> None:
        """Take the answer."""

    @workflow.signal(name="cancel-order")
    def cancel(self) -> None:
        """Stop."""

    @workflow.update
    async def reprice(self, cents: int, reason: str = "") -> int:
        """Change the price."""
        return cents

    @workflow.query
    def status(self) -> str:
        """Where it stands."""
        return ""


@workflow.defn(dynamic=True)
class AnyName:
    @workflow.run
    async def run(self, args: Sequence[common.RawValue]) -> None:
        """Whatever comes."""


@workflow.defn
class Dynamic:
    @workflow.run
    async def run(self) -> None:
        """Nothing."""

    @workflow.signal(dynamic=True)
    async def anything(self, name: str, args: Sequence[common.RawValue]) -> None:
        """Whatever comes."""

    @workflow.update(dynamic=True)
    async def any_update(self, name: str, args: Sequence[common.RawValue]) -> None:
        """Whatever comes."""


@workflow.defn
class SetsThem:
    @workflow.run
    async def run(self) -> None:
        """Wait for what the class does not name."""
        workflow.set_signal_handler("late", print)


@workflow.defn(name="Two")
class Two:
    @workflow.run
    async def run(self, order: Order, times: int) -> None:
        """Nothing."""


@workflow.defn(name="Two")
class Texts:
    @workflow.run
    async def run(self, one: str, two: str = "") -> None:
        """Nothing."""


@workflow.defn(name="Two")
class Objects:
    @workflow.run
    async def run(self, one: Order, two: str = "") -> None:
        """Nothing."""


@workflow.defn(name="Odd")
class Bare:
    @workflow.run
    async def run(self, anything) -> None:  # type: ignore[no-untyped-def]
        """Nothing."""


@workflow.defn(name="Odd")
class Own:
    @workflow.run
    async def run(self, odd: Any, *more: Any) -> None:
        """Nothing."""


@dataclass
class Bestellung:
    order_id: str
    cents: int
    tier: Tier = Tier.FREE
    lines: list[str] = field(default_factory=list)


@workflow.defn(name="Purchase", versioning_behavior=common.VersioningBehavior.PINNED)
class Moved:
    """Other words."""

    @workflow.query(name="status")
    def stand(self) -> str:
        """Other words."""
        return ""

    @workflow.update(name="reprice")
    async def change(self, cents: int, reason: str = "") -> int:
        """Other words."""
        return cents

    @workflow.signal(name="cancel-order")
    def stop(self) -> None:
        """Other words."""

    @workflow.signal
    async def decide(self, answer: Answer) -> None:
        """Other words."""

    @workflow.run
    async def run(self, order: Bestellung) -> str:
        """Other words."""
        return ""


def shape(cls: Any, name: str) -> Any:
    """The payload schema of a gate."""
    gates = contract_of(cls).gates
    assert gates is not None
    return gates[name].payload_schema


def test_what_a_class_declares() -> None:
    """Name, input, output, handlers with their kinds, and how it is versioned; steps are not known."""
    contract = contract_of(PurchaseWorkflow)
    assert (contract.workflow_id, contract.engine, contract.steps) == ("Purchase", "journal", None)
    assert contract.versions == {"versioningBehavior": "Pinned"}
    assert contract.output_schema == {"type": "string"}
    takes: Any = contract.input_schema
    assert takes["required"] == ["order_id", "cents"]
    kinds = {name: gate.kind for name, gate in (contract.gates or {}).items()}
    assert kinds == {"decide": "signal", "cancel-order": "signal", "reprice": "update", "status": "query"}
    assert shape(PurchaseWorkflow, "decide")["required"] == ["approved"]
    assert shape(PurchaseWorkflow, "cancel-order") == {"type": "null"}
    assert fingerprint(contract) == fingerprint(Contract.model_validate(contract.model_dump(by_alias=True)))


def test_a_class_is_known_by_its_registered_name() -> None:
    """It is found under its workflow type, whatever it is listed as; the run method is the same flow."""
    assert own_name(PurchaseWorkflow) == "Purchase"
    assert list(named_flows({"shop": PurchaseWorkflow})) == ["Purchase"]
    resolve = resolver_of({"shop": PurchaseWorkflow})
    assert resolve("Purchase", None) is PurchaseWorkflow
    assert contract_of(PurchaseWorkflow.run).workflow_id == "Purchase"


def test_a_dynamic_workflow_is_found_for_every_name_without_its_own() -> None:
    """It has no name; a class that has the name goes before it."""

    assert own_name(AnyName) is None
    resolve = resolver_of({"shop": PurchaseWorkflow, "else": AnyName})
    assert resolve("Unheard", None) is AnyName
    assert resolve("Purchase", None) is PurchaseWorkflow
    assert resolver_of(AnyName)("Unheard", None) is AnyName
    assert contract_of(AnyName).input_schema is None


def test_dynamic_handlers_and_handlers_set_by_code_take_any_name() -> None:
    """A gate of any name stands for them, with the kind that it takes."""

    gates = contract_of(Dynamic).gates or {}
    assert {name: gate.kind for name, gate in gates.items()} == {"*": "signal", "update:*": "update"}
    assert {name: gate.kind for name, gate in (contract_of(SetsThem).gates or {}).items()} == {"*": "signal"}


def problems(cls: Any, value: Any) -> list[str]:
    """What kinds of problems a recorded input has with today's class."""
    return [problem.kind for problem in value_problems(None, contract_of(cls).input_schema, value)]


def test_several_arguments_are_checked_each_by_its_own_type() -> None:
    """Two are recorded as a list; one too few is refused, and so is one of another type."""

    good = {"order_id": "o1", "cents": 5, "tier": "paid", "lines": []}
    assert problems(Two, {"args": [good, 3], "kwargs": {}}) == []
    assert problems(Two, {"args": [good, "three"], "kwargs": {}}) == ["retyped"]
    assert problems(Two, {"args": [{"order_id": "o1"}, 3], "kwargs": {}}) == ["newly-required"]
    assert problems(Two, good) != []
    assert problems(Two, None) != []


def test_a_new_argument_with_a_default_leaves_the_others_undecoded() -> None:
    """temporalio decodes by annotation only where as many are recorded: a text does not mind, a dataclass does."""

    assert problems(Texts, "only") == []
    assert problems(Texts, {"args": ["a", "b"], "kwargs": {}}) == []
    assert problems(Objects, {"order_id": "o1", "cents": 5}) != []


def test_what_cannot_be_described_is_not_checked() -> None:
    """Arguments without an annotation, of any number, and of types that pydantic does not know."""

    assert contract_of(Bare).input_schema is None
    assert contract_of(Own).input_schema is None


class Renamed(pydantic.BaseModel):
    """Still reads the old name."""

    total: int = pydantic.Field(validation_alias=pydantic.AliasChoices("total", "cents"))


class Upgraded(pydantic.BaseModel):
    """Reads every old shape by its own code."""

    total: int

    @pydantic.model_validator(mode="before")
    @classmethod
    def old_shapes(cls, value: Any) -> Any:
        """Never called by a contract."""
        raise AssertionError("a contract runs no validator")


@dataclass
class Blob:
    """Has bytes, which the two converters write in two ways."""

    raw: bytes


def test_what_old_names_and_validators_still_read_is_no_problem() -> None:
    """An alias is a name as good as the first; where a validator sees the raw value, nothing is known."""
    for kind, value in (
        (Renamed, {"cents": 3}),
        (Renamed, {"total": 3}),
        (Upgraded, {"cents": 3}),
        (Blob, {"raw": [1, 2]}),
        (Blob, {"raw": "AQI="}),
    ):
        assert value_problems(None, schema_of(kind), value) == [], (kind, value)
    assert value_problems(None, schema_of(Renamed), {"cents": "x"})


def test_a_refactoring_does_not_move_it() -> None:
    """Docstrings, names of classes and modules, and the order of methods and handlers mean nothing."""

    old, new = contract_of(PurchaseWorkflow), contract_of(Moved)
    assert fingerprint(old) == fingerprint(new)
    assert {change.effect for change in compare_contracts(old, new)} <= {"cosmetic"}


def test_a_handler_of_another_kind_is_another_contract() -> None:
    """A signal that became an update is not what a sender of the signal reaches."""
    gates: Any = {"go": {"kind": "signal"}}
    old = Contract.model_validate({"workflowId": "w", "gates": gates})
    new = Contract.model_validate({"workflowId": "w", "gates": {"go": {"kind": "update"}}})
    assert fingerprint(old) != fingerprint(new)
    assert [change.effect for change in compare_contracts(old, new)] == ["breaking"]


@workflow.defn(name="Patched")
class Patched:
    """Names patches in both phases."""

    @workflow.run
    async def run(self) -> None:
        """Nothing that a contract may run."""
        if workflow.patched("fraud"):
            workflow.deprecate_patch("fee")


def test_the_patches_that_the_code_names() -> None:
    """Read off the text of the class; another class beside it has its own."""
    assert patches_of(Patched) == {"fraud": "patched", "fee": "deprecated"}
    assert patches_of(PurchaseWorkflow) == {}
    assert patches_of({"workflowId": "Patched"}) is None
