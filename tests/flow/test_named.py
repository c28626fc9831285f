"""``loom_effects``: callables of an application that is not edited become effects of the runs that call them."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import pickle
import random
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import pytest_loom.flow
from pytest_loom.errors import FlowError, RecordingError
from pytest_loom.flow.api import record, replay
from pytest_loom.flow.named import itself, named_effects
from pytest_loom.flow.values import plain

APP = {
    "llm": """
        import functools
        from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
        from contextlib import contextmanager
        from dataclasses import dataclass

        LIVE = []  # every live call

        @dataclass
        class Reply:
            text: str

        def complete(prompt: str, /, model: str = "m1", *, top: int = 3) -> Reply:
            "Ask the model."
            LIVE.append(("complete", prompt))
            return Reply(f"{prompt}@{model}/{top}")

        async def acomplete(prompt: str) -> Reply:
            LIVE.append(("acomplete", prompt))
            return Reply(prompt.upper())

        def tokens(text: str, fail: bool = False) -> Iterator[str]:
            try:
                for word in text.split():
                    LIVE.append(("tokens", word))
                    yield word
                if fail:
                    raise ValueError("no more")
            finally:
                LIVE.append(("tokens", "closed"))

        async def atokens(text: str, fail: bool = False) -> AsyncIterator[Reply]:
            try:
                for word in text.split():
                    LIVE.append(("atokens", word))
                    yield Reply(word)
                if fail:
                    raise ValueError("no more")
            finally:
                LIVE.append(("atokens", "closed"))

        async def chat(text: str) -> AsyncIterator[Reply]:
            LIVE.append(("chat", text))
            return atokens(text)

        def later(prompt: str) -> Awaitable[Reply]:
            return acomplete(prompt)

        def timed(fn):
            @functools.wraps(fn)
            def wrapper(*args, **kwargs):
                LIVE.append(("timed", fn.__name__))
                return fn(*args, **kwargs)
            return wrapper

        @timed
        def search(query: str, limit: int = 10) -> list[str]:
            return [query] * min(limit, 2)

        @timed
        async def asearch(query: str) -> list[str]:
            return [query]

        def counter(start: int):
            count = start
            def up(by: int = 1) -> int:
                nonlocal count
                count += by
                LIVE.append(("up", count))
                return count
            return up

        up = counter(10)

        def many(first, *rest, key=None, **more):
            LIVE.append(("many", first))
            return [first, list(rest), key, more]

        def fact(n: int) -> int:
            LIVE.append(("fact", n))
            return 1 if n < 2 else n * fact(n - 1)

        def fails(code: int) -> None:
            LIVE.append(("fails", code))
            raise KeyError(code)

        def appends(items: list) -> int:
            items.append(1)
            return len(items)

        @functools.cache
        def cached(key: str) -> str:
            LIVE.append(("cached", key))
            return key + "!"

        def talk():
            got = yield 1
            LIVE.append(("talk", got))
            yield got
            return "end"

        def guessed(x: "NotImported") -> "NotImported":
            LIVE.append(("guessed", x))
            return [x]

        def shown(x: "NotImported") -> Reply:
            return Reply(x)

        def make():
            @dataclass
            class Local:
                text: str
            def local(text: str) -> "Local":
                return Local(text)
            return local

        local = make()

        def hidden(x: str):
            return acomplete(x)

        @contextmanager
        def session():
            yield 1

        bound = functools.partial(complete, model="p")

        def _private():
            return 1
    """,
    "client": """
        import functools
        import time
        from loomapp.llm import LIVE, Reply

        class Base:
            def __init__(self, name: str = "c") -> None:
                self.name = name

            def ping(self, n: int = 1) -> str:
                LIVE.append(("ping", self.name))
                return self.name * n

        class Client(Base):
            def fetch(self, url: str, *, retries: int = 2) -> Reply:
                LIVE.append(("fetch", url))
                return Reply(self.name + url)

            async def afetch(self, url: str) -> Reply:
                LIVE.append(("afetch", url))
                return Reply(url)

            def who(self) -> str:
                return "client " + super().ping()

            @staticmethod
            def parse(text: str) -> list[str]:
                LIVE.append(("parse", text))
                return text.split()

            @classmethod
            def version(cls, major: int) -> str:
                LIVE.append(("version", cls.__name__))
                return f"{cls.__name__}-{major}"

            @property
            def size(self) -> int:
                return 1

        class Tools:
            clock = time.time
            plain_len = staticmethod(len)
            @functools.lru_cache
            def cached(self, key: str) -> str:
                LIVE.append(("Tools.cached", key))
                return key * 2
            @staticmethod
            @functools.cache
            def static(key: str) -> str:
                LIVE.append(("Tools.static", key))
                return key * 3

        class More(Tools):
            pass

        class Caller:
            def __init__(self, name):
                self.name = name
            def __call__(self, x: int) -> int:
                LIVE.append((self.name, x))
                return x + 1

        first = Caller("first")
        second = Caller("second")
        client = Client()
        fetch = client.fetch
    """,
    "use": """
        import functools
        import time as clock
        from time import time
        from loomapp.llm import cached, complete, search as find
        from loomapp.client import Client, first

        CALLERS = [first]
        TOOLS = [complete, find]
        BY_NAME = {"complete": complete}
        PARTIAL = functools.partial(complete, model="partial")
        CLIENT = Client("u")
        BOUND = CLIENT.fetch

        def default(prompt, fn=complete) -> str:
            return fn(prompt).text

        def now():
            return clock.time()
    """,
    "empty": "from loomapp.llm import complete\nVALUE = 1\n",
    "broken": "import nothing_of_this_name_exists\n",
}


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The application, freshly imported, as a namespace of its modules."""
    folder = tmp_path / "loomapp"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for name, text in APP.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    yield SimpleNamespace(**{name: importlib.import_module(f"loomapp.{name}") for name in ("llm", "client", "use")})
    for name in [name for name in sys.modules if name.partition(".")[0] == "loomapp"]:
        del sys.modules[name]


