"""What really becomes of the run of a case, on the code that recorded it and on today's; and what a simulation says.

    python truth.py resume CASE ...      resumes the run on either side
    python truth.py simulate CASE ...    simulate_deploy on today's flows, with yesterday's contracts

prints one JSON line a case. Every side is done in a process of its own, since both sides call their module ``app``;
effects are the lines that the application writes to the file named by EFFECTS_LOG.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import sys
import tempfile
import tomllib
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest_loom
from pytest_loom import Contract, Log, contract_of, load_log, load_logs, migrate, resume, resume_as, simulate_deploy

Facts = dict[str, Any]

for _name in pytest_loom.__all__:  # loaded once here, not in each process
    getattr(pytest_loom, _name)


def main(what: str, cases: list[str]) -> None:
    """Print what becomes of each case."""
    for case in map(Path, cases):
        facts = resumed(case) if what == "resume" else simulated(case)
        print(json.dumps({"case": case.name, **facts}), flush=True)


def resumed(case: Path) -> Facts:
    """The runs of a case on either side: ``{"old", "new"}``, and ``carried`` where the case says how they can be."""
    spec = tomllib.loads((case / "case.toml").read_text(encoding="utf-8"))
    facts = {side: apart(carry_on, case, side, spec, False) for side in ("old", "new")}
    if spec["resume"].get("carried"):
        facts["carried"] = apart(carry_on, case, "new", spec, True)
    return facts


def simulated(case: Path) -> Facts:
    """The report of a deploy simulation of a case, and the effects that it had."""
    return apart(simulate, case, "new", apart(contracts, case, "old"))


# Each in a process of its own ----------------------------------------------------------------------------------------


def carry_on(case: Path, side: str, spec: Facts, transforms: bool) -> Facts:
    """Resume each run of the store with the answers of the case: ``{"runs": {execution id: facts}}``."""
    app = application(case, side)
    before = case / "before"  # what the old code knew, where the store was carried over to today's already
    store = before if side == "old" and before.is_dir() else case / "store"
    runs = {}
    for path in sorted(store.iterdir()):
        execution = path.name.partition(".")[0]
        runs[execution] = one_run(path, app, spec["resume"].get("answers", []), transforms)
    return {"runs": runs}


def one_run(path: Path, app: Any, answers: list[Facts], transforms: bool) -> Facts:
    """What happened to one run: effects, status, output, waits that are open, what whoever decides saw, the error."""
    Path(os.environ["EFFECTS_LOG"]).write_text("", encoding="utf-8")
    facts: Facts = {"error": "", "shown": "", "status": "", "output": None, "pending": []}
    log = None
    try:
        log = load_log(path)
        flow = app.flows.get(log.workflow_id)
        if flow is not None:  # nobody picks it up, else
            facts["shown"] = shown(log, flow, app)
            if transforms:
                log = resume_as(log, flow, transform_state=app.transform_state)
            for answer in answers or [{}]:  # without one it goes on after a crash
                log = resume(log, flow, **answer)
    except Exception as problem:
        said = problem.what if isinstance(problem, pytest_loom.LoomError) else str(problem)
        first = said.replace(os.environ["EFFECTS_LOG"], "EFFECTS_LOG").partition("\n")[0]
        facts["error"] = f"{type(problem).__name__}: {first}"
    facts["effects"] = Path(os.environ["EFFECTS_LOG"]).read_text(encoding="utf-8").splitlines()
    if log is None:
        return facts
    try:
        state = log.state
    except pytest_loom.LogError:  # said already
        return facts
    facts["status"] = state.status
    facts["output"] = state.variables.get("_output")
    facts["pending"] = [str(wait.on) for wait in state.suspensions]
    failed = state.variables.get("_error")
    if failed:
        facts["error"] = f"{failed['type']}: {failed['message']}"
    return facts


def shown(log: Log, flow: Any, app: Any) -> str:
    """What whoever decides is shown of the saved state: read as pytest-loom reads it, in today's version."""
    if log.state.state is None or not hasattr(app, "page"):
        return ""
    state = migrate("state", log.state.state, log.state.state_schema_version, flow.versions["state"])
    return str(app.page(state))


def contracts(case: Path, side: str) -> Facts:
    """The contracts of a side's flows, as JSON."""
    flows = application(case, side).flows
    return {name: contract_of(flow).model_dump(mode="json", by_alias=True) for name, flow in flows.items()}


def simulate(case: Path, side: str, yesterday: Facts) -> Facts:
    """What a simulation says of a side's flows."""
    flows = application(case, side).flows
    known = {name: Contract.model_validate(data) for name, data in yesterday.items()}
    facts: Facts = {"error": "", "ok": False, "findings": []}
    try:
        report = simulate_deploy(load_logs(str(case / "store" / "*")), flows, contract=known)
        facts |= {"ok": report.ok, "findings": [finding.as_dict() for finding in report.findings]}
    except Exception as problem:
        facts["error"] = f"{type(problem).__name__}: {problem}"
    effects = Path(os.environ["EFFECTS_LOG"])
    return {**facts, "effects": effects.read_text(encoding="utf-8").splitlines() if effects.exists() else []}


def application(case: Path, side: str) -> Any:
    """The application's module, with its folder as the first place to import from."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(case / side))
    return importlib.import_module("app")


def apart(work: Callable[..., Facts], *arguments: Any) -> Facts:
    """What ``work(*arguments)`` gives in a new process, with a file of its own for the effects."""
    methods = multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        process = context.Process(target=_work, args=(sender, str(Path(folder, "effects.log")), work, arguments))
        process.start()
        sender.close()
        try:
            facts: Facts = receiver.recv()
        except EOFError:
            process.join()
            raise SystemExit(f"{work.__name__}{arguments[:2]} ended with status {process.exitcode}") from None
        process.join()
    return facts


def _work(sender: Connection, effects: str, work: Callable[..., Facts], arguments: tuple[Any, ...]) -> None:
    os.environ["EFFECTS_LOG"] = effects
    sender.send(work(*arguments))
    sender.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
