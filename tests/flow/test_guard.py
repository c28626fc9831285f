"""The live-call guard: programs, what its errors say, whom it concerns, and sleep."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import importlib
import multiprocessing
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import types
import urllib.request
from asyncio import base_events
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.errors import LiveCallError
from pytest_loom.flow.addresses import plain
from pytest_loom.flow.guard import LIMIT, Refused, active, closed, opened

posix = pytest.mark.skipif(os.name != "posix", reason="only POSIX systems have this")


def connect(place: tuple[str, int]) -> None:
    """Connect a TCP socket without looking anything up."""
    with socket.socket() as sock:
        sock.settimeout(5)
        sock.connect(place)


def run_async(*command: str) -> None:
    """Start a program with asyncio."""

    async def start() -> None:
        process = await asyncio.create_subprocess_exec(*command)
        await process.wait()

    asyncio.run(start())


def fork() -> None:
    """Fork; the child ends at once."""
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)


def start_process(method: str) -> None:
    """Start a process with multiprocessing."""
    context: Any = multiprocessing.get_context(method)
    process = context.Process(target=print)
    process.start()
    process.join()


PROGRAMS: dict[str, tuple[Callable[[], Any], str]] = {
    "run": (lambda: subprocess.run([sys.executable, "-c", "0"], check=True), "start the program "),
    "shell": (lambda: subprocess.run("true secret", shell=True, check=True), r"run a shell command \(true"),
    "popen": (lambda: os.popen("A=secret true").close(), "run a shell command"),
    "asyncio": (lambda: run_async(sys.executable, "-c", "0"), "start the program "),
    "system": (lambda: os.system("true secret"), r"run a shell command \(true"),
    "fork": (fork, "fork a process"),
    "spawnv": (lambda: os.spawnv(os.P_WAIT, "/bin/true", ["true"]), "fork a process"),
    "posix_spawn": (lambda: os.posix_spawn("/bin/true", ["true"], {}), "start the program /bin/true"),
    "multiprocessing-fork": (lambda: start_process("fork"), "start a process"),
    "multiprocessing-spawn": (lambda: start_process("spawn"), "start a process"),
    "kill": (lambda: os.kill(os.getppid(), signal.SIGCONT), "send signal"),
}


class TestPrograms:
    @posix
    @pytest.mark.parametrize("way", PROGRAMS)
    def test_programs_are_not_started(self, way: str) -> None:
        """No process is started, by whatever function, and no argument is shown: it may be secret."""
        start, says = PROGRAMS[way]
        with closed() as guard, pytest.raises(LiveCallError, match=says) as caught:
            start()
        assert guard.calls == [caught.value]
        assert "secret" not in str(caught.value)
        assert caught.value.path == __file__

    @pytest.mark.parametrize(
        ("event", "args"),
        [
            ("os.exec", ("/bin/true", ["true"], None)),
            ("os.forkpty", ()),
            ("os.killpg", (1, 9)),
            ("os.spawn", (0, "true", ["true"], None)),
            ("os.startfile", ("x.txt", "open")),
            ("pty.spawn", (["true"],)),
            ("socket.sethostname", ("x",)),
            ("sys.remote_exec", (1, "x.py")),
            ("winreg.SetValue", (1, "x", 1, "y")),
            ("_winapi.CreateProcess", (None, "true secret", None)),
        ],
    )
    def test_what_cannot_be_tried_here(self, event: str, args: tuple[Any, ...]) -> None:
        """Calls that would end the test, or belong to other systems, are refused by their audit events."""
        with closed() as guard, pytest.raises(LiveCallError) as caught:
            sys.audit(event, *args)
        assert guard.calls == [caught.value]
        assert "secret" not in str(caught.value)

    def test_asking_whether_a_process_lives(self) -> None:
        """Signal 0 and signals to oneself change nothing outside."""
        with closed() as guard:
            os.kill(os.getpid(), 0)
        assert guard.calls == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with something in it."""
    folder = tmp_path / "data"
    (folder / "sub" / "empty").mkdir(parents=True)
    (folder / "sub" / "file").write_text("sub")
    (folder / "file").write_text("text")
    return folder


