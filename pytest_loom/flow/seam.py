"""How code that is not ours to change becomes an effect: functions by name, and the model clients of other packages.

Outside a run, and inside the live body of an effect, ``in_run`` is False: the caller goes on with the original.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pytest_loom.errors import RecordingError
from pytest_loom.flow.branches import Branch, here
from pytest_loom.flow.failures import revived
from pytest_loom.flow.perform import Asked, aperform, perform
from pytest_loom.flow.streams import AsyncStream, SyncStream
from pytest_loom.flow.turns import Stop
from pytest_loom.flow.values import encode, plain

T = TypeVar("T")
Kind = Literal["step", "tool", "model"]


@dataclass(frozen=True)
class Wire(Generic[T]):
    """How the values of one seam go into a log and come out again.

    ``dump`` gives plain JSON data, ``load`` the value that such data stands for. ``dump_error`` gives what to record
    of an exception besides its type and text; ``load_error(type, message, data)`` the exception to raise in replay, or
    None for the ordinary rule.
    """

    dump: Callable[[T], Any]
    load: Callable[[Any], T]
    dump_error: Callable[[Exception], Any] | None = None
    load_error: Callable[[str, str, Any], Exception | None] | None = None


def in_run() -> bool:
    """Whether the running code is a run's own: its effects are recorded, or answered from the log."""
    return here.get() is not None


def call(
    kind: Kind,
    name: str,
    request: Any,
    live: Callable[[], T],
    wire: Wire[T],
    *,
    usage: Callable[[T], Any] | None = None,
) -> T:
    """One effect of sync code. ``request`` is plain JSON data: what is asked."""
    branch = _branch()
    return perform(branch, _asked(branch, kind, name, request, wire, usage), live)  # type: ignore[no-any-return]


async def acall(
    kind: Kind,
    name: str,
    request: Any,
    live: Callable[[], Awaitable[T]],
    wire: Wire[T],
    *,
    usage: Callable[[T], Any] | None = None,
) -> T:
    """One effect of async code."""
    branch = _branch()
    return await aperform(branch, _asked(branch, kind, name, request, wire, usage), live)  # type: ignore[no-any-return]


def stream(kind: Kind, name: str, request: Any, live: Callable[[], Iterable[T]], wire: Wire[T]) -> Iterator[T]:
    """A stream of sync code, asked for at once; ``T`` is a piece of it. Has ``close()``."""
    branch = _branch()
    return SyncStream(branch, _asked(branch, kind, name, request, wire, None), live)


async def astream(
    kind: Kind,
    name: str,
    request: Any,
    live: Callable[[], AsyncIterable[T] | Awaitable[AsyncIterable[T]]],
    wire: Wire[T],
) -> AsyncIterator[T]:
    """A stream of async code, asked for when this is awaited; ``T`` is a piece of it. Has ``aclose()``."""
    branch = _branch()

    async def start() -> Any:
        found = live()
        return await found if isinstance(found, Awaitable) else found

    return await AsyncStream(branch, _asked(branch, kind, name, request, wire, None), start).begin()


def _branch() -> Branch:
    branch = here.get()
    if branch is None:
        raise RuntimeError("no run is going on here: ask in_run() first, and call the original")
    return branch


def _asked(
    branch: Branch,
    kind: Kind,
    name: str,
    request: Any,
    wire: Wire[Any],
    usage: Callable[[Any], Any] | None,
) -> Asked:
    run = branch.run
    try:
        said = encode(plain(request, f"{kind} {name}: what is asked"))
    except RecordingError as error:
        error.execution_id = run.recorder.execution_id
        run.fail(error)
        raise Stop from None

    def load(raw: bytes) -> Any:
        import msgspec

        return wire.load(msgspec.json.decode(raw))

    def raises(facts: dict[str, Any]) -> BaseException:
        if wire.load_error is not None:
            found = wire.load_error(str(facts.get("type", "")), str(facts.get("message", "")), facts.get("data"))
            if found is not None:
                return found
        return revived(facts, run.flow.fn, name)

    return Asked(
        kind, name, said, load, wire.dump, raises=raises, error_data=wire.dump_error, usage=usage
    )  # fmt: skip
