"""``pytest-loom contract show|diff``: what a flow promises to its runs, and what changed, in words."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from pytest_loom.cli.flows import import_flows
from pytest_loom.cli.output import FINDING, OK, Output, Style
from pytest_loom.cli.settings import read_settings
from pytest_loom.cli.signature import signature
from pytest_loom.contract.changes import ContractChange, compare_contracts
from pytest_loom.contract.fingerprint import fingerprint
from pytest_loom.contract.model import AgentContract, Contract, ToolContract
from pytest_loom.contract.resolve import contract_as, contract_of, named_flows
from pytest_loom.contract.store import Captured, age_of, every
from pytest_loom.errors import FlowError, printable, set_in

_WHERE = "a flow as module:attr, a .json file, or a folder of captured contracts"
_EFFECTS: dict[str, Style] = {"breaking": "red", "unknown": "yellow", "additive": "", "cosmetic": "dim"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    commands = parser.add_subparsers(dest="what", metavar="show|diff", required=True)
    show = commands.add_parser("show", help="print contracts", description="Print contracts, in words or as JSON.")
    show.add_argument("target", metavar="TARGET", help=_WHERE)
    diff = commands.add_parser(
        "diff",
        help="say what changed",
        description="Say what changed from one contract to another, and whom it would hurt. Of a folder the newest of"
        " each flow counts. Exit status 1 where a change is breaking, or a flow is gone.",
    )
    diff.add_argument("old", metavar="OLD", help=_WHERE)
    diff.add_argument("new", metavar="NEW", help="the same")
    for one in (show, diff):
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="say it as one JSON object")


def run(arguments: argparse.Namespace, out: Output) -> int:
    """Show or compare. Raises FlowError where there is no contract."""
    if arguments.what == "show":
        return _show(arguments.target, out)
    return _diff(arguments.old, arguments.new, out)


def contracts_at(target: str) -> Iterator[Captured | FlowError]:
    """The contracts that a target names; damaged files as FlowErrors. Raises FlowError where it names none."""
    path = Path(target)
    if path.exists():
        found = every(path)
        first = next(found, None)
        if first is None:
            hint = "pytest --loom-deploy-sim --snapshot-update captures today's."
            raise FlowError("no contract is captured here", path=target, hint=hint)
        yield from chain((first,), found)
        return
    if ":" not in target:
        raise FlowError("there is no such file or folder", path=printable(target, 1_000), hint=f"Give {_WHERE}.")
    flows = import_flows(target, read_settings(Path.cwd()), setting="the contract")
    named = named_flows(flows)
    contracts = [contract_as(flow, name) for name, flow in named.items()] if named else [contract_of(flows)]
    yield from (Captured(contract, fingerprint(contract)) for contract in contracts)


def _show(target: str, out: Output) -> int:
    shown: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    for one in contracts_at(target):
        if isinstance(one, FlowError):
            out.error(one)
            errors.append({"message": one.what, "path": one.path, "hint": one.hint})
            continue
        out.lines([""] if shown else [])
        out.line(_title(one), "bold")
        for name, what in _parts(one.contract):
            out.lines(set_in(what, f"  {name}  ", "      ") or [f"  {name}"])
        shown.append(_facts(one))
    out.result({"ok": not errors, "schema": 1, "contracts": shown, "errors": errors})
    return FINDING if errors else OK


def _title(one: Captured) -> str:
    contract = one.contract
    version = f" {printable(contract.version, 40)}" if contract.version is not None else ""
    captured = f", captured {one.captured_at:%Y-%m-%d %H:%M}" if one.captured_at is not None else ""
    engine = f"{contract.engine}, " if contract.engine else ""
    return f"{printable(contract.workflow_id)}{version}  ({engine}fingerprint {one.fingerprint}{captured})"


def _parts(contract: Contract) -> Iterator[tuple[str, str]]:
    """What a contract says, part by part."""
    whole = (("takes", contract.input_schema), ("gives", contract.output_schema), ("state", contract.state_schema))
    yield from ((name, signature(schema)) for name, schema in whole if schema is not None)
    for key, name in (contract.reducers or {}).items():
        yield f"reducer {printable(key)}", printable(name)
    for step_id, step in (contract.steps or {}).items():
        sides = [signature(schema) or "?" for schema in (step.input_schema, step.output_schema)]
        said = " -> ".join(sides) if sides != ["?", "?"] else ""
        after = f", then {printable(', '.join(step.next))}" if step.next else ""
        yield f"step {printable(step_id)}", f"{said}{after}{', asks a person' if step.asks else ''}"
    for event, gate in (contract.gates or {}).items():
        yield f"gate {printable(event)}", signature(gate.payload_schema)
    for target, sources in (contract.joins or {}).items():
        yield f"join {printable(target)}", f"waits for {printable(', '.join(sources), 300)}"
    yield from _tools(contract.tools, "")
    for name, agent in (contract.agents or {}).items():
        yield from _agent(printable(name), agent)
    if contract.more_tools:
        yield "tools", "there may be more, which cannot be listed"
    for name, version in (contract.versions or {}).items():
        yield f"version of {printable(name)}", printable(str(version), 300)


def _tools(tools: dict[str, ToolContract] | None, owner: str) -> Iterator[tuple[str, str]]:
    for name, tool in (tools or {}).items():
        said = [signature(tool.schema_)]
        said += [f"version {printable(str(tool.version), 40)}"] if tool.version is not None else []
        said += ["asks for approval"] if tool.approval else []
        said += [f"may use {printable(', '.join(tool.permissions), 300)}"] if tool.permissions else []
        said += ["its result comes from outside"] if tool.external else []
        yield f"{owner}tool {printable(name)}", ", ".join(part for part in said if part)


def _agent(name: str, agent: AgentContract) -> Iterator[tuple[str, str]]:
    yield f"agent {name}", f"gives {signature(agent.output_schema)}" if agent.output_schema is not None else ""
    yield from _tools(agent.tools, f"agent {name}, ")
    for tool, other in (agent.handoffs or {}).items():
        yield f"agent {name}, handoff {printable(tool)}", f"to {printable(other)}"
    if agent.input_guardrails:
        yield f"agent {name}, guardrails", printable(", ".join(agent.input_guardrails), 300)


def _facts(one: Captured) -> dict[str, Any]:
    return {
        "fingerprint": one.fingerprint,
        "capturedAt": None if one.captured_at is None else one.captured_at.isoformat(),
        "path": None if one.path is None else str(one.path),
        "contract": one.contract.model_dump(by_alias=True, exclude_none=True, mode="json"),
    }


def _diff(old: str, new: str, out: Output) -> int:
    was, now = _newest(old), _newest(new)
    if len(was) == len(now) == 1:  # whatever they are called
        pairs = [(*was.values(), *now.values())]
        gone, added = [], []
    else:
        pairs = [(was[name], now[name]) for name in was if name in now]
        gone, added = [name for name in was if name not in now], [name for name in now if name not in was]
    compared = [(one, other, compare_contracts(one.contract, other.contract)) for one, other in pairs]
    for one, other, changes in compared:
        _show_changes(one, other, changes, out)
    for name in gone:
        out.line(f"{printable(name)}: the flow is gone", "red")
    for name in added:
        out.line(f"{printable(name)}: the flow is new")
    ok = not gone and not any(change.effect == "breaking" for _, _, changes in compared for change in changes)
    flows = [
        {
            "workflowId": other.contract.workflow_id,
            "old": one.fingerprint,
            "new": other.fingerprint,
            "changes": [asdict(change) for change in changes],
        }
        for one, other, changes in compared
    ]
    out.result({"ok": ok, "schema": 1, "flows": flows, "gone": gone, "added": added})
    return OK if ok else FINDING


def _newest(target: str) -> dict[str, Captured]:
    """The contracts that a target names, of each flow the newest. Raises FlowError where one is damaged."""
    found: dict[str, Captured] = {}
    for one in contracts_at(target):
        if isinstance(one, FlowError):
            raise one
        before = found.get(one.contract.workflow_id)
        if before is None or age_of(one) >= age_of(before):
            found[one.contract.workflow_id] = one
    return found


def _show_changes(one: Captured, other: Captured, changes: list[ContractChange], out: Output) -> None:
    name = printable(other.contract.workflow_id)
    if not changes:
        out.line(f"{name}: no change")
        return
    counts = [
        f"{count} {effect}" for effect in _EFFECTS if (count := sum(change.effect == effect for change in changes))
    ]
    out.line(f"{name} {one.fingerprint[:8]} -> {other.fingerprint[:8]}: {', '.join(counts)}", "bold")
    for effect, style in _EFFECTS.items():
        for change in changes:
            if change.effect == effect:
                unmoved = f"; {printable(change.version)} should have moved" if change.version else ""
                out.lines(set_in(f"{change.detail}{unmoved}", f"  {effect:8}  ", " " * 12), style)
