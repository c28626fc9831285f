"""The four ways to live with old runs and new code, and what each would make of one run (seed 003).

    compatible-window   today's code reads what the last N versions wrote, nothing older (``window`` of the policy)
    pinned-workers      a run stays on the version that it was started on, where a worker of it is kept
    explicit-migration  all that is registered is applied before the deploy, however old the run
    fail-closed         only what nothing changed for goes on; for the rest a person confirms a branch of its own

They are told from what was seen of the run (``Judged``), before a policy's rules have their say: the table compares
ways to deploy, the verdict of the run says what this deploy does.
"""

from __future__ import annotations

from typing import Any

from pytest_loom.deploy.decide import Judged
from pytest_loom.flow.carried import Carried
from pytest_loom.log.migrations import chain
from pytest_loom.resume.policy import Verdict

_LOST = frozenset({"flow-missing", "log-unreadable", "schema-unknown", "upcast-missing"})
"""There is nothing to make a branch of, or nothing that would run it."""

_ONLY_WAITS = "suspended-carryover"
_CALL = "call of "


def strategies(judged: Judged, window: int) -> dict[str, Verdict]:
    """What each strategy would make of an unfinished run; {} for one that is over.

    ``compatible-window``: what today's code makes of it, but ``reject`` where an event, a state, a plan or a call is
    read over more than ``window`` versions: the code that reads it is not deployed any more.
    ``pinned-workers``: ``pin`` where a worker is kept for it. Today's worker is the one for runs of today's contract,
    and for those that name no version, which nothing routes elsewhere: for them what today's code makes of the run.
    ``reject`` for the rest: nobody would pick them up.
    ``explicit-migration``: what today's code makes of it with every registered upcaster and migration.
    ``fail-closed``: ``resume`` where today's code takes it as it is and nothing was found but that it waits;
    ``reject`` where it cannot be read or its flow is gone; else ``fork``.
    """
    if not judged.in_flight:
        return {}
    natural = judged.verdict
    is_ours = judged.same is not False
    pinned: Verdict = natural if is_ours else "reject"
    if judged.worker is not None and judged.same is not True:
        pinned = "pin"
    return {
        "compatible-window": "reject" if _span(judged) > window else natural,
        "pinned-workers": pinned,
        "explicit-migration": natural,
        "fail-closed": _closed(judged, natural),
    }


def _closed(judged: Judged, natural: Verdict) -> Verdict:
    codes = {found.code for found in judged.findings if found.severity != "info"}
    if codes & _LOST:
        return "reject"
    return "resume" if natural == "resume" and codes <= {_ONLY_WAITS} else "fork"


def _span(judged: Judged) -> float:
    """Over how many versions the oldest part of a run is read."""
    spans = [today - version for _, version, today in judged.upcasts]
    return max([*spans, *(_distance(part) for part in judged.migrated)], default=0)


def _distance(part: Carried) -> float:
    """Versions between two numbers; between texts, of which only the migrations know the order, their steps."""
    was, now = part.from_version, part.to_version
    if _is_number(was) and _is_number(now):
        return float(abs(now - was))
    what = f"tool:{part.what.removeprefix(_CALL)}" if part.what.startswith(_CALL) else part.what
    steps = chain(what, was, now)
    return float("inf") if steps is None else len(steps)


def _is_number(version: Any) -> bool:
    return isinstance(version, int) and not isinstance(version, bool)
