"""Contracts at the time of an import: today's are captured where flows are given, and each run gets to know its own."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_loom.cli.flows import import_flows
from pytest_loom.cli.settings import Settings
from pytest_loom.contract.fingerprint import fingerprint
from pytest_loom.contract.model import Contract
from pytest_loom.contract.resolve import UNNAMED, contract_as, named_flows
from pytest_loom.contract.store import capture, load_contracts
from pytest_loom.log.event import Log
from pytest_loom.log.origin import CONTRACT


class Contracts:
    """Today's contracts (of ``--flows``), and those that are kept. Raises FlowError where they cannot be had."""

    def __init__(self, arguments: argparse.Namespace, settings: Settings, now: datetime) -> None:
        folder: Path = arguments.contracts or settings.path("loom_contracts", "loom-contracts")
        self.today: dict[str, Contract] = {}
        if arguments.flows:
            flows = import_flows(arguments.flows, settings)
            self.today = {name: contract_as(flow, name) for name, flow in named_flows(flows).items()}
        for contract in self.today.values():
            capture(folder, contract, now)
        self.kept = load_contracts(folder) if folder.is_dir() else None
        self._prints: dict[int, str] = {}

    def of(self, log: Log) -> str | None:
        """The fingerprint of the contract that a run was on, where its log does not say it and one is kept.

        Times of an imported run are no longer those of the day: so this is told while they are known.
        """
        manifest = log.events[0].payload.get("manifest") if log.events[0].event_type == "EXECUTION_STARTED" else None
        manifest = manifest if isinstance(manifest, dict) else {}
        if self.kept is None or "contractFingerprint" in manifest or CONTRACT in manifest:
            return None
        flow = log.workflow_id
        if flow == UNNAMED and len(self.today) == 1:
            flow = next(iter(self.today))
        found = self.kept.of(flow, None, log.events[-1].time_ms)
        if found is None:
            return None
        if id(found) not in self._prints:
            self._prints[id(found)] = fingerprint(found)
        return self._prints[id(found)]

    def facts(self) -> dict[str, Any]:
        """Today's contracts as the sidecar has them."""
        return {
            name: {
                "fingerprint": fingerprint(contract),
                "contract": contract.model_dump(by_alias=True, exclude_none=True, mode="json"),
            }
            for name, contract in self.today.items()
        }