class TestErrors:
    def test_the_error_says_who_what_where_and_what_to_do(self) -> None:
        """Its first line names file, line, step, function and deed; the second what to do."""

        def book() -> None:
            urllib.request.urlopen("http://name:secret@api.invalid:8080/x?key=secret")

        line = book.__code__.co_firstlineno + 1
        with closed(step=lambda: "assess#2") as guard, pytest.raises(LiveCallError) as caught:
            book()
        first, second = str(caught.value).splitlines()
        assert first.startswith(f"{__file__}:{line}, step assess#2: ")
        assert "book tried to " in first
        assert "secret" not in first + second
        assert "loom_effects" in second
        assert "allow=[" in second
        assert (caught.value.line, caught.value.step) == (line, "assess#2")
        assert guard.calls == [caught.value]

    def test_a_swallowed_error_is_kept(self) -> None:
        """An application that handles every exception cannot hide what it tried."""
        with closed() as guard:
            with contextlib.suppress(Exception):
                connect(("192.0.2.1", 80))
            with contextlib.suppress(Exception):
                Path("loom-guard-never").write_text("x")
        assert [re.sub(r".* tried to (\w+) .*", r"\1", call.what) for call in guard.calls] == ["connect", "write"]

    def test_endless_retries_are_stopped(self) -> None:
        """A loop that goes on after every exception gets one that it cannot handle."""
        tries: list[int] = []

        def retry() -> None:
            while len(tries) < 10 * LIMIT:
                tries.append(1)
                with contextlib.suppress(Exception):
                    connect(("192.0.2.1", 80))

        with closed() as guard, pytest.raises(Refused) as caught:
            retry()
        assert len(tries) == LIMIT + 1
        assert caught.value.error is guard.calls[-1]
        assert not isinstance(caught.value, Exception)
        with closed(), pytest.raises(LiveCallError):  # another block counts anew
            connect(("192.0.2.1", 80))

    def test_odd_names_cannot_forge_lines(self) -> None:
        """A path with line breaks is shown on one line."""
        with closed(), pytest.raises(LiveCallError) as caught:
            Path("x\ny\x1b[31m").write_text("x")
        assert len(str(caught.value).splitlines()) == 2
        assert "\x1b" not in str(caught.value)

    @pytest.mark.parametrize(
        "text",
        ["postgresql://me:hunter2@db/x", "host=db password=hunter2 port=1", "x?api_key=hunter2&y=1", "pwd='hunter2'"],
    )
    def test_passwords_are_masked(self, text: str) -> None:
        """What is printed shows no password of a URL, a connection string or a query."""
        assert "hunter2" not in plain(text)
        assert "***" in plain(text)


