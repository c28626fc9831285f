"""A simulation whose parts the workers of a Dask cluster judge, through the executor that Dask's client gives."""

from __future__ import annotations

import copyreg
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest

from benchmarks.corpus import STEPS, write_corpus
from pytest_loom import LoomError, simulate_deploy
from pytest_loom.deploy.report import DeployReport
from pytest_loom.report.json import write_json
from tests.pages import BLOCKS, printed, write
from tests.scale.test_page import script

_before = dict(copyreg.dispatch_table)
distributed = pytest.importorskip("distributed", reason="needs the package distributed, Dask's workers")
# It has exceptions pickled with their tracebacks, in all of the process, which is not to change other tests.
copyreg.dispatch_table.clear()
copyreg.dispatch_table.update(_before)


def get_flow(workflow_id: str, version: str | None = None) -> Any:
    """Today's flows, which a worker imports by name."""
    steps: dict[str, Any] = {f"step-{number}": {} for number in range(STEPS)}
    return {"workflowId": workflow_id, "steps": steps, "gates": {"Approved": {}}}


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    """The executor of a cluster of two processes on this machine."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client.get_executor()


def as_written(report: DeployReport, path: Path) -> bytes:
    """The bytes of its ``report.json``."""
    write_json(report, path, ok=report.ok, extra={})
    return path.read_bytes()


def test_the_same_report(executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, and shares of large ones, judged by Dask's workers: the same bytes as of one process."""
    monkeypatch.setattr("pytest_loom.deploy.parts.LARGE", 400_000)
    paths = write_corpus(tmp_path, 1000, 4)
    paths[0].write_bytes(b"".join(path.read_bytes() for path in paths[:3]))
    paths[1].unlink()
    paths[2].unlink()
    alone = as_written(simulate_deploy(tmp_path, get_flow), tmp_path / "alone.json")
    beside = as_written(simulate_deploy(tmp_path / "*.jsonl", get_flow, executor=executor), tmp_path / "beside.json")
    assert beside == alone
    assert b'"runs":1000' in alone


def test_what_a_worker_raises(executor: Executor, tmp_path: Path) -> None:
    """What goes wrong in a worker is said here as it is said without one."""
    write_corpus(tmp_path, 10, 1)
    with pytest.raises(LoomError, match="no answer"):
        simulate_deploy(tmp_path, broken, executor=executor)


def broken(workflow_id: str, version: str | None = None) -> Any:
    """Flows that cannot be asked."""
    raise RuntimeError("no answer")


def test_on_dask(tmp_path: Path) -> None:
    """The script of docs/scale.md prints what the one with processes does."""
    for name in ("scale-app", "scale-settings"):
        write(name, tmp_path)
    printed("scale-logs", tmp_path)
    assert script("scale-dask", tmp_path) == BLOCKS["scale-executor-output"].text
