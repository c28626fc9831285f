"""Goldens made by pytest-xdist's workers (``-n 2``) are the ones that a run without workers makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_loom import load_log, write_log
from pytest_loom.flow.normal import normalised, same_recording

if TYPE_CHECKING:
    from tests.plugin.conftest import Desk

PASSED = pytest.ExitCode.OK
UPDATE = "--loom-update"
FLOW = """
import asyncio
from pytest_loom import Context, flow, step

@step
async def work(name: str, pauses: int) -> str:
    for _ in range(pauses):
        await asyncio.sleep(0.001)
    return f"{name} is done"

@flow(id="both", steps=[work], gates={"Go": int})
async def both(ctx: Context, number: int) -> list[str]:
    token, now = ctx.uuid(), ctx.now()
    first = await asyncio.gather(ctx.run(work, f"{token} {now}", number % 3), ctx.run(work, "b", (number + 1) % 2))
    return [*first, str(await ctx.suspend("Go", correlation_key=ctx.execution_id))]
"""
TEST = """
import app, pytest

@pytest.mark.parametrize("number", range(8))
def test_it(loom, number):
    assert len(loom.record(app.both, number, events=[("Go", number)]).state.variables["_output"]) == 3
"""


@pytest.fixture
def eight(desk: Desk) -> Desk:
    """Eight tests that each record a flow with branches."""
    pytest.importorskip("xdist")
    desk.write("app.py", FLOW)
    desk.write("test_it.py", TEST)
    desk.write("pytest.ini", "[pytest]\npythonpath = .\n")
    return desk


def goldens(desk: Desk) -> dict[str, bytes]:
    """The golden files by name."""
    return {path.name: path.read_bytes() for path in sorted((desk.path / "logs").rglob("*")) if path.is_file()}


def normal(path: Path) -> bytes:
    """The bytes of a recording less ids and times."""
    return write_log(normalised(load_log(path)), path.parent.parent / "normal.jsonl").read_bytes()


def test_made_by_workers_or_not_they_are_equal(eight: Desk) -> None:
    """Once ids and times are normalised, the same bytes stand in every golden."""
    assert eight(UPDATE) == PASSED
    alone = {path.name: normal(path) for path in eight.path.glob("logs/*/*.loom.jsonl")}
    (eight.path / "logs").rename(eight.path / "alone")
    assert eight.apart(UPDATE, "-n", "2", plugins=("xdist",)) == PASSED
    shared = {path.name: normal(path) for path in eight.path.glob("logs/*/*.loom.jsonl")}
    assert len(shared) == 8
    assert shared == alone
    for path in eight.path.glob("alone/*/*.loom.jsonl"):
        assert same_recording(load_log(path), load_log(eight.path / "logs" / path.parent.name / path.name))


def test_workers_leave_alone_what_did_not_change(eight: Desk) -> None:
    """Replayed and recorded anew by workers, the files keep their bytes, and nothing else lies beside them."""
    assert eight(UPDATE) == PASSED
    before = goldens(eight)
    assert len(before) == 8
    assert eight.apart("-n", "2", plugins=("xdist",)) == PASSED
    assert eight.apart(UPDATE, "-n", "2", plugins=("xdist",)) == PASSED
    assert goldens(eight) == before


def test_an_accepted_change_settles(eight: Desk) -> None:
    """Where workers recorded a change over the golden of a run without, recording once more changes nothing."""
    assert eight(UPDATE) == PASSED
    before = goldens(eight)
    eight.write("app.py", FLOW.replace("is done", "was done"))
    assert eight.apart(UPDATE, "-n", "2", plugins=("xdist",)) == PASSED
    after = goldens(eight)
    assert all(after[name] != before[name] for name in before)
    identities = {name: json.loads(data.splitlines()[0])["executionId"] for name, data in before.items()}
    assert identities == {name: json.loads(data.splitlines()[0])["executionId"] for name, data in after.items()}
    assert eight.apart(UPDATE, "-n", "2", plugins=("xdist",)) == PASSED
    assert goldens(eight) == after
