"""``replay`` of recorded runs of DBOS: today's workflow over what was recorded, no step run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import ReplayDivergence, diff_runs, load_logs, replay
from pytest_loom.log.event import Log
from tests.engines.dbos.changes import ANSWERS, APPS, ARGUMENTS
from tests.engines.dbos.conftest import Bench, needs_dbos

pytestmark = [needs_dbos, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="session")
def goldens(bench: Bench) -> dict[str, Log]:
    """Runs of each application that came to their end, by the real DBOS."""
    found = {}
    for app in ("claim", "digest", "onboard"):
        folder = bench.fresh()
        bench.run(
            folder,
            APPS[app],
            "start",
            app,
            json.dumps(ARGUMENTS[app]),
        )
        bench.run(folder, APPS[app], "resume", json.dumps(ANSWERS[app]))
        logs: Any = load_logs(str(folder / "desk.sqlite"))
        found[app] = next(log for log in logs if log.execution_id == "run-1")
        assert found[app].state.status == "completed"
    return found


@pytest.mark.parametrize("app", ["claim", "digest", "onboard"])
def test_todays_code_does_what_was_recorded(bench: Bench, goldens: dict[str, Log], app: str, tmp_path: Path) -> None:
    """The candidate of an unchanged workflow is the golden, whether it is sync or async, with children or errors."""
    golden = goldens[app]
    flow = bench.flows(APPS[app])[app]
    before = sys.modules["dbos._dbos"]._dbos_global_instance
    assert diff_runs(golden, replay(golden, flow), compare="all") == []
    assert diff_runs(golden, replay(golden, flow), compare="all") == []
    assert sys.modules["dbos._dbos"]._dbos_global_instance is before


def test_another_result_is_a_difference(bench: Bench, goldens: dict[str, Log]) -> None:
    """What the workflow's own code makes of the recorded answers is compared."""
    flow = bench.flows(APPS["claim"].replace("    return paid", "    return paid + 1"))["claim"]
    (difference,) = diff_runs(goldens["claim"], replay(goldens["claim"], flow))
    assert (difference.kind, difference.golden, difference.candidate) == ("output", 4999, 5000)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("judge", "assess", "asks for assess as operation 2.*the record has judge"),
        ("    tell(number)\n    return", "    return", "comes to its end.*the record has tell"),
        ("    return paid", "    load(number)\n    return paid", "goes on with load"),
        ("    tell(number)\n    return", "    tell(number + 1)\n    return", "raises TypeError"),
    ],
)
def test_another_way_is_a_divergence(bench: Bench, goldens: dict[str, Log], old: str, new: str, said: str) -> None:
    """Steps renamed, left out and added, and code that raises, are divergences in words."""
    flow = bench.flows(APPS["claim"].replace(old, new))["claim"]
    with pytest.raises(ReplayDivergence, match=f"(?s){said}"):
        replay(goldens["claim"], flow)
