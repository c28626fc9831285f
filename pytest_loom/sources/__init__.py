"""Sources: where logs come from. One file a format, found by sniffing; users register theirs (``pytest_loom_sources``).

``load_log`` and ``load_logs`` live here, since they read whatever a registered source can read.
"""

from __future__ import annotations

import glob
import importlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit, urlunsplit

from pytest_loom.errors import LogError, LoomError, printable
from pytest_loom.log.alike import Book, Hit
from pytest_loom.log.event import Engine, Log
from pytest_loom.log.files import CANDIDATES, HEAD, SIDE_FILES, check_file, read_head
from pytest_loom.log.share import Share
from pytest_loom.log.texts import Text
from pytest_loom.sources.databases import NotMine


class OutOfScope(NamedTuple):
    """So many runs of a store that are over, and that nobody asked for: they were not read."""

    runs: int


@dataclass(frozen=True)
class Wanted:
    """What a deploy simulation asks of a source: ``book`` knows runs that need not be read; ``scope`` as there."""

    scope: str
    book: Book | None = None


Item = Log | LogError | Text | Hit | OutOfScope
"""What a source gives where it is asked so: less than a Log where that is enough."""

Read = Callable[["Wanted | None"], Iterator[Any]]
"""Begins to read: Logs and LogErrors, or Items where something is wanted."""


