"""The zip file that a ``.eval`` log is, opened with suspicion: bounded in members, bytes and names, never extracted.

Members are compressed with zstandard (method 93), which ``zipfile`` knows from Python 3.14 on; older logs are deflated.
So zipfile reads the directory, and zstandard members are taken from the file by their offset. ``compression.zstd`` of
3.14 and its backport ``backports.zstd`` (the extra ``inspect``) have the same interface; ``zstandard``, which Inspect
itself brings along, will do as well. A sample is one member, or a folder of chunks, as Inspect's ``large-samples``
design has it: https://github.com/UKGovernmentBEIS/inspect_ai/tree/main/design
"""

from __future__ import annotations

import importlib
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from pytest_loom.errors import LogError, printable
from pytest_loom.log.files import MAX_DOCUMENT, check_file
from pytest_loom.sources.shape import Malformed, listed, table

MAX_MEMBERS = 100_000
MAX_UNPACKED = 4 * 1024**3
"""Bytes that all members of a file may have together, when they are unpacked."""

_ZSTANDARD = 93
_LOCAL = struct.Struct("<4s5H3L2H")
_SAMPLE = re.compile(r"samples/.*_epoch_\d+\.json")
_SHELL = re.compile(r"(samples/.*_epoch_\d+)/sample\.json")
_CHUNK = re.compile(r"(samples/.*_epoch_\d+)/(events|messages|calls|attachments)/(\d{1,18})\.json")
_DAMAGE = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    OSError,
    EOFError,
    ValueError,
    struct.error,
    zlib.error,
)


def looks_like_archive(head: bytes) -> bool:
    """Whether a file begins like a zip whose first member is one of Inspect's."""
    return head[:4] == b"PK\x03\x04" and head[30:].startswith((b"_journal/", b"header.json", b"samples/"))


class Archive:
    """An open ``.eval`` file: ``names`` of its members, ``samples`` the ones that are a sample each."""

    def __init__(self, path: Path) -> None:
        check_file(path)
        self.path = path
        self.unpacked = 0
        try:
            self.zip = zipfile.ZipFile(path)
        except _DAMAGE as problem:
            raise Malformed(f"it is no zip file ({printable(str(problem)) or type(problem).__name__})") from None
        try:
            self._members = self._checked()
        except Malformed:
            self.zip.close()
            raise
        self.names = set(self._members)
        self._chunks: dict[str, dict[str, list[tuple[int, str]]]] = {}
        self.samples: list[str] = []
        for name in self._members:
            if chunk := _CHUNK.fullmatch(name):
                self._chunks.setdefault(chunk[1], {}).setdefault(chunk[2], []).append((int(chunk[3]), name))
            elif _SAMPLE.fullmatch(name) or _SHELL.fullmatch(name):
                self.samples.append(name)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.zip.close()

    def _checked(self) -> dict[str, zipfile.ZipInfo]:
        """The members by name, of several with one name the last, as Inspect has it."""
        found = self.zip.infolist()
        if len(found) > MAX_MEMBERS:
            raise Malformed(f"it has more than {MAX_MEMBERS} members")
        end = 0
        for member in sorted(found, key=lambda member: member.header_offset):
            if member.header_offset < end:
                raise Malformed("its members lie over each other")
            end = member.header_offset + _LOCAL.size + member.compress_size
            name = member.orig_filename
            if name.startswith("/") or "\\" in name or not name.isprintable() or ".." in name.split("/"):
                raise Malformed(f"a member is called {printable(name)}, as none of Inspect's is")
            if member.flag_bits & 1:
                raise Malformed(f"{printable(name)} is encrypted")
        return {member.filename: member for member in found}

    def read(self, name: str) -> bytes:
        """A member, unpacked. Raises Malformed for a damaged or an excessive one, LogError without zstandard."""
        member = self._members[name]
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTANDARD):
            raise Malformed(
                f"{printable(name)} is compressed by method {member.compress_type}, which Inspect never uses"
            )
        limit = min(MAX_DOCUMENT, MAX_UNPACKED - self.unpacked)
        try:
            if member.compress_type == _ZSTANDARD:
                with _zstandard(self.path)(io.BytesIO(self._packed(member))) as stream:
                    data: bytes = stream.read(limit + 1)
            else:
                with self.zip.open(member) as plain:
                    data = plain.read(limit + 1)
        except (Malformed, LogError):
            raise
        except Exception as problem:  # each library has errors of its own for damaged data
            raise Malformed(f"{printable(name)} is damaged ({type(problem).__name__})") from None
        if len(data) > limit:
            raise Malformed(f"{printable(name)} is too large: more than {limit // 1024**2} MiB when it is unpacked")
        if zlib.crc32(data) != member.CRC:
            raise Malformed(f"{printable(name)} is damaged (its checksum is another)")
        self.unpacked += len(data)
        return data

    def _packed(self, member: zipfile.ZipInfo) -> bytes:
        with self.path.open("rb") as file:
            file.seek(member.header_offset)
            local = _LOCAL.unpack(file.read(_LOCAL.size))
            if local[0] != b"PK\x03\x04":
                raise Malformed(f"{printable(member.filename)} has no header")
            file.seek(local[9] + local[10], io.SEEK_CUR)
            return file.read(member.compress_size)

    def sample(self, name: str, parsed: Callable[[bytes], Any]) -> Any:
        """A sample as the one document that it is, or would be if it were not in chunks. Raises what ``read`` does."""
        sample = parsed(self.read(name))
        shell_name = _SHELL.fullmatch(name)
        if shell_name is None:
            return sample
        parts: dict[str, list[Any]] = {}
        for part, chunks in self._chunks.get(shell_name[1], {}).items():
            parts[part] = [item for _, chunk in sorted(chunks) for item in listed(parsed(self.read(chunk)), part)]
        shell = dict(table(sample, "a sample"))
        shell["events"] = parts.get("events", [])
        shell["events_data"] = {"messages": parts.get("messages", []), "calls": parts.get("calls", [])}
        shell["attachments"] = {str(index): value for index, value in enumerate(parts.get("attachments", []))}
        return shell


def _zstandard(path: Path) -> Callable[[IO[bytes]], IO[bytes]]:
    """What opens a zstandard stream. Raises LogError where nothing is installed that does."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            opener: Callable[[IO[bytes]], IO[bytes]] = importlib.import_module(name).ZstdFile
        except ImportError:
            continue
        return opener
    try:
        decompressor = importlib.import_module("zstandard").ZstdDecompressor()
    except ImportError:
        raise LogError(
            "it is compressed with zstandard, which this Python cannot read",
            path=str(path),
            hint="pip install 'pytest-loom[inspect]'",
        ) from None
    return lambda stream: decompressor.stream_reader(stream, read_across_frames=True)
