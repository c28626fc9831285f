"""2,000 waiting LangGraph threads in one store, simulated: the time, and that memory does not grow with them."""

from __future__ import annotations

import importlib
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

THREADS = 2000
APP = """
import operator
from typing import Annotated, TypedDict
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

class Order(TypedDict, total=False):
    order: str
    cents: int
    log: Annotated[list[str], operator.add]

def load(o): return {"cents": 4999, "log": ["loaded"]}
def check(o): return {"log": ["checked"]}
def approve(o): return {"log": [interrupt({"pay?": o["cents"], "order": o["order"]})]}
def pay(o): return {"log": ["paid"]}

g = StateGraph(Order)
for node in (load, check, approve, pay):
    g.add_node(node)
g.add_edge(START, "load")
g.add_edge("load", "check")
g.add_edge("check", "approve")
g.add_edge("approve", "pay")
g.add_edge("pay", END)
flows = {"order": g.compile()}
"""
PROBE = """
import sys, time
sys.path.insert(0, sys.argv[1])
import langgraph_orders as app
from benchmarks.measure import peak_mib
from pytest_loom import simulate_deploy
started = time.perf_counter()
report = simulate_deploy(sys.argv[2], app.flows)
seconds = time.perf_counter() - started
assert report.ok and report.in_flight == report.examined, report.findings[:3]
print(report.examined, seconds, peak_mib())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The application, and the store with one thread that it wrote."""
    pytest.importorskip("langgraph.checkpoint.sqlite", reason="needs the extra langgraph")
    from langgraph.checkpoint.sqlite import SqliteSaver

    made = tmp_path_factory.mktemp("waiting")
    (made / "langgraph_orders.py").write_text(APP)
    sys.path.insert(0, str(made))
    graph = importlib.import_module("langgraph_orders").flows["order"]
    connection = sqlite3.connect(made / "one.sqlite", check_same_thread=False)
    graph.checkpointer = SqliteSaver(connection)
    graph.checkpointer.setup()
    graph.invoke({"order": "o-1"}, {"configurable": {"thread_id": "t"}})
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()
    return made


def multiplied(folder: Path, threads: int) -> Path:
    """A store with that many copies of the thread."""
    path = folder / f"store-{threads}.sqlite"
    path.write_bytes((folder / "one.sqlite").read_bytes())
    with sqlite3.connect(path) as connection:
        for table in ("checkpoints", "writes"):
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()
            marks = ",".join("?" * len(rows[0]))
            for number in range(threads - 1):
                name = f"t-{uuid.UUID(int=number)}"
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", [(name, *row[1:]) for row in rows])
    return path


def test_waiting_threads(folder: Path, row: Callable[..., None], sized: Callable[[int, int], int]) -> None:
    """Every thread is judged, its waiting node asked in a shadow; a tenth of them needs as much memory."""
    sizes = (sized(THREADS // 10, 5), sized(THREADS, 10))
    seen = []
    for threads in sizes:
        store = multiplied(folder, threads)
        probe = [sys.executable, "-c", PROBE, str(folder), str(store)]
        out = subprocess.run(probe, capture_output=True, text=True, check=True).stdout.split()
        assert int(out[0]) == threads
        seen.append((threads, float(out[1]), float(out[2])))
    (few, least, small), (many, most, large) = seen
    row(
        f"{many} waiting LangGraph threads in a store, each asked by its node",
        f"{most:.1f} s, peak {large:.0f} MiB",
        f"{few}: {least:.1f} s, peak {small:.0f} MiB",
        f"{1000 * most / many:.1f} ms each",
        f"{most / many / (least / few):.2f}, memory {large / small:.2f}",
    )