class Tape:
    """A seam that keeps what it records in a list, and answers from that list when it is replayed."""

    def __init__(self, played: list[dict[str, Any]] | None = None) -> None:
        self.played = played
        self.effects: list[dict[str, Any]] = []
        self.opened: list[Any] = []  # kept, so that nothing is closed by being forgotten
        self.going: ContextVar[bool] = ContextVar("going", default=False)
        self.Wire = SimpleNamespace

    @contextmanager
    def run(self) -> Iterator[None]:
        """What runs in the block is the run's own code."""
        token = self.going.set(True)
        try:
            yield
        finally:
            self.going.reset(token)

    @contextmanager
    def live(self) -> Iterator[None]:
        """What runs in the block is a live body."""
        token = self.going.set(False)
        try:
            yield
        finally:
            self.going.reset(token)

    def in_run(self) -> bool:
        """As the seam's."""
        return self.going.get()

    def begin(self, kind: str, name: str, request: Any) -> tuple[dict[str, Any], bool]:
        """Note what is asked, or check it against what was; gives the effect and whether it was recorded."""
        said = plain(request, f"{kind} {name}: what is asked")
        asked = json.loads(json.dumps({"kind": kind, "name": name, "request": said}, allow_nan=False))
        if self.played is not None:
            effect = self.played[len(self.effects)]
            assert {key: effect[key] for key in asked} == asked
        else:
            effect = asked
        self.effects.append(effect)
        return effect, self.played is not None

    @staticmethod
    def answer(effect: dict[str, Any], wire: Any) -> Any:
        """What a recorded effect gives."""
        if "error" in effect:
            raise effect["error"]
        return wire.load(effect["output"])

    def call(self, kind: str, name: str, request: Any, live: Callable[[], Any], wire: Any) -> Any:
        """As the seam's."""
        effect, is_played = self.begin(kind, name, request)
        if not is_played:
            try:
                with self.live():
                    effect["output"] = wire.dump(live())
            except Exception as problem:
                effect["error"] = problem
        return self.answer(effect, wire)

    async def acall(self, kind: str, name: str, request: Any, live: Callable[[], Awaitable[Any]], wire: Any) -> Any:
        """As the seam's."""
        effect, is_played = self.begin(kind, name, request)
        await asyncio.sleep(0)
        if not is_played:
            try:
                with self.live():
                    effect["output"] = wire.dump(await live())
            except Exception as problem:
                effect["error"] = problem
        return self.answer(effect, wire)

    def stream(self, kind: str, name: str, request: Any, live: Callable[[], Iterable[Any]], wire: Any) -> Iterator[Any]:
        """As the seam's."""
        effect, is_played = self.begin(kind, name, request)

        def pieces() -> Iterator[Any]:
            if is_played:
                yield from map(wire.load, effect["stream"])
                if "error" in effect:
                    raise effect["error"]
                return
            effect["stream"] = []
            with self.live():
                source = live()
            try:
                for piece in source:
                    effect["stream"].append(wire.dump(piece))
                    yield piece
            except Exception as problem:
                effect["error"] = problem
                raise
            finally:
                source.close()  # type: ignore[attr-defined]

        self.opened.append(pieces())
        return self.opened[-1]  # type: ignore[no-any-return]

    async def astream(self, kind: str, name: str, request: Any, live: Callable[[], Any], wire: Any) -> Any:
        """As the seam's."""
        effect, is_played = self.begin(kind, name, request)
        opened: Any = None
        if not is_played:
            with self.live():
                opened = live()
                if inspect.isawaitable(opened):
                    opened = await opened

        async def pieces(source: AsyncIterable[Any]) -> AsyncIterator[Any]:
            if is_played:
                for piece in effect["stream"]:
                    yield wire.load(piece)
                if "error" in effect:
                    raise effect["error"]
                return
            effect["stream"] = []
            try:
                async for piece in source:
                    effect["stream"].append(wire.dump(piece))
                    yield piece
            except Exception as problem:
                effect["error"] = problem
                raise
            finally:
                await source.aclose()  # type: ignore[attr-defined]

        self.opened.append(pieces(opened))
        return self.opened[-1]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Tape], Tape]:
    """Put a tape where the seam is."""

    def put(tape: Tape) -> Tape:
        monkeypatch.setitem(sys.modules, "pytest_loom.flow.seam", tape)
        monkeypatch.setattr(pytest_loom.flow, "seam", tape, raising=False)
        return tape

    return put


