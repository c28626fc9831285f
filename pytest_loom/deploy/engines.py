"""What only an engine can tell of a run: today's flow, as code, is held against it by that engine's own rules.

One table. Each entry looks for itself whether the run and the flow are of its engine, runs no effect, and says nothing
where it cannot ask. A new engine is one more entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pytest_loom.contract.model import Contract
from pytest_loom.deploy import agents_shadow, checkpoint_asked, dbos, deferred_shadow, durable, native, temporal
from pytest_loom.deploy.report import BREAKING, Finding
from pytest_loom.log.event import Log

Ask = Callable[[Log, Any, Contract, Contract | None], Iterable[Finding]]
"""The run, today's flow, its contract and yesterday's: what the engine finds beside what is found already."""

_ENGINES: tuple[Ask, ...] = (
    lambda log, flow, contract, yesterday: native.replayed(log, flow, yesterday),
    lambda log, flow, contract, yesterday: temporal.replayed(log, flow, contract, yesterday),
    lambda log, flow, contract, yesterday: agents_shadow.shadowed(log, flow),
    lambda log, flow, contract, yesterday: checkpoint_asked.shadowed(log, flow, contract),
    lambda log, flow, contract, yesterday: durable.shadowed(log, flow),
    lambda log, flow, contract, yesterday: dbos.replayed(log, flow, yesterday),
)


def asked(log: Log, flow: Any, contract: Contract, yesterday: Contract | None, found: list[Finding]) -> list[Finding]:
    """``found``, what the checks say of a run, with what its engine makes of it.

    What is known to be broken is not run. Raises LogError for a log that cannot be read.
    """
    found = deferred_shadow.shadowed(log, flow, yesterday, found)  # knows better than schemas do
    if any(item.severity == "breaking" and item.code in BREAKING for item in found):
        return found
    return [*found, *(item for ask in _ENGINES for item in ask(log, flow, contract, yesterday))]
