"""A bench for seams: a scenario is recorded against a fake server and replayed when that server is gone."""

from __future__ import annotations

import importlib.util
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pytest_loom

if TYPE_CHECKING:
    from tests.seams.fake_servers import FakeServer

Scenario = Callable[[Any], Awaitable[Any]]


class Twice:
    """What a scenario gave ``live`` and ``replayed``, its golden ``log``, and how many ``calls`` the server got."""

    def __init__(self, log: pytest_loom.Log, live: Any, replayed: Any, calls: int) -> None:
        self.log, self.live, self.replayed, self.calls = log, live, replayed, calls

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The payloads of the golden log's events of one kind."""
        return [event.payload for event in self.log.events if event.event_type == kind]

    @property
    def text(self) -> str:
        """All that the golden log says, as one text."""
        return json.dumps([event.payload for event in self.log.events], ensure_ascii=False)


class Bench:
    """Runs scenarios: ``bench(make_client, scenario)``. The methods let one scenario use sync and async clients."""

    def __init__(self, server: FakeServer) -> None:
        self.server = server

    def __call__(self, make_client: Callable[[str], Any], scenario: Scenario) -> Twice:
        """Record ``scenario(client)`` with a client of the server, stop the server, replay it."""
        kept: list[Any] = []

        async def flow(url: str) -> None:
            async with self.inside(make_client(url)) as client:
                kept.append(await scenario(client))

        log = pytest_loom.record(flow, self.server.url)
        calls = len(self.server.requests)
        self.server.stop()
        assert kept, f"recording failed: {log.state.variables.get('_error')}"
        assert pytest_loom.diff_runs(log, pytest_loom.replay(log, flow), compare="all") == []
        live, replayed = kept
        assert len(self.server.requests) == calls, "the replay called the server"
        return Twice(log, live, replayed, calls)

    @staticmethod
    async def got(value: Any) -> Any:
        """``value``, awaited where it is to be awaited."""
        return await value if inspect.isawaitable(value) else value

    @staticmethod
    async def every(items: Any) -> list[Any]:
        """All items of an iterable of either kind."""
        return [item async for item in items] if hasattr(items, "__aiter__") else list(items)

    @staticmethod
    @asynccontextmanager
    async def inside(manager: Any) -> AsyncIterator[Any]:
        """Enter a context manager of either kind."""
        async with AsyncExitStack() as stack:
            if hasattr(manager, "__aenter__"):
                yield await stack.enter_async_context(manager)
            else:
                yield stack.enter_context(manager)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """A running server that speaks the APIs of OpenAI and Anthropic."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    # Test modules cannot be imported by name under every pytest that is supported.
    spec = importlib.util.spec_from_file_location("fake_servers", Path(__file__).with_name("fake_servers.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.FakeServer() as running:
        yield running


@pytest.fixture
def bench(server: FakeServer) -> Bench:
    """See ``Bench``."""
    return Bench(server)