Both = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def both(app: SimpleNamespace, use: Callable[[Tape], Tape]) -> Both:
    """``both(names, body)`` runs the body once recorded and once replayed, with nothing live and the same results."""

    def go(names: list[str], body: Callable[[], Any], live: int | None = None) -> list[dict[str, Any]]:
        tape = use(Tape())
        with named_effects(names), tape.run():
            recorded = body()
        calls = len(app.llm.LIVE)
        assert live is None or calls == live
        again = use(Tape(tape.effects))
        with named_effects(names), again.run():
            replayed = body()
        assert len(app.llm.LIVE) == calls, f"live in replay: {app.llm.LIVE[calls:]}"
        assert replayed == recorded
        assert again.effects == tape.effects
        return tape.effects

    return go


def caught(body: Callable[[], Any]) -> tuple[type, str] | Any:
    """What a body returns, or the type and text of what it raises."""
    try:
        return body()
    except Exception as problem:
        return type(problem), str(problem)


class TestReferences:
    def test_from_import(self, app: SimpleNamespace, both: Both) -> None:
        """A module that imported the function by name calls the effect, and the answer is of the annotated class."""
        reply = app.llm.Reply
        effects = both(["loomapp.llm:complete"], lambda: (app.use.complete("a", top=5), type(app.use.complete("b"))), 2)
        assert effects[0] == {
            "kind": "step",
            "name": "loomapp.llm:complete",
            "request": {"prompt": "a", "model": "m1", "top": 5},
            "output": {"text": "a@m1/5"},
        }
        assert reply("a@m1/5") == app.use.complete("a", top=5)

    @pytest.mark.parametrize(
        "call",
        [
            lambda use: use.TOOLS[0]("x"),
            lambda use: use.BY_NAME["complete"]("x"),
            lambda use: use.PARTIAL("x"),
            lambda use: use.default("x"),
            lambda use: list(map(use.complete, ["x"])),
        ],
        ids=["list", "dict", "partial", "default argument", "map"],
    )
    def test_held_elsewhere(self, app: SimpleNamespace, both: Both, call: Callable[[Any], Any]) -> None:
        """Lists, dicts, partials and default arguments that hold the function call the effect."""
        [effect] = both(["loomapp.llm:complete"], lambda: call(app.use), 1)
        assert effect["request"]["prompt"] == "x"

    def test_bound_methods_and_instances(self, app: SimpleNamespace, both: Both) -> None:
        """A method is an effect through instances and bound methods that existed before, without self."""
        effects = both(
            ["loomapp.client:Client.fetch"], lambda: [app.use.BOUND("/a"), app.use.CLIENT.fetch("/b", retries=0)], 2
        )
        assert [effect["request"] for effect in effects] == [
            {"url": "/a", "retries": 2},
            {"url": "/b", "retries": 0},
        ]
        assert effects[0]["name"] == "loomapp.client:Client.fetch"

    def test_decorated(self, app: SimpleNamespace, both: Both) -> None:
        """A decorated function is its wrapper: the decorator runs live with it; the names are the function's."""
        effects = both(["loomapp.llm:search"], lambda: [app.use.find("q"), app.use.TOOLS[1]("q", limit=1)], 2)
        assert [effect["request"] for effect in effects] == [{"query": "q", "limit": 10}, {"query": "q", "limit": 1}]
        assert app.llm.LIVE == [("timed", "search")] * 2

    def test_decorated_coroutine(self, app: SimpleNamespace, both: Both) -> None:
        """A plain wrapper around a coroutine is awaited, as its callers do."""
        [effect] = both(["loomapp.llm:asearch"], lambda: asyncio.run(_awaited(app.llm.asearch("q"))), 1)
        assert effect["output"] == ["q"]


async def _awaited(what: Any) -> Any:
    return await what