class Source(Protocol):
    """A reader of one log format. Its properties may be plain class attributes.

    One that can do better for a simulation than to read all runs has ``read_wanted(path, wanted, share)``, which gives
    Items; so does ``read_address_wanted(address, wanted, share)`` for a store.
    """

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def engine(self) -> Engine:
        """How such runs resume."""

    @property
    def live(self) -> bool:
        """Whether the runs stand in a running store rather than in a kept file."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """How the names of the files end that it takes when a directory is walked."""

    def sniff(self, path: Path, head: bytes) -> bool:
        """Whether the file is of this format; ``head`` is its first 64 KiB, decompressed. Must be cheap."""

    def read(self, path: Path) -> Iterator[Log | LogError]:
        """Every run of the file: a Log, or the LogError that says why it cannot be read. Raises nothing itself.

        A source of documents may have ``takes_data = True``: its ``read(path, data)`` takes the decompressed content,
        too, where that is at hand already.
        """


_BUILT_IN = (
    "pytest_loom.sources.loom",
    "pytest_loom.sources.temporal",
    "pytest_loom.sources.langgraph",
    "pytest_loom.sources.dbos",
    "pytest_loom.sources.pydantic_ai",
    "pytest_loom.sources.openai_agents",
    "pytest_loom.sources.otel",
    "pytest_loom.sources.langsmith",
    "pytest_loom.sources.inspect_ai",
    "pytest_loom.sources.aws_durable",
    "pytest_loom.sources.claude_agent",
    "pytest_loom.sources.trajectories",
)
_registered: list[Source] = []
_STORES_NOT_READ = ("redis", "rediss", "mongodb", "mongodb+srv", "mysql", "mysql+pymysql", "mariadb")
"""Stores of checkpoints that nobody reads yet, named rather than unknown."""

CONTRACTS_FOLDER = "loom-contracts"
"""Captured contracts are JSON files of ours and never logs."""

SIDECAR = "loom-import.json"
"""What an import writes beside its goldens; never a log."""

_NEVER_WALKED = frozenset({CONTRACTS_FOLDER, "__snapshots__", "__pycache__", "node_modules"})


def register_source(source: Source) -> None:
    """Ask ``source`` before the built-in ones, for the whole process.

    The plugin does so for ``pytest_loom_sources``.
    """
    if source not in _registered:
        _registered.insert(0, source)


def unregister_source(source: Source) -> None:
    """Undo ``register_source``."""
    if source in _registered:
        _registered.remove(source)


def has_registered() -> bool:
    """Whether there is any source but the built-in ones."""
    return bool(_registered)


def sources() -> Iterator[Source]:
    """Every source, in the order in which they are asked: registered ones first. Built-in ones load as they come up."""
    yield from tuple(_registered)
    for module in _BUILT_IN:
        yield importlib.import_module(module).source


def load_log(path: str | os.PathLike[str]) -> Log:
    """The log in a file that holds exactly one execution.

    Raises LogError where the file is damaged, is no log, or holds several executions, and UnknownSchemaVersion where a
    newer version wrote it; each names the file, the line and the execution.
    """
    file = Path(path)
    check_file(file)
    found: Log | None = None
    names: list[str] = []
    for item in iter_file(file):
        if isinstance(item, LogError):
            raise item
        found = found or item
        names.append(printable(item.execution_id))
    if found is None or len(names) > 1:
        shown = ", ".join([*names[:3], "…"] if len(names) > 3 else names)
        raise LogError(
            f"holds {len(names)} executions ({shown}), one was asked for",
            path=str(file),
            hint="load_logs() gives them all.",
        )
    return found


def load_logs(source: str | os.PathLike[str]) -> LogStream:
    """Every log of a path, a glob, a directory, or of a store by its address (``postgresql://…``), one at a time.

    A broken log raises its LogError from ``next``; the iterator stays usable and goes on with the next log, so that
    one bad log never hides the others. Raises LogError at once where nothing matches.
    """
    if is_address(source):
        address = os.fspath(source)
        readers_of(address)
        return LogStream(lambda wanted: iter_address(address, wanted=wanted))
    files = find_files(source)
    return LogStream(lambda wanted: (item for file in files for item in iter_wanted(file, wanted)))


class LogStream:
    """An iterator of logs that survives the errors it raises. ``read`` begins to read what there is."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._items: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Log]:
        return self

    def __next__(self) -> Log:
        if self._items is None:
            self._items = self._read(None)
        item = next(self._items)
        if isinstance(item, LogError):
            raise item
        assert isinstance(item, Log)
        return item

    def wanted(self, wanted: Wanted) -> Iterator[Item]:
        """All that is left, as a simulation wants it: errors as items."""
        if self._items is None:
            self._items = self._read(wanted)
        return self._items


def iter_logs(files: Iterable[Path]) -> Iterator[Log | LogError]:
    """Every log of the files; a broken one as its LogError."""
    for file in files:
        yield from iter_file(file)


def iter_file(file: Path, share: Share | None = None) -> Iterator[Log | LogError]:
    """Every log of one file, by the source that knows it; a broken one as its LogError.

    With a ``share``, only the runs that are in it. A source that has ``read_share(path, share)`` need not read the
    others.
    """
    return iter_wanted(file, None, share)


def iter_wanted(file: Path, wanted: Wanted | None, share: Share | None = None) -> Iterator[Any]:
    """The same; where something is ``wanted``, an Item may stand for a log."""
    try:
        head = read_head(file)
        found = _source_of(file, head)
    except LogError as error:
        yield from () if share is not None and share.number else (error,)
        return
    count = 0
    whole = head if len(head) < HEAD and getattr(found, "takes_data", False) else None
    try:
        for item in _read(found, "read", file, share, wanted, whole):
            count += 1
            if isinstance(item, Log) and item.source == "loom" and found.name != "loom":
                item.source, item.engine, item.live = found.name, found.engine, found.live
            yield item
    except Exception as problem:
        yield problem if isinstance(problem, LogError) else _source_failed(found, file, problem)
        return
    if not count and share is None:
        yield LogError(f"the {found.name} source finds no run in it", path=str(file))


def _read(
    source: Any, how: str, place: Any, share: Share | None, wanted: Wanted | None, whole: bytes | None = None
) -> Iterator[Any]:
    """What a source reads with ``read`` or ``read_address``, or the part of it that is in the share.

    ``whole`` is the content of a small file, for a source that takes it.
    """
    data = () if whole is None else (whole,)
    if wanted is not None and hasattr(source, f"{how}_wanted"):
        return iter(getattr(source, f"{how}_wanted")(place, wanted, share, *data))
    if share is None:
        return iter(getattr(source, how)(place, *data))
    if hasattr(source, f"{how}_share"):
        return iter(getattr(source, f"{how}_share")(place, share))
    return (item for item in getattr(source, how)(place) if share.holds(item.execution_id))


def is_address(source: str | os.PathLike[str]) -> bool:
    """Whether it is the address of a store rather than a path."""
    return "://" in os.fspath(source)


def iter_address(address: str, share: Share | None = None, wanted: Wanted | None = None) -> Iterator[Any]:
    """Every run of the store at an address, by the source that reads its scheme; what is wrong as a LogError.

    A source reads addresses where it has ``schemes`` and ``read_address(address)``, and ``read_address_share(address,
    share)`` where it can leave out the others by itself; either raises NotMine where the store has none of its tables.
    Each source of the scheme is asked: a database may hold runs of several. Nothing but the scheme of one that nobody
    reads is shown: there may be a password in it.
    """
    scheme = printable(address.partition("://")[0].lower())
    try:
        readers = readers_of(address)
    except LogError as error:
        yield error
        return
    count = 0
    not_theirs: dict[str, LogError] = {}
    for found in readers:
        try:
            for item in _read(found, "read_address", address, share, wanted):
                count += 1
                yield item
        except NotMine as error:
            not_theirs[found.name] = error
        except LoomError as error:
            yield error if isinstance(error, LogError) else LogError(error.what, hint=error.hint)
            return  # what one cannot have, the next one cannot either
    if not count and len(not_theirs) == len(readers):
        first = next(iter(not_theirs.values()))
        names = " or ".join(not_theirs)
        yield first if len(readers) == 1 else LogError(f"it has no tables of {names}", path=first.path, hint=first.hint)
    elif not count and share is None:
        names = " and ".join(found.name for found in readers if found.name not in not_theirs)
        yield LogError(f"the {names} source finds no run in it", path=f"{scheme}://…")


def readers_of(address: str) -> list[Any]:
    """The sources that read stores of an address's scheme; each says whether it finds its tables. Raises LogError."""
    scheme = address.partition("://")[0].lower()
    found = [source for source in sources() if scheme in getattr(source, "schemes", ())]
    if not found:
        raise _no_reader(scheme)
    return found


def _no_reader(scheme: str) -> LogError:
    if scheme in _STORES_NOT_READ:
        return LogError(
            f"checkpoints in a {printable(scheme)} store are not supported",
            hint="SQLite files and PostgreSQL are; or register a source of your own (pytest_loom_sources).",
        )
    return LogError(f"no source reads {printable(scheme)}:// addresses")


def _source_failed(source: Source, file: Path, problem: Exception) -> LogError:
    """A source that breaks is one more log that cannot be read: it hides no other file. Its traceback is the cause."""
    error = LogError(
        f"the {source.name} source failed on it: {type(problem).__name__}: {printable(str(problem))}",
        path=str(file),
        hint="This is a mistake in the source, not in the log.",
    )
    error.__cause__ = problem
    return error


def source_of(file: Path) -> Source:
    """The source that knows the file. Raises LogError where none does, or the file cannot be read at all."""
    return _source_of(file, read_head(file))


def _source_of(file: Path, head: bytes) -> Source:
    for source in sources():
        try:
            known = source.sniff(file, head)
        except Exception as problem:
            raise _source_failed(source, file, problem) from problem
        if known:
            return source
    what = "this is not a log that any source knows"
    if head.startswith(b"SQLite format 3\0"):
        what = "no source knows this SQLite database"
    raise LogError(
        f"{what} (asked: {', '.join(source.name for source in sources())})",
        path=str(file),
        hint="A source for your own format is registered with the pytest_loom_sources hook.",
    )


def find_files(source: str | os.PathLike[str], *, root: Path | None = None) -> list[Path]:
    """The files that a path, a glob or a directory names, sorted; relative ones are looked up from ``root``.

    A directory gives every file below it that has a suffix of a registered source; a glob gives what it matches, less
    SQLite's side files, candidates that wait for review, and directories. What cannot be opened (a dangling link, a
    pipe) is given too, for its reader to say so. Raises LogError where there is nothing, or a directory cannot be
    listed.
    """
    text = os.fspath(source)
    if is_address(text):
        raise LogError("this is an address, not a path", hint="load_logs() reads addresses.")
    path = Path(text) if root is None else root / text
    if os.path.isdir(path):
        files = _walk(path)
        what = "no log in this directory"
    elif glob.has_magic(text) and not os.path.lexists(path):  # a file may really be called run[1].loom.jsonl
        files = _glob(text, root)
        what = "no file matches this pattern"
    else:
        return [path]
    if not files:
        raise LogError(what, path=str(path), hint="An empty corpus proves nothing, so it is an error.")
    return sorted(files, key=attrgetter("parts"))


def _glob(pattern: str, root: Path | None) -> list[Path]:
    base = "" if Path(pattern).is_absolute() else str(root or "")
    never = _NEVER_WALKED.difference(Path(pattern).parts)  # what the pattern itself names is meant
    try:
        names = set(glob.iglob(pattern, root_dir=base or None, recursive=True))
    except (OSError, ValueError) as problem:
        raise LogError(f"cannot be looked up: {problem}", path=pattern) from None
    files = [Path(base, name) for name in names if _may_be_log(name) and not never & set(Path(name).parts)]
    return [file for file in files if not os.path.isdir(file)]


def _unlistable(problem: OSError) -> None:
    raise LogError(f"cannot be listed: {problem.strerror}", path=os.fspath(problem.filename))


def _walk(folder: Path) -> list[Path]:
    suffixes = tuple(suffix for source in sources() for suffix in source.suffixes)
    files: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=_unlistable):
        folders[:] = [name for name in folders if name not in _NEVER_WALKED and not name.startswith(".")]
        files += [Path(parent, name) for name in names if name.endswith(suffixes) and not name.startswith(".")]
    return [file for file in files if _may_be_log(file.name)]


def _may_be_log(name: str) -> bool:
    return not name.endswith((*SIDE_FILES, *CANDIDATES)) and Path(name).name != SIDECAR


def masked_address(source: str) -> str:
    """A source as it may be shown and kept: an address without its password and options, a path as it is."""
    if not is_address(source):
        return source
    reader = next((reader for reader in readers_of(source) if hasattr(reader, "masked")), None)
    if reader is not None:
        return str(reader.masked(source))
    try:
        parts = urlsplit(source)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return f"{printable(source.partition('://')[0])}://…"
    user = f"{parts.username}@" if parts.username else ""
    return urlunsplit((parts.scheme, f"{user}{parts.hostname or ''}{port}", parts.path, "", ""))
