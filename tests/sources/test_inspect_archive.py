"""The zip file that an ``.eval`` log is: each way to compress, samples in chunks, and hostile archives."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import Log, LogError, load_log
from pytest_loom.sources import iter_file
from pytest_loom.sources.inspect_ai import archive, source

HEADER = json.dumps({"version": 2, "eval": {"task": "t", "task_id": "T", "created": "2026-01-05T10:00:00Z"}})
SAMPLE = json.dumps({"id": 1, "epoch": 1, "input": "x", "uuid": "U", "messages": [{"role": "user", "content": "x"}]})
NAME = "samples/1_epoch_1.json"


def packed(path: Path, members: list[tuple[str, str]], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """A zip file with these members."""
    with zipfile.ZipFile(path, "w", method) as file:
        for name, text in members:
            file.writestr(zipfile.ZipInfo(name), text, compress_type=method)
    return path


def refusal(path: Path) -> str:
    """Why a file is refused."""
    with pytest.raises(LogError) as caught:
        load_log(path)
    assert caught.value.path == str(path)
    return caught.value.what


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where to put a log."""
    return tmp_path / "log.eval"


class TestReading:
    @pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    def test_plain_members_need_no_extra(self, method: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What Python itself unpacks is read without anything installed."""
        monkeypatch.setattr(archive, "_zstandard", None)
        packed(path, [("header.json", HEADER), (NAME, SAMPLE)], method)
        assert load_log(path).execution_id == "U"

    def test_a_log_under_way_is_read_by_its_journal(self, path: Path) -> None:
        """The header is written last: until then the start of the journal says what task it is."""
        packed(path, [("_journal/start.json", HEADER), (NAME, SAMPLE)])
        assert load_log(path).workflow_id == "t"

    def test_a_sample_that_is_written_again_counts_once(self, path: Path) -> None:
        """Of several members with one name the last is the sample."""
        with pytest.warns(UserWarning, match="Duplicate name"):
            packed(path, [("header.json", HEADER), (NAME, SAMPLE), (NAME, SAMPLE.replace('"U"', '"V"'))])
        assert [item.execution_id for item in iter_file(path) if isinstance(item, Log)] == ["V"]

    def test_a_sample_in_chunks_is_put_together(self, path: Path) -> None:
        """Its sequences stand in members named by their first index; attachments are referred to by theirs."""
        folder = "samples/1_epoch_1"
        calls = [
            {"event": "tool", "timestamp": 5, "id": str(n), "function": "f", "arguments": {"a": f"attachment://{n}"}}
            for n in range(3)
        ]
        asked = {"event": "model", "timestamp": 6, "model": "m", "input_refs": [[0, 2]], "input": [], "output": {}}
        parts: dict[str, Any] = {
            "sample.json": {"id": 1, "epoch": 1, "input": "x", "uuid": "U", "message_refs": [[0, 2]]},
            "metadata.json": {"k": 1},
            "skeleton.json": [],
            "events/stats.json": [],
            "events/10.json": [asked],
            "events/2.json": calls[2:],
            "events/0.json": calls[:2],
            "messages/0.json": [{"role": "user", "content": "attachment://0"}, {"role": "assistant", "content": "hi"}],
            "calls/0.json": [],
            "attachments/0.json": ["zero", "one"],
            "attachments/2.json": ["two"],
        }
        members = [(f"{folder}/{name}", json.dumps(part)) for name, part in parts.items()]
        packed(path, [("header.json", HEADER), *members])
        log = load_log(path)
        assert [call.args for call in log.state.calls if call.kind == "tool"] == [
            {"a": "zero"},
            {"a": "one"},
            {"a": "two"},
        ]
        (request,) = [one.payload["request"] for one in log.events if one.event_type == "MODEL_REQUESTED"]
        assert [message["content"] for message in request["messages"]] == ["zero", "hi"]

    def test_it_is_known_without_its_suffix(self, tmp_path: Path) -> None:
        """The first member of an Inspect log is one of its own; another zip file is not taken."""
        for name, taken in (("_journal/start.json", True), (NAME, True), ("word/document.xml", False)):
            path = packed(tmp_path / "x.zip", [(name, HEADER)])
            assert source.sniff(path, path.read_bytes()) is taken


class TestHostile:
    def test_a_bomb_is_not_unpacked(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """More bytes than a document may have are refused, whatever the directory says of their number."""
        monkeypatch.setattr(archive, "MAX_DOCUMENT", 10_000)
        packed(path, [("header.json", HEADER), (NAME, "0" * 1_000_000)])
        data = path.read_bytes()
        path.write_bytes(data.replace(struct.pack("<L", 1_000_000), struct.pack("<L", 100)))
        (item,) = iter_file(path)
        assert isinstance(item, LogError)
        assert "too large" in item.what or "damaged" in item.what

    def test_many_small_bombs_are_one(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What all members come to is bounded as well."""
        monkeypatch.setattr(archive, "MAX_UNPACKED", 5_000)
        members = [(f"samples/{n}_epoch_1.json", SAMPLE + " " * 1_000) for n in range(10)]
        packed(path, [("header.json", HEADER), *members])
        found = list(iter_file(path))
        assert sum(isinstance(item, Log) for item in found) == 4
        assert {"too large" in item.what for item in found if isinstance(item, LogError)} == {True}

    def test_too_many_members(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A directory of more members than any evaluation has samples."""
        monkeypatch.setattr(archive, "MAX_MEMBERS", 3)
        packed(path, [(f"samples/{n}_epoch_1.json", "{}") for n in range(4)])
        assert "more than 3 members" in refusal(path)

    @pytest.mark.parametrize("name", ["../x_epoch_1.json", "/samples/1_epoch_1.json", "samples\\1.json", "a\nb"])
    def test_odd_names(self, name: str, path: Path) -> None:
        """A member is never written anywhere, and one that is named as if it should be is refused."""
        packed(path, [("header.json", HEADER), ("samples/1_epoch_1.json", SAMPLE), (name, "{}")])
        assert "a member is called" in refusal(path)

    def test_an_encrypted_member(self, path: Path) -> None:
        """Nothing asks for a password."""
        packed(path, [("header.json", HEADER), (NAME, SAMPLE)])
        data = bytearray(path.read_bytes())
        at = data.rindex(b"PK\x01\x02")
        data[at + 8] |= 1
        path.write_bytes(data)
        assert "is encrypted" in refusal(path)

    def test_members_that_lie_over_each_other(self, path: Path) -> None:
        """Several entries for the same bytes are how a small file unpacks to a huge one."""
        packed(path, [("header.json", HEADER), (NAME, SAMPLE)])
        data = path.read_bytes()
        at = data.rindex(b"PK\x01\x02")
        path.write_bytes(data[: at + 42] + struct.pack("<L", 0) + data[at + 46 :])
        assert "lie over each other" in refusal(path)

    def test_a_method_that_inspect_does_not_use(self, path: Path) -> None:
        """LZMA's headers say how much memory to take: only what Inspect writes is unpacked."""
        packed(path, [("header.json", HEADER), (NAME, SAMPLE)], zipfile.ZIP_LZMA)
        assert "method 14" in refusal(path)

    def test_damage_anywhere_is_a_refusal(self, path: Path) -> None:
        """Every byte of a small log cut off, or changed, gives a log or a LogError."""
        packed(path, [("header.json", HEADER), (NAME, SAMPLE)])
        data = path.read_bytes()
        for end in range(1, len(data), 7):
            path.write_bytes(data[:end])
            assert all(isinstance(item, (Log, LogError)) for item in source.read(path))
        for at in range(0, len(data), 3):
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x5A]) + data[at + 1 :])
            assert all(isinstance(item, (Log, LogError)) for item in source.read(path))

    def test_damaged_zstandard(self, cases: Path, path: Path) -> None:
        """Members that are no zstandard, though they say so, are named."""
        real = next((cases / "corpus" / "inspect_ai").glob("*.eval")).read_bytes()
        at = real.index(b"\x28\xb5\x2f\xfd", real.index(b"samples/"))
        for change in (real[: at + 4] + bytes(60) + real[at + 64 :], real[:at] + b"abcd" + real[at + 4 :]):
            path.write_bytes(change)
            (item,) = iter_file(path)
            assert isinstance(item, LogError)
            assert "is damaged" in item.what

    def test_what_is_no_zip_file(self, path: Path) -> None:
        """A file with the suffix that holds something else."""
        path.write_bytes(io.BytesIO(b"not a zip").getvalue())
        assert "it is no zip file" in refusal(path)
        packed(path, [(NAME, SAMPLE)])
        assert "neither header.json nor" in refusal(path)