class TestCalls:
    def test_closure(self, app: SimpleNamespace, both: Both) -> None:
        """A function with free variables keeps them, and its live body changes them."""
        effects = both(["loomapp.llm:up"], lambda: [app.llm.up(), app.llm.up(by=5)], 2)
        assert [(effect["request"], effect["output"]) for effect in effects] == [({"by": 1}, 11), ({"by": 5}, 16)]

    def test_stars(self, app: SimpleNamespace, both: Both) -> None:
        """*args, keyword-only arguments and **kwargs arrive, and are recorded where there are any."""
        effects = both(
            ["loomapp.llm:many"], lambda: [app.llm.many(1), app.llm.many(1, 2, 3, key="k", a=4), app.llm.many(first=2)]
        )
        assert [effect["request"] for effect in effects] == [
            {"first": 1, "key": None},
            {"first": 1, "rest": [2, 3], "key": "k", "more": {"a": 4}},
            {"first": 2, "key": None},
        ]
        assert effects[1]["output"] == [1, [2, 3], "k", {"a": 4}]

    def test_wrong_arguments(self, app: SimpleNamespace, use: Callable[[Tape], Tape]) -> None:
        """A call with wrong arguments raises the function's own TypeError and records nothing."""
        wrong = [lambda: app.llm.complete(), lambda: app.llm.complete(prompt="x"), lambda: app.client.client.fetch()]
        expected = [caught(call) for call in wrong]
        tape = use(Tape())
        with named_effects(["loomapp.llm:complete", "loomapp.client:Client.fetch"]), tape.run():
            assert [caught(call) for call in wrong] == expected
        assert [kind for kind, _ in expected] == [TypeError] * 3
        assert not tape.effects

    def test_annotations(self, app: SimpleNamespace, both: Both) -> None:
        """An annotation with an unknown name says nothing; one that is known counts, whatever the others are."""
        effects = both(["loomapp.llm:guessed", "loomapp.llm:shown"], lambda: [app.llm.guessed("a"), app.llm.shown("b")])
        assert [effect["output"] for effect in effects] == [["a"], {"text": "b"}]
        [effect] = both(["loomapp.llm:local"], lambda: type(app.llm.local("c")).__name__)
        assert effect["output"] == {"text": "c"}

    def test_recursion(self, app: SimpleNamespace, both: Both) -> None:
        """What a named function does while it runs live is part of it, also calls of named functions."""
        effects = both(["loomapp.llm:fact"], lambda: app.llm.fact(5), 5)
        assert [effect["output"] for effect in effects] == [120]

    def test_exception(self, app: SimpleNamespace, both: Both) -> None:
        """An exception is the effect's outcome."""
        [effect] = both(["loomapp.llm:fails"], lambda: caught(lambda: app.llm.fails(7)), 1)
        assert effect["error"].args == (7,)

    def test_methods(self, app: SimpleNamespace, both: Both) -> None:
        """Static, class and async methods are effects, without cls; a class method knows the class it is called on."""
        client = app.client.Client

        def body() -> Any:
            sub: Any = type("Sub", (client,), {})
            return [client.parse("a b"), client("x").parse("c"), sub.version(3), asyncio.run(client().afetch("/u"))]

        names = ["loomapp.client:Client.parse", "loomapp.client:Client.version", "loomapp.client:Client.afetch"]
        effects = both(names, body, 4)
        assert [effect["request"] for effect in effects] == [
            {"text": "a b"},
            {"text": "c"},
            {"major": 3},
            {"url": "/u"},
        ]
        assert effects[2]["output"] == "Sub-3"

    def test_inherited_and_super(self, app: SimpleNamespace, both: Both) -> None:
        """A method that a class inherits is named through it; super() finds it, and works inside of a named method."""
        effects = both(["loomapp.client:Client.ping"], lambda: [app.client.Base("b").ping(2), app.client.client.who()])
        assert [effect["output"] for effect in effects] == ["bb", "c"]
        assert len(both(["loomapp.client:Client.who"], app.client.client.who)) == 1

    def test_one_instance(self, app: SimpleNamespace, both: Both) -> None:
        """A callable instance and a bound method of a module are named for that object alone."""
        names = ["loomapp.client:first", "loomapp.client:fetch"]

        def recorded() -> Any:
            return [app.use.CALLERS[0](1), app.client.client.fetch("/a")]

        effects = both(names, recorded, 2)
        assert [(effect["name"], effect["request"]) for effect in effects] == [
            ("loomapp.client:first", {"x": 1}),
            ("loomapp.client:fetch", {"url": "/a", "retries": 2}),
        ]

        def unnamed() -> list[dict[str, Any]]:
            tape = Tape()
            with pytest.MonkeyPatch.context() as patch, named_effects(names), tape.run():
                patch.setattr(pytest_loom.flow, "seam", tape, raising=False)
                assert app.client.second(1) == 2
                assert app.use.BOUND("/a").text == "u/a"
            return tape.effects

        assert unnamed() == []

    def test_coroutine(self, app: SimpleNamespace, both: Both) -> None:
        """Coroutines are effects, also several at once, and plain functions annotated to return one."""

        async def body() -> Any:
            return await asyncio.gather(*map(app.llm.acomplete, "abc"), app.llm.later("d"))

        effects = both(["loomapp.llm:acomplete", "loomapp.llm:later"], lambda: asyncio.run(body()), 4)
        assert sorted(effect["output"]["text"] for effect in effects) == ["A", "B", "C", "D"]
        assert "loomapp.llm:later" in [effect["name"] for effect in effects]


