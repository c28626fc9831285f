"""Leave a return waiting anew, with last week's graph: ``python make_returns.py [FOLDER]``. It needs LangGraph."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

from langgraph.checkpoint.sqlite import SqliteSaver

from returns_v1.graph import builder


def make_store(folder: Path) -> None:
    """Let last week's graph work up to its question, on a store of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "returns.sqlite"
    path.unlink(missing_ok=True)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        builder.compile(checkpointer=saver).invoke({"order": "A-17"}, {"configurable": {"thread_id": "return-17"}})
    kept = sqlite3.connect(path)
    kept.execute("PRAGMA journal_mode=DELETE")  # one file, without the log of a database that is in use
    kept.close()


if __name__ == "__main__":
    make_store(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "tests" / "logs" / "returns")
