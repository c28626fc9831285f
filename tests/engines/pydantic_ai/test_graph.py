"""The checks of waiting graphs against pydantic-graph 1.x itself: each changed graph really loads the file, or not."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import check_resume
from pytest_loom.log.event import Log
from pytest_loom.sources import load_log

graphs: Any = pytest.importorskip("pydantic_graph.graph", reason="graphs of nodes are of pydantic-graph 1.x")
files: Any = pytest.importorskip("pydantic_graph.persistence.file", reason="persistence is of pydantic-graph 1.x")
nodes: Any = pytest.importorskip("pydantic_graph")


LOG: Any = ("log", list[str], field(default_factory=list))
STATE: Any = (("order", str), ("amount", int, 0), LOG)


def graph(
    *,
    fields: Any = (("cents", int),),
    state: Any = STATE,
    names: tuple[str, str] = ("Load", "Charge"),
) -> Any:
    """A graph of two nodes, the second of which says with what it was called."""
    kind = make_dataclass("State", state, kw_only=True)

    async def load(self: Any, ctx: Any) -> Any:
        raise AssertionError("it is done")

    async def charge(self: Any, ctx: Any) -> Any:
        return nodes.End({"node": dict(vars(self)), "state": dict(vars(ctx.state))})

    base = nodes.BaseNode[kind, None, dict]
    made = []
    for name, run, own in ((names[0], load, ()), (names[1], charge, fields)):
        run.__annotations__["return"] = nodes.End[dict]
        cls = make_dataclass(name, own, bases=(base,), namespace={"run": run})
        made.append(cls)
    return graphs.Graph(nodes=made, state_type=kind, run_end_type=dict, name="shop")


@dataclass
class Loaded:
    """What the framework makes of a file: what the next node was given, or that it cannot be loaded."""

    given: Any
    error: str


def loaded(today: Any, path: Path) -> Loaded:
    """Go on with a copy of the file."""

    async def go_on() -> Any:
        async with today.iter_from_persistence(files.FileStatePersistence(path)) as run:
            node = run.next_node
            return {"node": dict(vars(node)), "state": dict(vars(run.state))}

    try:
        return Loaded(asyncio.run(go_on()), "")
    except Exception as problem:
        return Loaded(None, type(problem).__name__)


CHANGES: dict[str, tuple[Callable[[], Any], set[str]]] = {
    "nothing": (graph, set()),
    "field-added": (lambda: graph(fields=(("cents", int), ("currency", str, "EUR"))), set()),
    "field-renamed": (lambda: graph(fields=(("amount", int),)), {"state-type"}),
    "field-renamed-behind-default": (lambda: graph(fields=(("amount", int, 0),)), {"state-key-lost"}),
    "field-retyped": (lambda: graph(fields=(("cents", list[int]),)), {"state-type"}),
    "node-renamed": (lambda: graph(names=("Load", "Bill")), {"frontier-missing"}),
    "finished-node-renamed": (lambda: graph(names=("Fetch", "Charge")), {"frontier-missing"}),
    "key-added": (lambda: graph(state=(*STATE, ("memo", str, ""))), set()),
    "key-renamed": (
        lambda: graph(state=(("order", str), ("cents", int, 0), LOG)),
        {"state-key-lost"},
    ),
    "key-required": (lambda: graph(state=(*STATE, ("customer", str))), {"state-type"}),
    "key-retyped": (lambda: graph(state=(("order", int), ("amount", int, 0), LOG)), {"state-type"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_findings_are_what_the_framework_does(cases: Path, tmp_path: Path, change: str) -> None:
    """Breaking just where the file cannot be loaded, or where the next node would be given something else."""
    path = tmp_path / "suspended.json"
    shutil.copyfile(cases / "corpus" / "pydantic_ai" / "graph_v1" / "suspended.json", path)
    log = load_log(path)
    assert isinstance(log, Log)
    make, codes = CHANGES[change]
    today = make()
    found = check_resume(log, {"shop": today}).findings
    assert {one.code for one in found if one.severity == "breaking"} == codes
    last = json.loads(path.read_bytes())[-1]
    seen = loaded(today, path)
    kept = not seen.error and all(seen.given["node"].get(key) == value for key, value in {"cents": 4999}.items())
    kept = kept and all(seen.given["state"].get(key) == value for key, value in last["state"].items())
    assert kept == (not codes), seen