class TestGenerators:
    NAMES = ("loomapp.llm:tokens", "loomapp.llm:atokens", "loomapp.llm:chat")

    def test_generator(self, app: SimpleNamespace, both: Both) -> None:
        """The pieces of a generator are recorded, from its first next() on."""

        def body() -> Any:
            app.llm.tokens("never begun")
            return list(app.llm.tokens("a b c"))

        [effect] = both(list(self.NAMES), body, 4)
        assert effect["request"] == {"text": "a b c", "fail": False}
        assert effect["stream"] == ["a", "b", "c"]

    def test_early_close(self, app: SimpleNamespace, both: Both) -> None:
        """A generator that is left early is closed live at once, and only what was taken is recorded."""

        def body() -> Any:
            pieces = app.llm.tokens("a b c")
            first = next(pieces)
            pieces.close()
            return first, list(pieces)

        [effect] = both(list(self.NAMES), body, 2)
        assert effect["stream"] == ["a"]
        assert app.llm.LIVE[-1] == ("tokens", "closed")

    def test_failing(self, app: SimpleNamespace, both: Both) -> None:
        """A generator that raises gives its pieces and raises, sync or async."""

        def body() -> Any:
            seen: list[str] = []
            return caught(lambda: seen.extend(app.llm.tokens("a b", fail=True))), seen

        async def abody() -> Any:
            seen: list[str] = []
            try:
                async for piece in app.llm.atokens("a b", fail=True):
                    seen.append(piece.text)  # noqa: PERF401
            except ValueError as problem:
                return str(problem), seen

        [effect] = both(list(self.NAMES), body)
        assert effect["stream"] == ["a", "b"]
        assert str(effect["error"]) == "no more"
        [effect] = both(list(self.NAMES), lambda: asyncio.run(abody()))
        assert str(effect["error"]) == "no more"

    def test_thrown_in(self, app: SimpleNamespace, both: Both) -> None:
        """What is thrown into a generator closes it and is raised."""

        def body() -> Any:
            pieces = app.llm.tokens("a b c")
            next(pieces)
            return caught(lambda: pieces.throw(KeyError("x")))

        assert both(list(self.NAMES), body)[0]["stream"] == ["a"]
        assert app.llm.LIVE[-1] == ("tokens", "closed")

    def test_async_generator(self, app: SimpleNamespace, both: Both) -> None:
        """The pieces of an async generator are recorded and come back as the class that it yields."""

        async def body() -> Any:
            return [piece.text async for piece in app.llm.atokens("a b")]

        [effect] = both(list(self.NAMES), lambda: asyncio.run(body()), 3)
        assert effect["stream"] == [{"text": "a"}, {"text": "b"}]

    def test_async_early_close(self, app: SimpleNamespace, both: Both) -> None:
        """An async generator that is left early is closed live."""

        async def body() -> Any:
            async with aclosing(app.llm.atokens("a b c")) as pieces:
                first = await anext(pieces)
            assert app.llm.LIVE[-1] == ("atokens", "closed")
            return first

        [effect] = both(list(self.NAMES), lambda: asyncio.run(body()), 2)
        assert effect["stream"] == [{"text": "a"}]
        assert app.llm.LIVE[-1] == ("atokens", "closed")

    def test_coroutine_that_gives_a_stream(self, app: SimpleNamespace, both: Both) -> None:
        """A coroutine annotated to return an async iterator is awaited and then iterated."""

        async def body() -> Any:
            return [piece.text async for piece in await app.llm.chat("a b")]

        [effect] = both(list(self.NAMES), lambda: asyncio.run(body()), 4)
        assert (effect["name"], effect["stream"]) == ("loomapp.llm:chat", [{"text": "a"}, {"text": "b"}])

    def test_sent_and_returned(self, app: SimpleNamespace, use: Callable[[Tape], Tape]) -> None:
        """A generator that is sent values or returns one is refused inside a run, and is itself outside."""
        tape = use(Tape())
        with named_effects(["loomapp.llm:talk"]):
            talk = app.llm.talk()
            assert [next(talk), talk.send("hi")] == [1, "hi"]
            with pytest.raises(StopIteration) as stop:
                next(talk)
            assert stop.value.value == "end"
            with tape.run():
                talk = app.llm.talk()
                next(talk)
                with pytest.raises(RecordingError, match=r"step loomapp\.llm:talk was sent a value"):
                    talk.send("hi")
                with pytest.raises(RecordingError, match="returns a value"):
                    list(app.llm.talk())

    def test_async_generator_outside_a_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[Tape], Tape]
    ) -> None:
        """Outside a run an async generator is sent to, thrown into and closed as ever."""
        (tmp_path / "loomgen.py").write_text(
            textwrap.dedent("""
                async def echo(log):
                    got = None
                    try:
                        while True:
                            try:
                                got = yield got
                            except KeyError as problem:
                                got = "caught"
                            if got == "stop":
                                return
                    finally:
                        log.append("closed")
            """)
        )
        monkeypatch.syspath_prepend(tmp_path)
        module = importlib.import_module("loomgen")

        async def body() -> Any:
            log: list[Any] = []
            one, two, three = module.echo(log), module.echo(log), module.echo(log)
            seen = [await one.asend(None), await one.asend(1), await one.athrow(KeyError()), await one.asend(2)]
            await one.aclose()
            seen.append(list(log))
            await anext(two)
            with pytest.raises(StopAsyncIteration):
                await two.asend("stop")
            await anext(three)
            with pytest.raises(ZeroDivisionError):
                await three.athrow(ZeroDivisionError())
            return seen, log

        use(Tape())
        plain = asyncio.run(body())
        with named_effects(["loomgen:echo"]):
            assert asyncio.run(body()) == plain == ([None, 1, "caught", 2, ["closed"]], ["closed"] * 3)
        del sys.modules["loomgen"]