class TestContexts:
    def test_outside_nothing_is_different(self, folder: Path) -> None:
        """Before, after and between blocks everything works, with the hook installed or not."""
        with closed():
            pass
        listener = socket.create_server(("127.0.0.1", 0))
        connect(listener.getsockname())
        (folder / "file").write_text("new")
        assert (
            subprocess.run([sys.executable, "-c", "print(7)"], capture_output=True, check=True).stdout.strip() == b"7"
        )
        with listener, closed(), opened():
            connect(listener.getsockname())
            (folder / "file").write_text("newer")
        assert (folder / "file").read_text() == "newer"

    def test_opened_ends(self, folder: Path) -> None:
        """After opened() the guard is as it was."""
        with closed() as guard:
            with opened():
                assert active() is None
            assert active() is guard
            with pytest.raises(LiveCallError):
                (folder / "file").write_text("x")

    def test_other_threads_and_tasks_are_unaffected(self, folder: Path) -> None:
        """Only code of the block's context is judged; a thread is when it is given that context."""
        errors: list[BaseException] = []

        def write(name: str) -> None:
            try:
                (folder / name).write_text("x")
            except BaseException as error:
                errors.append(error)

        def run(work: Callable[[], None]) -> None:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()

        with closed() as guard:
            run(lambda: contextvars.Context().run(write, "free"))
            assert errors == []
            context = contextvars.copy_context()
            run(lambda: context.run(write, "judged"))
            assert errors == guard.calls
            assert len(errors) == 1

        async def main() -> None:
            inside, done = asyncio.Event(), asyncio.Event()

            async def judged() -> None:
                with closed():
                    inside.set()
                    await done.wait()
                    with pytest.raises(LiveCallError):
                        (folder / "task").write_text("x")

            task = asyncio.create_task(judged())
            await inside.wait()
            (folder / "other").write_text("x")
            done.set()
            await task

        asyncio.run(main())

    def test_two_threads_with_blocks_of_their_own(self, folder: Path) -> None:
        """Blocks that are open at the same time keep their rules and their calls apart."""
        barrier = threading.Barrier(2)
        found: dict[str, list[str]] = {}
        slept: list[float] = []

        def work(mine: str, other: str) -> None:
            with closed(writable=[folder / mine]) as guard:
                barrier.wait(5)
                (folder / mine).write_text("x")
                with contextlib.suppress(LiveCallError):
                    (folder / other).write_text("x")
                time.sleep(0.25)
                barrier.wait(5)
            found[mine] = [call.what for call in guard.calls]
            slept.append(guard.slept)

        threads = [threading.Thread(target=work, args=pair) for pair in (("one", "two"), ("two", "one"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert {name: len(calls) for name, calls in found.items()} == {"one": 1, "two": 1}
        assert "two" in found["one"][0]
        assert slept == [0.25, 0.25]

    def test_nested_blocks(self, folder: Path) -> None:
        """The inner block decides and counts alone; after it the outer one does again."""
        with closed() as outer:
            with closed(writable=[folder]) as inner:
                (folder / "file").write_text("x")
                with pytest.raises(LiveCallError):
                    connect(("192.0.2.1", 80))
            with pytest.raises(LiveCallError):
                (folder / "file").write_text("x")
        assert (len(inner.calls), len(outer.calls)) == (1, 1)

    def test_what_outlives_its_block(self, folder: Path) -> None:
        """A context that was made in a block which is over is judged by the block around that, if any."""
        with closed() as outer:
            with closed():
                left = contextvars.copy_context()
            with pytest.raises(LiveCallError):
                left.run((folder / "file").write_text, "x")
            assert len(outer.calls) == 1
        with closed():
            left.run((folder / "file").write_text, "free")
        assert (folder / "file").read_text() == "free"

    def test_a_block_that_ends_in_another_context(self, folder: Path) -> None:
        """A block that is begun and ended in different contexts is over all the same."""
        begun = contextvars.copy_context()
        block = closed()
        begun.run(block.__enter__)
        assert begun.run(active) is not None
        block.__exit__(None, None, None)
        assert begun.run(active) is None

    def test_nothing_stays_patched(self, folder: Path) -> None:
        """After the last block every wrapped name is the very object that it was."""
        owners: list[Any] = [
            time,
            socket,
            socket.socket,
            ssl.SSLSocket,
            base_events.BaseEventLoop,
            multiprocessing.process.BaseProcess,
            importlib.import_module("multiprocessing.util"),
        ]
        before = [dict(vars(owner)) for owner in owners]
        finders = list(sys.meta_path)
        with closed():
            during = [dict(vars(owner)) for owner in owners]
            with contextlib.suppress(ValueError), closed():
                raise ValueError
            assert [dict(vars(owner)) for owner in owners] == during
        assert all(now != then for now, then in zip(during, before, strict=True))
        assert [dict(vars(owner)) for owner in owners] == before
        assert sys.meta_path == finders


class TestSleep:
    def test_a_run_does_not_wait(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """time.sleep returns at once in a run and is summed up; elsewhere it sleeps."""
        real: list[float] = []
        monkeypatch.setattr(time, "sleep", real.append)
        with closed() as guard:
            time.sleep(3600)
            time.sleep(0.5)
            with opened():
                time.sleep(2)
        time.sleep(3)
        assert guard.slept == 3600.5
        assert [seconds for seconds in real if seconds] == [2, 3]

    def test_a_module_that_took_sleep_for_itself_does_not_wait_either(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """``from time import sleep`` holds a reference of its own, made long before the block."""
        real: list[float] = []
        monkeypatch.setattr(time, "sleep", real.append)
        module = types.ModuleType("polite")
        exec("from time import sleep", module.__dict__)
        monkeypatch.setitem(sys.modules, "polite", module)
        with closed() as guard:
            module.sleep(60)
        module.sleep(1)
        assert (guard.slept, [seconds for seconds in real if seconds]) == (60, [1])

    def test_a_wrong_sleep_is_still_wrong(self) -> None:
        """What the real one refuses is refused."""
        with closed() as guard:
            with pytest.raises(ValueError, match="negative"):
                time.sleep(-1)
            with pytest.raises(TypeError):
                time.sleep("1")  # type: ignore[arg-type]
        assert guard.slept == 0
