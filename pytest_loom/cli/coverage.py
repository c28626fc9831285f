"""The corpus in ``pytest-loom doctor``: the runs of each flow, how old they are, and what none of them comes by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from pytest_loom.cli.check import Check, counted, masked
from pytest_loom.cli.corpus import configured
from pytest_loom.cli.flows import import_flows
from pytest_loom.cli.output import Output
from pytest_loom.cli.settings import Settings
from pytest_loom.contract.model import Contract
from pytest_loom.contract.resolve import contract_as, named_flows
from pytest_loom.contract.targets import target_for
from pytest_loom.deploy.attribution import flow_of
from pytest_loom.deploy.corpus_health import CorpusHealth, max_age_of
from pytest_loom.errors import LogError, printable
from pytest_loom.log.event import Log
from pytest_loom.sources import is_address, iter_address, iter_file

_MOST = 10_000
"""So many runs of a pattern are read at most."""


def corpus(settings: Settings, out: Output) -> Iterator[Check]:
    """The runs of ``loom_logs`` beside today's flows; nothing where either is not there, which is said before."""
    health = CorpusHealth()
    flows: dict[str, dict[str, Contract]] = {}
    for pattern, places in configured(settings):
        left = _MOST
        for place in places:
            out.progress(f"the corpus: {printable(masked(pattern), 200)}")
            target = target_for(settings.lines("loom_flows"), Path(place).absolute(), settings.base)
            if target is None:
                continue
            if target not in flows:
                flows[target] = _contracts(target, settings)
            for item in islice(iter_address(place) if is_address(place) else iter_file(Path(place)), left):
                left -= 1
                if isinstance(item, Log) and item.engine != "trace":
                    flow = _flow_of(item, flows[target])
                    health.see(item, flow, flows[target].get(flow))
    for contracts in flows.values():
        for name, contract in contracts.items():
            health.promise(name, contract)
    now = datetime.now(UTC).timestamp() * 1000
    for name, seen in sorted(health.flows.items()):
        if seen.runs:
            day = datetime.fromtimestamp((seen.newest_ms or 0) / 1000, UTC).date()
            text = f"{printable(name)}: {counted(seen.runs, 'run')}, {seen.in_flight or 'none'} not over, the newest"
            yield Check("corpus", "ok", f"{text} of {day} ({seen.age_days(now) or 0:.0f} days ago)")
    days = None
    with suppress(ValueError):  # pytest refuses it
        days = max_age_of(settings.text("loom_max_age"))
    for note in health.notes(max_age_days=days, now_ms=now):
        yield Check("corpus", "note", note, _WHAT_TO_DO)


def _flow_of(log: Log, flows: dict[str, Contract]) -> str:
    try:
        return flow_of(log, flows)
    except LogError:  # which is said where logs are looked at
        return log.workflow_id


_WHAT_TO_DO = "Record such runs in a test, or import them:\n  pytest-loom import SOURCE -o tests/goldens"


def _contracts(target: str, settings: Settings) -> dict[str, Contract]:
    """The contracts of today's flows, as far as they can be listed."""
    found: dict[str, Contract] = {}
    flows: dict[str, Any] = {}
    with suppress(Exception):  # what cannot be imported is said where flows are looked at
        flows = named_flows(import_flows(target, settings, setting="loom_flows"))
    for name, flow in flows.items():
        with suppress(Exception):
            found[name] = contract_as(flow, name)
    return found