class TestNames:
    def test_star(self, app: SimpleNamespace, both: Both) -> None:
        """``module:*`` is each public function that the module defines: nothing private, imported or a class."""
        with named_effects(["loomapp.use:*"]):
            assert itself(app.use.default) is not app.use.default
            assert itself(app.use.complete) is app.use.complete

        def body() -> Any:
            return [
                app.llm.complete("a"),
                app.llm.up(),
                app.llm.cached("z"),
                app.llm._private(),
                list(app.llm.tokens("t")),
            ]

        names = [effect["name"].partition(":")[2] for effect in both(["loomapp.llm:*"], body)]
        assert names == ["complete", "up", "cached", "tokens"]

    @pytest.mark.parametrize(
        ("name", "text", "hint"),
        [
            ("loomapp.llm:compleet", "loomapp.llm has no compleet", "Did you mean complete or acomplete?"),
            ("loomapp.client:Client.fetsh", "loomapp.client:Client has no fetsh", "Did you mean fetch or afetch?"),
            ("loomapp.lm:complete", "there is no module loomapp.lm", "Did you mean loomapp.llm"),
            ("lomapp.llm:complete", "there is no module lomapp", "Did you mean loomapp"),
            ("loomapp.llm.complete", "is no name of the form module:function", "Did you mean loomapp.llm:complete?"),
            ("loomapp.llm:", "is no name of the form module:function", "Such as"),
            ("loomapp.broken:x", "importing loomapp.broken raised ModuleNotFoundError", "python -c"),
            ("loomapp.llm:LIVE", "is a list, not a function", "Name the function"),
            ("loomapp.client:Client.size", "is a property, not a function", "Name the function"),
            ("loomapp.client:Client", "is a class", "loomapp.client:Client.fetch"),
            ("loomapp.llm:session", "makes a context manager", "Name the functions that it calls"),
            ("loomapp.empty:*", "loomapp.empty defines no public function", "methods are named one by one"),
            ("datetime:datetime.now", "it cannot be replaced", "a function of your own"),
        ],
    )
    def test_wrong_name(self, app: SimpleNamespace, name: str, text: str, hint: str) -> None:
        """A name that means nothing, or nothing that can be recorded, is an error with a way out; nothing stays put."""
        code = app.llm.complete.__code__
        with pytest.raises(FlowError) as error, named_effects(["loomapp.llm:complete", name]):
            pass
        assert str(error.value).startswith(f"effect {name}")
        assert text in str(error.value)
        assert hint in error.value.hint
        assert app.llm.complete.__code__ is code

    def test_recorded_already(self, app: SimpleNamespace) -> None:
        """A @step is recorded already and is no named effect."""
        definition = pytest.importorskip("pytest_loom.flow.definition")
        app.llm.assess = definition.step(app.llm.complete)
        with pytest.raises(FlowError, match="which is recorded already"), named_effects(["loomapp.llm:assess"]):
            pass


class TestBlocks:
    EVERY = ("loomapp.llm:*", "loomapp.client:Client.fetch", "loomapp.client:Client.parse", "loomapp.client:first")

    @staticmethod
    def facts(app: SimpleNamespace) -> dict[str, Any]:
        """Everything about the application's callables that a block could leave changed."""
        found: dict[str, Any] = {}
        for module in (app.llm, app.client, app.use):
            for key, value in vars(module).items():
                found[f"{module.__name__}:{key}"] = id(value)
                parts = vars(value).items() if isinstance(value, type) else [("", value)]
                for name, part in parts:
                    function = inspect.unwrap(getattr(part, "__func__", part))
                    if inspect.isfunction(function):
                        found[f"{module.__name__}:{key}.{name}!"] = (
                            id(function.__code__),
                            str(inspect.signature(function)),
                            dict(function.__dict__),
                            function.__defaults__,
                            function.__kwdefaults__,
                            function.__closure__,
                        )
        return found

    def test_restored(self, app: SimpleNamespace) -> None:
        """After the block every function has its own code object, dict, defaults and signature again."""
        before = self.facts(app)
        with named_effects(self.EVERY):
            assert app.llm.complete.__code__ is not itself(app.llm.complete).__code__
            assert self.facts(app) != before
        assert self.facts(app) == before
        with pytest.raises(ZeroDivisionError), named_effects(self.EVERY):
            raise ZeroDivisionError
        assert self.facts(app) == before
        assert itself(app.llm.complete) is app.llm.complete

    def test_looks_the_same(self, app: SimpleNamespace) -> None:
        """Meanwhile kind, signature, source, documentation, name and pickling are what they were."""

        def looks(module: Any) -> list[Any]:
            names = ("complete", "acomplete", "tokens", "atokens", "chat", "search", "asearch", "many", "up", "cached")
            return [
                (
                    name,
                    inspect.iscoroutinefunction(value),
                    inspect.isgeneratorfunction(value),
                    inspect.isasyncgenfunction(value),
                    str(inspect.signature(value)),
                    inspect.getsource(value),
                    value.__doc__,
                    value.__qualname__,
                )
                for name in names
                for value in [getattr(module, name)]
            ]

        before = looks(app.llm)
        with named_effects(["loomapp.llm:*"]):
            assert looks(app.llm) == before
            assert pickle.loads(pickle.dumps(app.llm.complete)) is app.llm.complete
            assert app.llm.complete.__code__.co_varnames[:3] == ("prompt", "model", "top")
            code = app.llm.up.__code__
            assert code.co_freevars == ("count",)
            assert code.co_qualname == itself(app.llm.up).__code__.co_qualname == "counter.<locals>.up"
            for function in (app.llm.complete, app.llm.atokens, app.llm.up):
                lines = {line for *_, line in function.__code__.co_lines() if line}
                assert lines == {itself(function).__code__.co_firstlineno}

    def test_outside_a_run(self, app: SimpleNamespace, use: Callable[[Tape], Tape]) -> None:
        """Outside a run, in a thread that belongs to none, and after the block, everything is itself."""
        tape = use(Tape())
        with named_effects(["loomapp.llm:*"]):
            assert app.llm.complete("a", top=1).text == "a@m1/1"
            assert asyncio.run(app.llm.acomplete("a")).text == "A"
            assert list(app.llm.tokens("a b")) == ["a", "b"]
            with tape.run():
                thread = threading.Thread(target=app.llm.complete, args=("b",))
                thread.start()
                thread.join()
        with tape.run():
            app.llm.complete("c")
        assert tape.effects == []
        assert [call for call in app.llm.LIVE if call[0] == "complete"] == [("complete", word) for word in "abc"]

    def test_nested(self, app: SimpleNamespace, use: Callable[[Tape], Tape]) -> None:
        """A function named by two blocks is recorded once, until the last of them ends."""
        tape = use(Tape())
        code = app.llm.complete.__code__
        with named_effects(["loomapp.llm:complete"]):
            with named_effects(["loomapp.use:complete", "loomapp.llm:cached"]), tape.run():
                app.use.complete("a")
            assert app.llm.complete.__code__ is not code
            with tape.run():
                app.use.complete("b")
                app.llm.cached("not named here")
        assert app.llm.complete.__code__ is code
        assert [effect["name"] for effect in tape.effects] == ["loomapp.llm:complete"] * 2

    def test_threads(self, app: SimpleNamespace, use: Callable[[Tape], Tape]) -> None:
        """Blocks that overlap in two threads count: the function stays named until the later one ends."""
        tape = use(Tape())
        code = app.llm.complete.__code__
        inside, leave = threading.Event(), threading.Event()

        def other() -> None:
            with named_effects(["loomapp.llm:complete", "loomapp.llm:cached"]):
                inside.set()
                leave.wait(10)

        thread = threading.Thread(target=other)
        original = app.llm.cached
        with named_effects(["loomapp.llm:complete", "loomapp.llm:cached"]):
            thread.start()
            assert inside.wait(10)
        with tape.run():
            app.llm.complete("a")
            app.use.cached("k")
        leave.set()
        thread.join()
        assert [effect["name"] for effect in tape.effects] == ["loomapp.llm:complete", "loomapp.llm:cached"]
        assert app.llm.complete.__code__ is code
        assert app.use.cached is app.llm.cached is original

    def test_itself(self, app: SimpleNamespace, use: Callable[[Tape], Tape]) -> None:
        """``itself`` gives the function without its recording."""
        tape = use(Tape())
        with named_effects(["loomapp.llm:complete"]), tape.run():
            assert itself(app.llm.complete)("a").text == "a@m1/3"
            assert itself(len) is len
        with named_effects(["loomapp.llm:search"]):
            assert itself(app.llm.search).__wrapped__ is app.llm.search.__wrapped__
            assert str(inspect.signature(itself(app.llm.search))) == "(query: str, limit: int = 10) -> list[str]"
        assert tape.effects == []


