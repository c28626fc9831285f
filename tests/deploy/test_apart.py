"""Running code apart: it answers, or is said not to have; and whatever it does stays in its process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.deploy import apart as module
from pytest_loom.deploy.apart import Unanswered, apart

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot copy a process")


def test_it_answers_and_changes_nothing_here() -> None:
    """The value comes back as JSON data; what the code did to objects stays with the copy."""
    seen: list[int] = []

    def work() -> Any:
        seen.append(1)
        return {"seen": seen, "pid": os.getpid() != parent}

    parent = os.getpid()
    assert apart(work) == {"seen": [1], "pid": True}
    assert seen == []


def raising() -> Any:
    """Fails."""
    raise ValueError("no")


def hanging() -> Any:
    """Never ends."""
    while True:
        pass


def dying() -> Any:
    """Ends its process."""
    os._exit(3)


def unsayable() -> Any:
    """Gives what JSON cannot say."""
    return object()


def swallowing() -> Any:
    """Tries the network, and hides it."""
    try:
        socket.create_connection(("127.0.0.1", 9))
    except Exception:
        return "fine"
    return "connected"


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (raising, "ValueError: no"),
        (hanging, "took longer than 0.5 seconds"),
        (dying, "its process died"),
        (unsayable, "its process died"),
        (swallowing, "tried to connect"),
    ],
)
def test_what_does_not_answer_is_said_and_killed(work: Callable[[], Any], why: str) -> None:
    """An exception, a hang, a death and a swallowed live call: no answer is taken for one."""
    with pytest.raises(Unanswered, match=why):
        apart(work, timeout=0.5 if work is hanging else 10)


def test_no_file_changes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither by Python nor by a library in C, nor through a file that was open before; and nothing is printed."""
    target = tmp_path / "effects.log"
    database = tmp_path / "db.sqlite"
    before = sqlite3.connect(database)
    before.execute("create table t (x)")
    before.commit()
    kept = database.read_bytes()
    log = (tmp_path / "open.log").open("a")

    def attempt(deed: Callable[[], Any]) -> str:
        try:
            deed()
        except Exception as problem:
            return type(problem).__name__
        return "done"

    def insert() -> None:
        before.execute("insert into t values (1)")
        before.commit()

    def append() -> None:
        log.write("x")
        log.flush()

    def work() -> Any:
        print("out")
        os.write(2, b"err")
        return [attempt(insert), attempt(append)]

    assert apart(work)[0] != "done"
    with pytest.raises(Unanswered, match=r"effects\.log"):
        apart(lambda: attempt(lambda: target.write_text("x")))
    log.close()
    before.close()
    assert not target.exists()
    assert (tmp_path / "open.log").read_text() == ""
    assert database.read_bytes() == kept
    assert capfd.readouterr() == ("", "")


def test_what_was_open_leads_nowhere() -> None:
    """An event loop that ends in the child still wakes here, and a connection carries nothing from the child."""
    loop = asyncio.new_event_loop()
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()

    def work() -> Any:
        loop.close()
        with contextlib.suppress(Exception):
            os.write(ours.fileno(), b"goodbye")
        os.write(writing, b"goodbye")
        return 1

    async def wake() -> str:
        return await loop.run_in_executor(None, lambda: "awake")

    try:
        assert apart(work) == 1
        for stream in (theirs.fileno(), reading):
            os.set_blocking(stream, False)
            with pytest.raises(BlockingIOError):
                os.read(stream, 100)
        assert loop.run_until_complete(asyncio.wait_for(wake(), 20)) == "awake"
    finally:
        loop.close()
        ours.close()
        theirs.close()
        os.close(reading)
        os.close(writing)


def test_the_environment_is_empty_and_who_asks_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets are not there; that code asked for one, or for one that is not set here, can be told."""
    monkeypatch.setenv("BANK_KEY", "secret")

    def work() -> Any:
        found = [os.environ.get("BANK_KEY"), os.getenv("LOOM_NO_SUCH_FLAG"), bool(os.environ.get("PATH"))]
        return [*found, sorted(set(module.missed))]

    assert apart(work) == [None, None, True, ["BANK_KEY", "LOOM_NO_SUCH_FLAG"]]
    assert os.environ["BANK_KEY"] == "secret"
    assert module.missed == []


def test_no_child_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed child is waited for: there is no such process any more."""
    children: list[int] = []
    fork = os.fork

    def noted() -> int:
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(os, "fork", noted)
    with pytest.raises(Unanswered):
        apart(hanging, timeout=0.2)
    (child,) = children
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_sleeping_code_does_not_wait() -> None:
    """The guard skips sleeps, so that a polite loop ends."""

    def work() -> Any:
        time.sleep(3600)
        return sys.platform

    assert apart(work) == sys.platform
