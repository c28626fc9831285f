"""Captured contracts: written once and never again, found by what a run says, and refused where they are damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path, PureWindowsPath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loom import Context, Contract, FlowError, contract_of, flow, step
from pytest_loom.contract import store
from pytest_loom.contract.fingerprint import fingerprint
from pytest_loom.contract.store import Contracts, capture, folder_name, load_contracts

MONDAY = datetime(2026, 3, 2, 9, 30, 15, 250_000, tzinfo=UTC)
DAY = timedelta(days=1)


def contract(steps: str = "pack", workflow_id: str = "order", **parts: Any) -> Contract:
    """A contract with some steps."""
    return Contract.model_validate({"workflowId": workflow_id, "steps": {one: {} for one in steps.split()}, **parts})


def ms(moment: datetime) -> float:
    """A moment as logs say it."""
    return moment.timestamp() * 1000


def written(folder: Path, data: Any, name: str = "order/one.json") -> Path:
    """A file with some JSON, or with some text."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    return path


class TestCapture:
    def test_what_is_written(self, tmp_path: Path) -> None:
        """One pretty file by fingerprint, with the time in UTC and the contract in its JSON form, without nulls."""
        one = contract("pack ship", inputSchema={"type": ["string", "null"], "default": None, "title": "é"})
        path = capture(tmp_path, one, MONDAY.astimezone(timezone(timedelta(hours=2))))
        assert path == tmp_path / "order" / f"{fingerprint(one)}.json"
        assert path is not None
        assert path.read_text() == (
            "{\n"
            '  "capturedAt": "2026-03-02T09:30:15.250Z",\n'
            '  "contract": {\n'
            '    "inputSchema": {\n'
            '      "default": null,\n'
            '      "title": "\\u00e9",\n'
            '      "type": [\n'
            '        "string",\n'
            '        "null"\n'
            "      ]\n"
            "    },\n"
            '    "steps": {\n'
            '      "pack": {},\n'
            '      "ship": {}\n'
            "    },\n"
            '    "workflowId": "order"\n'
            "  },\n"
            f'  "fingerprint": "{fingerprint(one)}"\n'
            "}\n"
        )
        assert os.listdir(path.parent) == [path.name]

    def test_it_comes_back_as_it_was(self, tmp_path: Path) -> None:
        """What is loaded is the contract that was captured, with its time and file."""
        one = contract("pack ship", joins={"ship": ["a", "b"]}, tools={"t": {"permissions": ["x"], "version": 2}})
        path = capture(tmp_path, one, MONDAY)
        (kept,) = load_contracts(tmp_path).kept("order")
        assert (kept.contract, kept.captured_at, kept.path) == (one, MONDAY, path)
        assert kept.fingerprint == fingerprint(one)

    def test_never_a_second_time(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is kept stays as it was captured first, whatever words or version it has now."""
        path = capture(tmp_path, contract(version="1"), MONDAY)
        assert path is not None
        before = path.read_bytes()
        monkeypatch.setattr(os, "fsync", None)  # it does not come to write anything
        assert capture(tmp_path, contract(version="2", steps="pack"), MONDAY + DAY) is None
        assert path.read_bytes() == before
        assert os.listdir(path.parent) == [path.name]

    def test_not_even_what_is_damaged(self, tmp_path: Path) -> None:
        """Evidence is not mended by overwriting it."""
        path = written(tmp_path, b"", f"order/{fingerprint(contract())}.json")
        assert capture(tmp_path, contract(), MONDAY) is None
        assert path.read_bytes() == b""

    def test_each_contract_has_its_own_file(self, tmp_path: Path) -> None:
        """Contracts that promise different things, or are of different workflows, lie side by side."""
        for one in (contract(), contract("ship"), contract(workflow_id="Order"), contract(workflow_id="a/b")):
            assert capture(tmp_path, one, MONDAY)
        names = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.json"))
        assert [name.partition("/")[0] for name in names] == ["%4frder", "a%2fb", "order", "order"]

    def test_another_process_is_faster(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the file comes into being between the look and the write, it stays, and nothing is left behind."""
        path = tmp_path / "order" / f"{fingerprint(contract())}.json"
        link = os.link

        def late(source: Any, target: Any) -> None:
            path.write_text("theirs")
            link(source, target)

        monkeypatch.setattr(os, "link", late)
        assert capture(tmp_path, contract(), MONDAY) is None
        assert path.read_text() == "theirs"
        assert os.listdir(path.parent) == [path.name]

    def test_a_disk_without_links(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The file is made all the same, and still never over another."""

        def refuse(source: Any, target: Any) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        path = capture(tmp_path, contract(), MONDAY)
        assert path is not None
        assert load_contracts(tmp_path).kept("order")[0].contract == contract()
        assert os.listdir(path.parent) == [path.name]
        monkeypatch.setattr(Path, "exists", lambda self: False)
        before = path.read_bytes()
        assert capture(tmp_path, contract(), MONDAY + DAY) is None
        assert path.read_bytes() == before

    def test_two_processes_at_once(self, tmp_path: Path) -> None:
        """Of workers that capture the same contracts, one writes each, and every file is whole."""
        code = (
            "import sys, pathlib, datetime\n"
            "from pytest_loom import Contract\n"
            "from pytest_loom.contract.store import capture\n"
            "print('ready', flush=True); sys.stdin.readline()\n"
            "for n in range(40):\n"
            "    one = Contract.model_validate({'workflowId': 'order', 'steps': {f's{n}': {}}})\n"
            "    path = capture(pathlib.Path(sys.argv[1]), one, datetime.datetime.now(datetime.timezone.utc))\n"
            "    print(path.name if path else '-')\n"
        )
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(2)
        ]
        for one in workers:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        for one in workers:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        said = [one.communicate(timeout=60)[0].split() for one in workers]
        names = [name for lines in said for name in lines if name != "-"]
        assert [one.returncode for one in workers] == [0, 0]
        assert len(names) == len(set(names)) == 40
        assert sorted(names) == sorted(os.listdir(tmp_path / "order"))
        assert len(load_contracts(tmp_path).kept("order")) == 40

    def test_a_folder_that_cannot_be_written(self, tmp_path: Path) -> None:
        """The error names the file, and says why."""
        (tmp_path / "order").write_text("a file where the folder belongs")
        with pytest.raises(FlowError, match=r"the contract cannot be written: \w+") as caught:
            capture(tmp_path, contract(), MONDAY)
        assert caught.value.path.endswith(f"{fingerprint(contract())}.json")
        assert caught.value.hint

    def test_a_crash_on_the_way_leaves_no_part(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where writing fails, no file is there that could be taken for a contract."""

        def fail(handle: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(FlowError, match="No space left on device"):
            capture(tmp_path, contract(), MONDAY)
        assert os.listdir(tmp_path / "order") == []

    def test_not_even_on_a_disk_without_links(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """There the file itself is written, and taken away where that fails."""

        def fail(*args: Any) -> None:
            raise OSError(28, "No space left on device")

        def refuse(source: Any, target: Any) -> None:
            monkeypatch.setattr(os, "fsync", fail)
            fail()

        monkeypatch.setattr(os, "link", refuse)
        with pytest.raises(FlowError, match="No space left on device"):
            capture(tmp_path, contract(), MONDAY)
        assert os.listdir(tmp_path / "order") == []


IDS = st.text(max_size=6) | st.text(alphabet="aA.~%-_/ \\:éE\u0301\u0130\u0131ßk\u212a", max_size=4)
WINDOWS = ["con", "PRN", "aux", "nul", "com1", "lpt9", "con.txt", "nul.tar.gz", "aux.", "com1 ", "CONIN$", "com\u00b9"]
ODD = [".", "..", "...", "a.", ".a", "a/b", "a\\b", "/etc", "C:", "~", "", " ", "a ", "%41", "\0", "\n", "A", "a"]


class TestFolderNames:
    @pytest.mark.parametrize("workflow_id", [*WINDOWS, *ODD, "x" * 5000, "X" * 60, "\ud800"])
    def test_odd_ids(self, workflow_id: str) -> None:
        """No id leaves the folder, hides, is reserved on Windows, or is too long for a disk."""
        name = folder_name(workflow_id)
        assert Path(name).name == PureWindowsPath(name).name == name not in ("", ".", "..")
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789%-_.~")
        assert name[0] != "."
        assert name[-1] != "."
        assert name.partition(".")[0] not in {"con", "prn", "aux", "nul", "com1", "lpt9"}
        assert len(name) <= 120

    def test_plain_ids_stay_readable(self) -> None:
        """An id of small letters is its folder's name; another is encoded where it has to be."""
        assert folder_name("refund-v2.eu_1") == "refund-v2.eu_1"
        assert folder_name("app.flows:Refund") == "app.flows%3a%52efund"

    @given(ids=st.sets(IDS | st.sampled_from([*WINDOWS, *ODD]), min_size=2, max_size=8))
    def test_different_ids_have_different_folders(self, ids: set[str]) -> None:
        """On a disk that does not tell capitals apart, or composes letters, too."""
        assert len({folder_name(one).casefold() for one in ids}) == len(ids)

    def test_long_ids_that_begin_alike(self) -> None:
        """Long ids are told by all of their text, and never share a folder with a short one."""
        one, other = folder_name("x" * 300 + "a"), folder_name("x" * 300 + "b")
        assert one != other
        for name in (one, folder_name("")):
            assert folder_name(name) != name


class TestWhichContract:
    def kept(self, tmp_path: Path) -> Contracts:
        """Three contracts, captured on three days."""
        for day, steps in enumerate(("pack", "pack ship", "ship")):
            capture(tmp_path, contract(steps), MONDAY + day * DAY)
        return load_contracts(tmp_path)

    def test_the_one_that_the_run_names(self, tmp_path: Path) -> None:
        """A fingerprint goes before any date."""
        contracts = self.kept(tmp_path)
        for steps in ("pack", "pack ship", "ship"):
            assert contracts.of("order", fingerprint(contract(steps)), ms(MONDAY - DAY)) == contract(steps)

    @pytest.mark.parametrize("named", [None, "0123456789abcdef"])
    @pytest.mark.parametrize(
        ("moment", "steps"),
        [
            (MONDAY - DAY, "pack"),
            (MONDAY + 0.5 * DAY, "pack"),
            (MONDAY + DAY, "pack ship"),
            (MONDAY + 1.5 * DAY, "pack ship"),
            (MONDAY + 100 * DAY, "ship"),
            (None, "pack"),
        ],
        ids=["before-all", "first-day", "to-the-ms", "second-day", "long-after", "no-time"],
    )
    def test_else_by_date(self, tmp_path: Path, moment: datetime | None, steps: str, named: str | None) -> None:
        """The newest from before the run's last event, else the oldest."""
        found = self.kept(tmp_path).of("order", named, None if moment is None else ms(moment))
        assert found == contract(steps)

    def test_the_oldest_first(self, tmp_path: Path) -> None:
        """By date, not by name; what has no date comes before."""
        contracts = self.kept(tmp_path)
        assert [one.captured_at for one in contracts.kept("order")] == [MONDAY, MONDAY + DAY, MONDAY + 2 * DAY]
        written(tmp_path, {"workflowId": "order"}, "order/zzz.json")
        assert [one.captured_at for one in load_contracts(tmp_path).kept("order")][:2] == [None, MONDAY]

    def test_whether_it_is_known(self, tmp_path: Path) -> None:
        """Only what is kept for that workflow."""
        capture(tmp_path, contract("pay", workflow_id="bill"), MONDAY)
        contracts = self.kept(tmp_path)
        assert contracts.knows("order", fingerprint(contract("ship")))
        assert not contracts.knows("order", fingerprint(contract("pay")))
        assert not contracts.knows("nobody", fingerprint(contract("ship")))

    def test_nothing_kept(self, tmp_path: Path) -> None:
        """No contract, no guess."""
        contracts = self.kept(tmp_path)
        assert contracts.kept("bill") == []
        assert contracts.of("bill", fingerprint(contract()), ms(MONDAY)) is None


class TestSources:
    def test_what_is_taken(self, tmp_path: Path) -> None:
        """A contract, its JSON, mappings of either, files and folders give the same contract."""
        one, data = contract(), {"workflowId": "order", "steps": {"pack": {}}}
        captured = capture(tmp_path / "captured", one, MONDAY)
        plain = written(tmp_path / "plain", data, "order/any.json")
        beside = written(tmp_path / "beside", data, "mine.json").parent
        for source in (
            *(one, data, {"order": one}, {"order": data}, {"order": [one]}, {"order": (data,)}),
            *(captured, str(captured), plain, tmp_path / "captured", str(tmp_path / "plain"), beside),
        ):
            contracts = load_contracts(source)
            assert contracts.of("order", None, None) == one
            assert contracts.kept("bill") == []

    def test_a_list_is_from_the_oldest_to_the_newest(self) -> None:
        """A run that names none of them is held against the newest."""
        contracts = load_contracts({"order": [contract("pack"), contract("ship")]})
        assert contracts.of("order", None, ms(MONDAY)) == contract("ship")
        assert contracts.of("order", fingerprint(contract("pack")), ms(MONDAY)) == contract("pack")

    def test_a_flow(self, tmp_path: Path) -> None:
        """What @flow declares can be captured, and is found again by the fingerprint of the same declaration."""

        @step
        def pack(sku: str, count: int = 1) -> float:
            return 1.0

        @flow(id="Order", version="1", steps=[pack], gates={"Signed": str}, versions={"state": 2})
        async def order(ctx: Context, sku: str) -> str | None:
            return sku

        capture(tmp_path, contract_of(order), MONDAY)
        contracts = load_contracts(tmp_path)
        assert contracts.of("Order", fingerprint(contract_of(order)), None) == contract_of(order)
        assert contracts.kept("order") == []

    @pytest.mark.parametrize("source", [None, 7, ["x"], Contract], ids=["None", "number", "list", "the-class"])
    def test_what_is_not(self, source: Any) -> None:
        """The error says which shapes are taken."""
        with pytest.raises(FlowError, match="contracts cannot be a") as caught:
            load_contracts(source)
        assert "the folder of captured contracts" in caught.value.hint

    def test_what_is_not_there(self, tmp_path: Path) -> None:
        """A path that leads nowhere is an error, and not a folder without contracts."""
        with pytest.raises(FlowError, match="no such file or folder") as caught:
            load_contracts(tmp_path / "nowhere")
        assert caught.value.path == str(tmp_path / "nowhere")

    @pytest.mark.parametrize("value", [{"steps": {}}, {"workflowId": "bill"}], ids=["no-contract", "of-another"])
    def test_a_mapping_of_something_else(self, value: Any) -> None:
        """What is no contract, or is of another workflow than it is given for, is refused at once."""
        with pytest.raises(FlowError):
            load_contracts({"order": value})


class TestLaziness:
    def test_only_the_workflow_that_is_asked_for(self, tmp_path: Path) -> None:
        """Other workflows' files are not read: one that is damaged hurts nobody else."""
        capture(tmp_path, contract(), MONDAY)
        written(tmp_path, b"damaged", "bill/one.json")
        contracts = load_contracts(tmp_path)
        assert contracts.of("order", None, None) == contract()
        with pytest.raises(FlowError, match="not JSON"):
            contracts.kept("bill")

    def test_each_file_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A folder with a thousand runs is read once."""
        capture(tmp_path, contract(), MONDAY)
        written(tmp_path, {"workflowId": "order", "steps": {"ship": {}}}, "plain.json")
        opened: list[str] = []
        read = Path.open

        def counting(self: Path, *args: Any, **kwargs: Any) -> Any:
            opened.append(self.name)
            return read(self, *args, **kwargs)

        monkeypatch.setattr(Path, "open", counting)
        contracts = load_contracts(tmp_path)
        assert opened == []
        for _ in range(3):
            contracts.of("order", None, None)
            contracts.knows("order", "x")
            contracts.kept("bill")
        assert sorted(opened) == sorted([f"{fingerprint(contract())}.json", "plain.json"])

    def test_what_a_caller_does_to_the_list(self, tmp_path: Path) -> None:
        """It is the caller's own."""
        contracts = load_contracts(contract())
        contracts.kept("order").clear()
        assert len(contracts.kept("order")) == 1

    def test_what_is_no_contract_file(self, tmp_path: Path) -> None:
        """Hidden files, other kinds of files and folders whose names look like files are left alone."""
        capture(tmp_path, contract(), MONDAY)
        capture(tmp_path, contract(workflow_id="order.json"), MONDAY)
        for name in ("order/.x.json.0.tmp", "order/.hidden.json", "order/README.md", "README.md"):
            written(tmp_path, b"?", name)
        contracts = load_contracts(tmp_path)
        assert len(contracts.kept("order")) == len(contracts.kept("order.json")) == 1


def whole(**parts: Any) -> dict[str, Any]:
    """The content of a captured file."""
    return {
        "capturedAt": "2026-03-02T09:30:15Z",
        "fingerprint": fingerprint(contract()),
        "contract": {"workflowId": "order", "steps": {"pack": {}}},
        **parts,
    }


def deep(levels: int) -> Any:
    """A schema of lists in lists."""
    schema: Any = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


DAMAGED: dict[str, tuple[Any, str]] = {
    "empty": (b"", "not JSON"),
    "cut": (json.dumps(whole()).encode()[:-9], "not JSON"),
    "no-text": (b"\xff\xfe\x00", "not JSON"),
    "nested-text": (b"[" * 200_000, "not JSON"),
    "huge-number": (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
    "a-list": ([whole()], "holds no contract"),
    "a-text": ("order", "holds no contract"),
    "nothing-known": ({"hello": 1}, "workflowId: Field required"),
    "a-part-misspelt": ({"workflowId": "order", "stepz": {}}, "stepz: "),
    "a-name-that-forges": ({"workflowId": "order", "a\n\x1b[2J": {}}, "Extra inputs"),
    "no-date": ({"contract": whole()["contract"], "fingerprint": "x"}, "capturedAt is missing"),
    "more-than-that": (whole(more=1), "more is missing, or does not belong there"),
    "the-contract-is-a-path": (whole(contract="/etc/passwd"), "this is no contract"),
    "the-contract-is-damaged": (whole(contract={"workflowId": "order", "steps": 5}), "this is no contract: steps"),
    "another-fingerprint": (whole(fingerprint="0" * 16), "says fingerprint 0000000000000000, and its contract has"),
    "the-fingerprint-is-no-text": (whole(fingerprint=[1]), "says fingerprint"),
    "the-contract-was-edited": (
        whole(contract={"workflowId": "order", "steps": {"pack": {}, "ship": {}}}),
        "says fingerprint",
    ),
    "no-such-day": (whole(capturedAt="2026-02-31T00:00:00Z"), "no RFC 3339 time: 2026-02-31"),
    "a-time-of-nowhere": (whole(capturedAt="2026-02-01T00:00:00"), "no RFC 3339 time"),
    "a-number-for-a-time": (whole(capturedAt=5), "no RFC 3339 time"),
    "of-another-workflow": ({"workflowId": "bill"}, "a contract of bill, kept as one of order"),
    "nested-too-deep": ({"workflowId": "order", "inputSchema": deep(300)}, "nested more than 200 deep"),
}


class TestDamage:
    @pytest.mark.parametrize("name", DAMAGED)
    def test_a_file_that_is_not_what_it_should_be(self, tmp_path: Path, name: str) -> None:
        """The error names the file and what is wrong with it, and says what to do; one line of it cannot be forged."""
        data, says = DAMAGED[name]
        path = written(tmp_path, data)
        with pytest.raises(FlowError, match=says) as caught:
            load_contracts(tmp_path).kept("order")
        assert caught.value.path == str(path)
        assert caught.value.hint
        assert caught.value.what.isprintable()

    def test_a_file_under_another_s_name(self, tmp_path: Path) -> None:
        """The name is a contract's place: another contract there would keep it from ever being captured."""
        written(tmp_path, whole(), f"order/{fingerprint(contract('ship'))}.json")
        with pytest.raises(FlowError, match="not the one that its name says"):
            load_contracts(tmp_path).kept("order")
        copied = written(tmp_path, whole(), "copy/of-it.json")
        assert load_contracts(copied).knows("order", fingerprint(contract()))

    def test_bounds(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A file that is too large, and a folder with too many, are refused."""
        path = written(tmp_path, whole())
        monkeypatch.setattr(store, "MAX_BYTES", path.stat().st_size - 1)
        with pytest.raises(FlowError, match="more than 0 MiB"):
            load_contracts(path)
        monkeypatch.setattr(store, "MAX_BYTES", path.stat().st_size)
        assert load_contracts(path).kept("order")
        written(tmp_path, whole(), "order/two.json")
        monkeypatch.setattr(store, "MAX_FILES", 1)
        with pytest.raises(FlowError, match="more than 1 contracts in one folder"):
            load_contracts(tmp_path).kept("order")

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    def test_a_pipe(self, tmp_path: Path) -> None:
        """It is never opened, which would wait for ever."""
        (tmp_path / "order").mkdir()
        os.mkfifo(tmp_path / "order" / "one.json")
        with pytest.raises(FlowError, match="not an ordinary file"):
            load_contracts(tmp_path).kept("order")

    def test_a_link_that_leads_nowhere(self, tmp_path: Path) -> None:
        """It is an error that says so."""
        (tmp_path / "order").mkdir()
        (tmp_path / "order" / "one.json").symlink_to(tmp_path / "nowhere")
        with pytest.raises(FlowError, match="cannot be read: No such file"):
            load_contracts(tmp_path).kept("order")

    def test_an_id_that_would_leave_the_folder(self, tmp_path: Path) -> None:
        """A log's workflow id is untrusted: it reads nothing outside of the folder."""
        written(tmp_path, {"workflowId": "../secret"}, "secret/one.json")
        (tmp_path / "contracts").mkdir()
        contracts = load_contracts(tmp_path / "contracts")
        for workflow_id in ("../secret", "..", ".", "", "\0", str(tmp_path / "secret"), "x" * 100_000):
            assert contracts.kept(workflow_id) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=6,
)


@settings(deadline=None, max_examples=60)
@given(workflow_id=st.text(min_size=1, max_size=5), schema=st.dictionaries(st.text(max_size=4), JSON, max_size=3))
def test_whatever_is_captured_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, workflow_id: str, schema: dict[str, Any]
) -> None:
    """Any contract that has a fingerprint comes back equal, under its fingerprint."""
    folder = tmp_path_factory.mktemp("contracts")
    one = Contract(workflow_id=workflow_id, input_schema={"default": schema}, versions=schema)
    assert capture(folder, one, MONDAY)
    assert load_contracts(folder).of(workflow_id, fingerprint(one), None) == one
    assert capture(folder, one, MONDAY + DAY) is None