class TestStandIns:
    def test_builtin(self, app: SimpleNamespace, both: Both) -> None:
        """``time:time`` is an effect through the module and through from-imports; the machinery's calls are not."""
        before = time.time

        def body() -> Any:
            async def sleeps() -> None:
                await asyncio.sleep(0.001)

            asyncio.run(sleeps())
            return [app.use.now(), app.use.time()]

        effects = both(["time:time", "time:monotonic"], body)
        assert [effect["name"] for effect in effects] == ["time:time"] * 2
        assert time.time is app.use.time is before
        assert "time" in vars(app.use)

    def test_bytes(self, app: SimpleNamespace, both: Both) -> None:
        """A C function has no annotation: bytes that could not come back as bytes are refused when recorded."""
        with pytest.raises(RecordingError, match=r"step os:urandom: the result"):
            both(["os:urandom"], lambda: os.urandom(4))

    def test_standard_library(self, both: Both) -> None:
        """A bound method of a C class and one of a Python class are effects under the name that was given."""
        effects = both(["random:random", "random:choice"], lambda: [random.random(), random.choice([1, 2, 3])])
        assert [effect["name"] for effect in effects] == ["random:random", "random:choice"]
        assert effects[1]["request"] == {"seq": [1, 2, 3]}
        assert not hasattr(random.random, "__wrapped__")

    def test_cache(self, app: SimpleNamespace, both: Both) -> None:
        """A functools.cache is an effect wherever modules hold it, keeps its own methods, and is put back."""
        before = app.llm.cached
        effects = both(
            ["loomapp.llm:cached"], lambda: [app.llm.cached("a"), app.use.cached("a"), app.use.cached(key="b")], 2
        )
        assert [effect["request"] for effect in effects] == [{"key": "a"}, {"key": "a"}, {"key": "b"}]
        with named_effects(["loomapp.llm:cached"]):
            assert app.llm.cached is not before
            assert app.llm.cached.cache_info().currsize == 2
            late: Any = ModuleType("loomapp.late")
            late.cached = app.llm.cached
            sys.modules["loomapp.late"] = late
        assert app.llm.cached is app.use.cached is late.cached is before

    def test_in_a_class(self, app: SimpleNamespace, both: Both) -> None:
        """C callables in a class bind, or not, as they did; the class has its own attributes again afterwards."""
        tools, more = app.client.Tools(), app.client.More
        before = {kind: dict(vars(kind)) for kind in (app.client.Tools, more)}
        names = [f"loomapp.client:Tools.{name}" for name in ("clock", "plain_len", "cached", "static")]

        def body() -> Any:
            return [tools.clock(), tools.plain_len("abc"), tools.cached("a"), tools.static("b"), more.static(key="b")]

        effects = both([*names, "loomapp.client:More.static"], body, 3)
        assert [effect["request"] for effect in effects][2:] == [{"key": "a"}, {"key": "b"}, {"key": "b"}]
        assert [effect["output"] for effect in effects][1:] == [3, "aa", "bbb", "bbb"]
        assert {kind: dict(vars(kind)) for kind in (app.client.Tools, more)} == before

    def test_partial(self, app: SimpleNamespace, both: Both) -> None:
        """A functools.partial is an effect under its own signature and its function's return annotation."""
        [effect] = both(["loomapp.llm:bound"], lambda: app.llm.bound("a"), 1)
        assert effect["request"] == {"prompt": "a", "model": "p", "top": 3}
        assert effect["output"] == {"text": "a@p/3"}


