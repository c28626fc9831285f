"""What the tests share: today's code, run anew on what a golden run was given."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

import releases.versions  # noqa: F401  # events are written in the version that these lead to
from pytest_loom import Log
from refund_desk.desk import FLOWS
from refund_desk.runtime import Clock, Desk
from refund_desk.shop import PowerCut, Shop


@pytest.fixture
def rerun() -> Callable[[Log], Log]:
    """Run today's code on a golden's recorded input and the recorded answers."""

    def run_again(golden: Log) -> Log:
        desk = Desk(FLOWS, Shop(), Clock())
        run_id = golden.execution_id
        with contextlib.suppress(PowerCut):
            desk.start(golden.workflow_id, run_id, golden.state.variables["_input"])
            for event in golden.state.received:
                desk.answer(run_id, event.event_type, event.payload)
        return desk.log(run_id)

    return run_again
