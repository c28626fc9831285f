"""Files as logs see them: opened with suspicion, read in bounded pieces, written atomically and under a lock."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import stat
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from pytest_loom.errors import LogError

MAX_LINE = 32 * 1024 * 1024
"""Bytes that one line (one event) may have."""

MAX_DOCUMENT = 256 * 1024 * 1024
"""Bytes that a log which is one JSON document may have, after decompression."""

SIDE_FILES = ("-wal", "-shm", "-journal")
"""How SQLite ends the names of its side files: they are parts of a database, never logs."""

CANDIDATES = (".jsonl.new", ".jsonl.gz.new")
"""How files of candidates that wait for review end: they lie beside goldens, and are no recorded runs."""

_GZIP_MAGIC = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"
_BLOCK = 1024 * 1024


def check_file(path: Path) -> None:
    """Raise LogError unless ``path`` is an ordinary file that may be a log. Never opens pipes or devices."""
    name = str(path)
    if name.endswith(SIDE_FILES):
        raise LogError(
            "this is a side file of an SQLite database, never a log", path=name, hint="Name the database itself."
        )
    try:
        facts = os.stat(path)
    except (OSError, ValueError) as problem:
        raise LogError(f"cannot be read: {_reason(problem)}", path=name) from None
    if stat.S_ISDIR(facts.st_mode):
        raise LogError("this is a directory, not a log file", path=name, hint="load_logs() walks directories.")
    if not stat.S_ISREG(facts.st_mode):
        raise LogError("this is not an ordinary file", path=name)
    if facts.st_size == 0:
        raise LogError("the file is empty", path=name)


@contextlib.contextmanager
def open_log(path: Path) -> Iterator[IO[bytes]]:
    """A checked file opened for reading, decompressed if it is gzip. Reading damage is raised as LogError."""
    check_file(path)
    try:
        with contextlib.ExitStack() as stack:
            stream: IO[bytes] = stack.enter_context(path.open("rb"))
            magic = stream.read(2)
            stream.seek(0)
            if magic == _GZIP_MAGIC:
                stream = cast("IO[bytes]", stack.enter_context(gzip.GzipFile(fileobj=stream, mode="rb")))
            yield stream
    except EOFError:
        raise LogError("the compressed file is cut off", path=str(path)) from None
    except zlib.error as problem:
        raise LogError(f"the compressed file is damaged: {problem}", path=str(path)) from None
    except OSError as problem:
        raise LogError(f"cannot be read: {_reason(problem)}", path=str(path)) from None


HEAD = 64 * 1024
"""Bytes of a file that are looked at to tell what it is; a shorter file is read as a whole."""


def read_head(path: Path) -> bytes:
    """The first HEAD bytes of a file, decompressed, for sniffing."""
    check_file(path)
    try:
        with open(path, "rb", buffering=0) as stream:
            head = stream.read(HEAD)
    except OSError as problem:
        raise LogError(f"cannot be read: {_reason(problem)}", path=str(path)) from None
    if not head.startswith(_GZIP_MAGIC):
        return head
    with open_log(path) as unpacked:
        return unpacked.read(HEAD)


def read_document(path: Path) -> bytes:
    """The whole of a file that is one JSON document, decompressed. Raises LogError over MAX_DOCUMENT bytes."""
    with open_log(path) as stream:
        data = stream.read(MAX_DOCUMENT + 1)
    if len(data) > MAX_DOCUMENT:
        raise LogError(f"more than {MAX_DOCUMENT // 1024**2} MiB in one document", path=str(path))
    return data


def line_blocks(stream: IO[bytes], path: Path) -> Iterator[tuple[int, int, bytes]]:
    """The file in blocks of whole lines: the first line's number, how many lines, and their bytes.

    Only the last line may lack its newline. A UTF-8 byte order mark at the start is left out: some editors write one.
    Raises LogError over MAX_LINE bytes without a newline (give or take a block).
    """
    line = 1
    rest: list[bytes] = []
    held = 0
    is_first = True
    while chunk := stream.read(_BLOCK):
        if is_first:
            chunk = chunk.removeprefix(BOM)
            is_first = False
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            rest.append(chunk)
            held += len(chunk)
        else:
            block = b"".join([*rest, chunk[:cut]]) if rest else chunk[:cut]
            rest = [chunk[cut:]] if cut < len(chunk) else []
            held = len(chunk) - cut
            lines = block.count(b"\n")
            yield line, lines, block
            line += lines
        if held > MAX_LINE:
            raise LogError(f"a line of more than {MAX_LINE // 1024**2} MiB", path=str(path), line=line)
    if rest:
        yield line, 1, b"".join(rest)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file's content as one act (``replacing``)."""
    with replacing(path) as stream:
        stream.write(data)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose content replaces the file when the block ends well.

    After a crash there is the old file or the new one, never a part. A symbolic link is followed, an existing file
    keeps its permissions.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:60]}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        with contextlib.suppress(OSError):
            os.chmod(temporary, _mode_for(target))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock on ``path`` between processes of this machine, so that two workers cannot rewrite it at once.

    The lock lies in the temporary directory and is let go by the operating system when a process dies.
    """
    name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:24]
    lock = Path(tempfile.gettempdir()) / f"pytest-loom-{name}.lock"
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        _lock(handle)
        yield
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows has its own call
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(handle, fcntl.LOCK_EX)


def _mode_for(target: Path) -> int:
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except OSError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask


def _reason(problem: OSError | ValueError) -> str:
    return (problem.strerror if isinstance(problem, OSError) else None) or str(problem) or type(problem).__name__