class TestRefusals:
    def test_changed_argument(self, app: SimpleNamespace, use: Callable[[Tape], Tape]) -> None:
        """A call that changes its arguments is refused, naming function and parameter: replay would not change them."""
        with (
            named_effects(["loomapp.llm:appends"]),
            use(Tape()).run(),
            pytest.raises(RecordingError, match=r"step loomapp\.llm:appends: its argument items was changed"),
        ):
            app.llm.appends([])

    def test_argument_that_is_no_data(self, app: SimpleNamespace, use: Callable[[Tape], Tape]) -> None:
        """An argument that no log can hold is refused by name, unless it is the parameter's default."""
        tape = use(Tape())
        with named_effects(["loomapp.llm:many", "loomapp.use:default"]), tape.run():
            with pytest.raises(RecordingError, match=r"step loomapp\.llm:many: what is asked: first"):
                app.llm.many(object())
            app.use.default("a")
        assert tape.effects[-1]["request"] == {"prompt": "a"}

    def test_undeclared_coroutine(self, app: SimpleNamespace, use: Callable[[Tape], Tape]) -> None:
        """A plain function that returns a coroutine without saying so is refused, with what to annotate."""
        with (
            named_effects(["loomapp.llm:hidden"]),
            use(Tape()).run(),
            pytest.raises(RecordingError, match="returned a coroutine") as error,
        ):
            app.llm.hidden("a")
        assert "Annotate it" in error.value.hint

    def test_recording_calls_named_functions(self, app: SimpleNamespace, use: Callable[[Tape], Tape]) -> None:
        """What the recording itself calls (here json, by the seam) is no effect of the run."""
        tape = use(Tape())
        with named_effects(["json:dumps", "loomapp.llm:complete"]), tape.run():
            app.llm.complete("a")
            json.dumps([1])
        assert [effect["name"] for effect in tape.effects] == ["loomapp.llm:complete", "json:dumps"]


FLOWS = """
    import asyncio
    from loomapp import client, llm, use

    def sync_flow(word: str) -> list:
        pieces = llm.tokens("x y z")
        left = [next(pieces), pieces.close()]
        try:
            llm.fails(3)
        except KeyError as problem:
            left.append(repr(problem))
        left += [use.TOOLS[0](word).text, use.BOUND("/a").text, list(llm.tokens("a b"))]
        return [*left, use.now(), use.cached("k")]

    async def async_flow(word: str) -> list:
        replies = await asyncio.gather(*map(llm.acomplete, word), llm.later("d"))
        threaded = await asyncio.to_thread(use.complete, word)
        streamed = [piece.text async for piece in llm.atokens("m n")] + [p.text async for p in await llm.chat("o")]
        return [[reply.text for reply in replies], threaded.text, streamed]

    def swallows(word: str) -> str:
        try:
            return call()
        except Exception:
            return "swallowed"

    def call():
        raise NotImplementedError
"""


class TestWithTheEngine:
    NAMES = ("loomapp.llm:*", "loomapp.client:Client.fetch", "time:time")

    @pytest.fixture
    def flows(self, app: SimpleNamespace) -> Any:
        """The module of flows, which knows nothing of pytest-loom."""
        (Path(app.llm.__file__).parent / "flows.py").write_text(textwrap.dedent(FLOWS))
        importlib.invalidate_caches()
        return importlib.import_module("loomapp.flows")

    @pytest.mark.parametrize("name", ["sync_flow", "async_flow"])
    def test_replay(self, app: SimpleNamespace, flows: Any, name: str) -> None:
        """A plain function of the application is recorded, and replays to the same log with nothing live."""
        flow = getattr(flows, name)
        log = record(flow, "ab", effects=self.NAMES)
        live = len(app.llm.LIVE)
        candidate = replay(log, flow, effects=self.NAMES)
        assert (log.state.status, candidate.state.status) == ("completed", "completed")
        assert candidate.state.variables["_output"] == log.state.variables["_output"]
        assert len(app.llm.LIVE) == live > 0
        steps = [event.payload["stepId"] for event in log.events if event.event_type == "STEP_STARTED"]
        expected = {"sync_flow": "loomapp.client:Client.fetch", "async_flow": "loomapp.llm:chat"}
        assert {"loomapp.llm:complete", expected[name]} <= set(steps)

    @pytest.mark.parametrize(
        ("call", "text"),
        [
            (lambda llm: llm.appends([]), "its argument items was changed"),
            (lambda llm: llm.many(object()), "what is asked: first"),
            (lambda llm: llm.hidden("a"), "returned a coroutine"),
            (lambda llm: [talk := llm.talk(), next(talk), talk.send(1)], "was sent a value"),
        ],
        ids=["changed", "no data", "undeclared", "sent"],
    )
    def test_refused(self, app: SimpleNamespace, flows: Any, call: Callable[[Any], Any], text: str) -> None:
        """What cannot be recorded ends the recording, also where the application swallows the error."""
        flows.call = lambda: call(app.llm)
        with pytest.raises(RecordingError, match=text):
            record(flows.swallows, "x", effects=self.NAMES)
