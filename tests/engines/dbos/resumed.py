"""A process with the real DBOS: starts a run and dies while it waits, or recovers one and tells what came of it.

    python resumed.py start FLOW ARGS        in a folder with desk_app.py; ARGS is a JSON list
    python resumed.py send MESSAGES          a JSON list of [topic, text]: left in the store, nobody is there to read it
    python resumed.py resume MESSAGES        one JSON line: status, output, error, effects

The environment: DESK_DATABASE, DESK_EFFECTS.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

RUN = "run-1"
OVER = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")


def main(what: str, *arguments: str) -> None:
    """Do what the first word says, and end without any cleaning up, as a killed process does."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(Path.cwd()))
    if what == "send":
        from dbos import DBOSClient

        client = DBOSClient(system_database_url=os.environ["DESK_DATABASE"])
        for topic, text in json.loads(arguments[0]):
            client.send(RUN, text, topic)
        os._exit(0)
    import desk_app  # type: ignore[import-not-found]
    from dbos import DBOS, SetWorkflowID

    if what == "resume":
        _wake()
    DBOS(config={**desk_app.config, "run_admin_server": False, "log_level": "CRITICAL"})
    DBOS.launch()
    if what == "start":
        flow, given = desk_app.flows[arguments[0]], json.loads(arguments[1])
        with SetWorkflowID(RUN):
            if hasattr(flow, "__wrapped__") and __import__("inspect").iscoroutinefunction(flow.__wrapped__):
                import asyncio

                asyncio.run(DBOS.start_workflow_async(flow, *given))
            else:
                DBOS.start_workflow(flow, *given)
        _settle(lambda: _waits())
        os._exit(0)
    print(json.dumps(_resumed(DBOS, json.loads(arguments[0]))), flush=True)
    os._exit(0)


def _resumed(dbos: Any, messages: list[list[str]]) -> dict[str, Any]:
    time.sleep(1.0)
    for topic, text in messages:
        dbos.send(RUN, text, topic)
    _settle(lambda: dbos.get_workflow_status(RUN).status in OVER, 8.0)
    status = dbos.get_workflow_status(RUN)
    effects = Path(os.environ["DESK_EFFECTS"])
    return {
        "status": status.status,
        "output": status.output if status.status == "SUCCESS" else None,
        "error": f"{type(status.error).__name__}: {status.error}" if status.error else "",
        "effects": effects.read_text().splitlines() if effects.exists() else [],
    }


def _waits() -> bool:
    from dbos import DBOS

    return any(step["function_name"] == "DBOS.sleep" for step in DBOS.list_workflow_steps(RUN))


def _wake() -> None:
    """A plain sleep is over by the time that the run is recovered: a sleep of which nothing is received."""
    file = os.environ["DESK_DATABASE"].removeprefix("sqlite:///")
    query = """UPDATE operation_outputs SET output = ? WHERE function_name = 'DBOS.sleep' AND EXISTS (
        SELECT 1 FROM operation_outputs AS before WHERE before.workflow_uuid = operation_outputs.workflow_uuid
        AND before.function_id = operation_outputs.function_id - 1 AND before.function_name NOT LIKE 'DBOS.%')"""
    with sqlite3.connect(file) as connection:
        connection.execute(query, ("1.0",))


def _settle(there: Any, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not there() and time.monotonic() < until:
        time.sleep(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
