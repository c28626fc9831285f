"""Clients that leave Python without its sockets: how the guard shuts their doors."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.errors import LiveCallError
from pytest_loom.flow import clients
from pytest_loom.flow.guard import closed, opened

CLIENT = """
from datetime import date as Fixed  # a class of C, which cannot be changed

def connect(*args, **kwargs): return "live"

class Client:
    def __init__(self, place=""): self.place = place
    def call(self, *args, **kwargs): return "live"
    @classmethod
    def open(cls, *args, **kwargs): return cls, "live"
    @staticmethod
    def dial(*args, **kwargs): return "live"

class Async(Client):
    async def go(self, *args): return "live"
"""


class TestClients:
    @pytest.fixture
    def name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
        """The name of a module that stands for a client of C, listed like the well-known ones."""
        name = "loom_guard_client"
        (tmp_path / f"{name}.py").write_text(CLIENT)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        names = ("connect", "Client.call", "Client.open", "Client.dial", "Async.go", "Async.open", "Fixed.isoformat")
        monkeypatch.setattr(clients, "CLIENTS", {name: (*names, "gone", "Gone.call")})
        yield name
        sys.modules.pop(name, None)

    @pytest.mark.parametrize("early", [True, False])
    def test_its_entry_points_are_refused(self, name: str, early: bool) -> None:
        """Functions and methods of any kind are wrapped, be the module imported before the block or in it."""
        if early:
            importlib.import_module(name)
        with closed() as guard:
            module = importlib.import_module(name)
            calls: list[Callable[[], Any]] = [
                lambda: module.connect("db:5432"),
                lambda: module.Client().call(),
                lambda: module.Client.open(),
                lambda: module.Client().open(),
                lambda: module.Client.dial(),
                lambda: asyncio.run(module.Async().go()),
                lambda: module.Async.open(),
                lambda: module.Fixed(2020, 1, 1).isoformat(),
            ]
            for call in calls:
                with pytest.raises(LiveCallError, match=f"through {name} during replay"):
                    call()
            with opened():
                assert module.connect() == module.Client().call() == module.Client.dial() == "live"
                assert module.Async.open() == (module.Async, "live")
                assert module.Fixed(2020, 1, 1).isoformat() == "2020-01-01"
        assert len(guard.calls) == len(calls)
        assert guard.calls[0].what.endswith(f"connect to db:5432 through {name} during replay")

    def test_nothing_of_it_stays_wrapped(self, name: str) -> None:
        """After the block the module is as it was, and an inherited method is inherited again."""
        module = importlib.import_module(name)
        before = [dict(vars(owner)) for owner in (module, module.Client, module.Async)]
        fixed = module.Fixed
        with closed():
            assert module.Fixed is not fixed
            assert issubclass(module.Fixed, fixed)
        assert [dict(vars(owner)) for owner in (module, module.Client, module.Async)] == before
        assert module.Client().call() == "live"

    @pytest.mark.parametrize("entry", ["loom_guard_client", "db:5432", "db"])
    def test_it_may_be_allowed(self, name: str, entry: str) -> None:
        """By the package's name, or by the address that a call names."""
        with closed(allow=[entry]) as guard:
            assert importlib.import_module(name).connect("postgresql://me:x@db:5432/data") == "live"
        assert guard.calls == []

    def test_an_address_that_is_not_named_is_not_allowed(self, name: str) -> None:
        """Where a call does not say where it goes, only the package can be allowed."""
        with closed(allow=["db", "loopback"]) as guard:
            module = importlib.import_module(name)
            for call in (module.connect, module.Client("db").call):
                with pytest.raises(LiveCallError, match="call "):
                    call()
        assert len(guard.calls) == 2

    def test_importing_the_guard_imports_no_client(self) -> None:
        """Waiting for a package neither imports it nor finds out whether it is there."""
        code = (
            "import sys; from pytest_loom.flow import clients, guard\n"
            "with guard.closed(): pass\n"
            "assert not {name.partition('.')[0] for name in clients.CLIENTS} & set(sys.modules)"
        )
        subprocess.run([sys.executable, "-c", code], check=True)

    @pytest.mark.parametrize(
        ("args", "kwargs", "place"),
        [
            (("host=db port=1 password='a host=evil'",), {}, ("db", 1)),
            (("host=db hostaddr=10.0.0.1",), {}, ("10.0.0.1", None)),
            (("dbname=x user=y",), {}, None),
            (("postgresql://me:pw@db:5432/x",), {}, ("db", 5432)),
            (("postgresql://db/x?host=evil",), {}, None),
            (("postgresql:///x",), {}, None),
            (("redis://db:port",), {}, None),
            (("tcp://127.0.0.1:5555",), {}, ("127.0.0.1", 5555)),
            (("ipc:///run/s",), {}, ("/run/s", None)),
            (("db:1521/service",), {}, ("db", 1521)),
            ((object(), "db", 80), {}, ("db", 80)),
            ((object(), "GET", "https://db/x"), {}, ("db", None)),
            (("ignored",), {"host": "db", "port": "3306"}, ("db", 3306)),
            ((), {"server": "db"}, ("db", None)),
            ((), {"dsn": "db:1521/x"}, ("db", 1521)),
            (("db1,db2",), {}, None),
            ((), {}, None),
        ],
    )
    def test_where_a_call_goes(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], place: tuple[str, int | None] | None
    ) -> None:
        """Addresses are read out of the usual arguments; what is not said plainly is not guessed."""
        assert clients.target(args, kwargs) == place
