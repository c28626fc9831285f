"""Goldens: how a changed or missing one is accepted, when nothing is, and which ones no test uses."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plugin.conftest import Desk

PASSED, FAILED = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED
UPDATE = "--loom-update"
COMPARE = """
@pytest.mark.loom("logs/a.loom.jsonl")
def test_it(loom_golden):
    assert diff_runs(loom_golden, shop.run({output!r})) == []
"""


def outputs(path: Path) -> dict[str, Any]:
    """Each run of a log file with its final output, read by Python's own json."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    events = [json.loads(line) for line in text.splitlines()]
    return {
        event["executionId"]: event["payload"]["output"]
        for event in events
        if event["eventType"] == "EXECUTION_COMPLETED"
    }


class TestAccepting:
    @pytest.mark.parametrize(
        "call", ["diff_runs(loom_golden, {today})", "loom.diff(loom_golden, {today})"], ids=["plain", "facade"]
    )
    def test_a_changed_run(self, shop: Desk, call: str) -> None:
        """The candidate takes the golden's place under the golden's own id; the next run without the flag passes."""
        shop.write_test(
            "@pytest.mark.loom('logs/a.loom.jsonl')\ndef test_it(loom, loom_golden):\n"
            f"    assert {call.format(today='shop.run(5)')} == []\n",
        )
        assert shop() == FAILED
        assert outputs(shop.path / "logs/a.loom.jsonl") == {"r-1": "done"}
        assert shop(UPDATE) == PASSED
        assert outputs(shop.path / "logs/a.loom.jsonl") == {"r-1": 5}
        assert shop.section[1:] == [
            "accepted 1 golden log; look at the change before you commit it:",
            "  logs/a.loom.jsonl (changed)",
            "    outcome",
            '      output  "done" -> 5',
            "    step assess",
            '      output  "done" -> 5',
        ]
        assert shop() == PASSED

    @pytest.mark.parametrize("option", ["--snapshot-update", "--snapshot-update-new-only"])
    @pytest.mark.parametrize("exists", [True, False], ids=["there", "new"])
    def test_syrupys_flags(self, shop: Desk, option: str, exists: bool) -> None:
        """--snapshot-update accepts both; --snapshot-update-new-only makes a missing golden and leaves others alone."""
        name = "logs/a.loom.jsonl" if exists else "logs/new.loom.jsonl"
        shop.write_test(COMPARE.format(output=5).replace("logs/a.loom.jsonl", name))
        accepted = not exists or option == "--snapshot-update"
        assert shop.apart(option, plugins=("syrupy",)) == (PASSED if accepted else FAILED)
        found = outputs(shop.path / name)
        assert list(found.values()) == [5 if accepted else "done"]
        assert shop.apart(plugins=("syrupy",)) == (PASSED if accepted else FAILED)

    def test_a_missing_golden(self, shop: Desk) -> None:
        """It is made from the candidate, with its folders and under the candidate's own id."""
        shop.write_test(COMPARE.format(output=5).replace("logs/a", "logs/deep/new"))
        assert shop(UPDATE) == PASSED
        assert outputs(shop.path / "logs/deep/new.loom.jsonl") == {"today": 5}
        assert shop.section[-1] == "  logs/deep/new.loom.jsonl (new)"
        assert shop() == PASSED

    def test_where_a_missing_golden_goes(self, shop: Desk) -> None:
        """Beside the other goldens: in the folder of the test where the configuration's has no such folder."""
        shop.log("tests/goldens/b.loom.jsonl")
        shop.write_test(COMPARE.format(output=5).replace("logs/a", "goldens/new"), "tests/test_it.py")
        assert shop(UPDATE) == PASSED
        assert "tests/goldens/new.loom.jsonl" in shop.files()

    def test_a_compressed_golden(self, shop: Desk) -> None:
        """A golden in gzip stays one."""
        shop.write_test(COMPARE.format(output=5).replace("a.loom.jsonl", "new.loom.jsonl.gz"))
        assert shop(UPDATE) == PASSED
        assert outputs(shop.path / "logs/new.loom.jsonl.gz") == {"today": 5}
        assert shop() == PASSED

    def test_nothing_changed(self, shop: Desk) -> None:
        """A golden that is the same, or differs in what is ignored only, is not rewritten."""
        file = shop.path / "logs/a.loom.jsonl"
        before = (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_ino)
        shop.write_test(
            COMPARE.format(output="done") + "\n@pytest.mark.loom('logs/a.loom.jsonl', ignore=['**.output', 'output'])\n"
            "def test_ignored(loom_golden):\n"
            "    assert diff_runs(loom_golden, shop.run(5)) == []\n",
        )
        assert shop(UPDATE) == PASSED
        assert (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_ino) == before
        assert shop.section == []

    @pytest.mark.parametrize(
        ("body", "options"),
        [
            ("    assert diff_runs(loom_golden, shop.run(5)) == []\n    assert 0\n", [UPDATE]),
            ("    diff_runs(loom_golden, shop.run(5))\n    pytest.skip('later')\n", [UPDATE]),
            ("    assert 0\n    assert diff_runs(loom_golden, shop.run(5)) == []\n", [UPDATE]),
            ("    assert diff_runs(loom_golden, shop.run(5)) == []\n", []),
            ("    assert diff_runs(loom_golden, shop.run(5)) == []\n", [UPDATE, "--collect-only"]),
            ("    assert diff_runs(loom_golden, shop.run(5)) == []\n", [UPDATE, "--setup-only"]),
            ("    assert diff_runs(loom_golden, shop.run(5)) == []\n", [UPDATE, "-x"]),
            ("    assert diff_runs(loom_golden, shop.run(5)) == []\n", [UPDATE, "-k", "other"]),
        ],
        ids=[
            "fails-later",
            "skips-later",
            "fails-before",
            "no-flag",
            "collect-only",
            "setup-only",
            "stopped",
            "left-out",
        ],
    )
    def test_nothing_is_accepted(self, shop: Desk, body: str, options: list[str]) -> None:
        """A test that does not pass to its end, or does not run, changes no golden."""
        file = shop.path / "logs/a.loom.jsonl"
        before = file.read_bytes()
        first = "def test_first():\n    assert 0\n\n" if "-x" in options else ""
        shop.write_test(f"{first}@pytest.mark.loom('logs/a.loom.jsonl')\ndef test_it(loom_golden):\n{body}")
        shop(*options)
        assert file.read_bytes() == before
        assert not any(line.startswith("accepted") for line in shop.section)

    @pytest.mark.parametrize(("decorator", "accepted"), [("strict=True", False), ("strict=False", True)])
    def test_expected_failures(self, shop: Desk, decorator: str, accepted: bool) -> None:
        """A test that passes although it should fail is a failure where xfail is strict: nothing is accepted."""
        shop.write_test(f"@pytest.mark.xfail({decorator}){COMPARE.format(output=5)}")
        shop(UPDATE)
        assert outputs(shop.path / "logs/a.loom.jsonl") == {"r-1": 5 if accepted else "done"}

    def test_other_runs_of_the_file_stay(self, shop: Desk) -> None:
        """Only the run that the test is about is replaced, in its place; the bytes of the others stay."""
        for name in ("r-2", "r-3"):
            shop.log("logs/a.loom.jsonl", name, append=True)
        file = shop.path / "logs/a.loom.jsonl"
        before = file.read_text().splitlines()
        shop.write_test(COMPARE.format(output=5))
        assert shop(UPDATE, "-k", "r-2") == PASSED
        assert outputs(file) == {"r-1": "done", "r-2": 5, "r-3": "done"}
        after = file.read_text().splitlines()
        assert [line for line in after if "r-2" not in line] == [line for line in before if "r-2" not in line]
        assert list(outputs(file)) == ["r-1", "r-2", "r-3"]

    def test_two_workers_and_one_file(self, shop: Desk) -> None:
        """Runs of one file that two workers accept at once are all accepted."""
        pytest.importorskip("xdist")
        names = [f"r-{number}" for number in range(12)]
        for name in names:
            shop.log("logs/b.loom.jsonl", name, append=True)
        shop.write_test(COMPARE.format(output=5).replace("logs/a", "logs/b"))
        assert shop.apart(UPDATE, "-n", "2", plugins=("xdist",)) == PASSED
        assert outputs(shop.path / "logs/b.loom.jsonl") == dict.fromkeys(names, 5)
        assert shop.section[1] == "accepted 12 golden logs; look at the change before you commit it:"

    def test_different_runs_and_one_golden(self, shop: Desk) -> None:
        """A test that compares two different runs with one golden can never pass: it accepts neither, and says why."""
        before = (shop.path / "logs/a.loom.jsonl").read_bytes()
        shop.write_test(
            COMPARE.format(output=5).replace("== []", "== []\n    assert diff_runs(loom_golden, shop.run(6)) == []"),
        )
        assert shop(UPDATE) == FAILED
        shop.result.stdout.fnmatch_lines(
            ["different runs were compared with one golden, logs/a.loom.jsonl, so none is *"]
        )
        assert (shop.path / "logs/a.loom.jsonl").read_bytes() == before
        shop.write_test(
            COMPARE.format(output=5).replace("== []", "== []\n    assert diff_runs(loom_golden, shop.run(5)) == []"),
        )
        assert shop(UPDATE) == PASSED

    def test_a_golden_of_another_format(self, shop: Desk) -> None:
        """A log that another program wrote is not rewritten as ours: the test is red, and says how to go on."""
        shop.write("runs.export", '{"id": "x-1"}')
        shop.write(
            "conftest.py",
            "import json\nfrom pytest_loom import LogBuilder\n\nclass Export:\n"
            "    name, engine, live, suffixes = 'export', 'journal', False, ('.export',)\n\n"
            "    def sniff(self, path, head):\n        return path.name.endswith('.export')\n\n"
            "    def read(self, path):\n"
            "        made = LogBuilder(json.loads(path.read_text())['id'], 'refund', path=str(path))\n"
            "        made.add('EXECUTION_STARTED', {}, timestamp=0)\n        yield made.log()\n\n"
            "def pytest_loom_sources(config):\n    return [Export()]\n",
        )
        shop.write_test(COMPARE.format(output=5).replace("logs/a.loom.jsonl", "runs.export"))
        assert shop() == FAILED
        assert not any("to accept" in line for line in shop.result.outlines), "what cannot be done is not advised"
        assert shop(UPDATE) == FAILED
        shop.result.stdout.fnmatch_lines(
            ["runs.export is not written by pytest-loom, so it is not rewritten: export it anew"]
        )
        assert (shop.path / "runs.export").read_text() == '{"id": "x-1"}'

    def test_a_damaged_golden(self, shop: Desk) -> None:
        """It is not overwritten, whatever the flag: somebody may want to restore it."""
        shop.write("logs/a.loom.jsonl", "damaged")
        shop.write_test(COMPARE.format(output=5))
        assert shop(UPDATE) == FAILED
        assert (shop.path / "logs/a.loom.jsonl").read_text() == "damaged"

    def test_a_golden_that_cannot_be_written(self, shop: Desk) -> None:
        """The test is red, since its golden is not what it accepted; the old one stands."""
        before = (shop.path / "logs/a.loom.jsonl").read_bytes()
        shop.write(
            "conftest.py",
            "import errno, os\nfrom pytest_loom.log import write\n\ndef refuse(*args, **options):\n"
            "    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n\nwrite.write_atomically = refuse\n",
        )
        shop.write_test(COMPARE.format(output=5))
        assert shop.apart(UPDATE) == FAILED
        shop.result.stdout.fnmatch_lines(
            ["golden log logs/a.loom.jsonl could not be written, the old one stands: *No space*"]
        )
        assert (shop.path / "logs/a.loom.jsonl").read_bytes() == before

    def test_a_name_that_is_no_logs(self, shop: Desk) -> None:
        """A golden is made as *.jsonl: another suffix is refused when it is to be written."""
        shop.write_test(COMPARE.format(output=5).replace("logs/a.loom.jsonl", "logs/new.txt"))
        assert shop(UPDATE) == FAILED
        shop.result.stdout.fnmatch_lines(["*a log is written to [*].loom.jsonl*"])
        assert "logs/new.txt" not in shop.files()

    def test_it_leaves_nothing_else_behind(self, shop: Desk) -> None:
        """No lock, no temporary file in the project."""
        shop.write_test(COMPARE.format(output=5))
        before = shop.files()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
            assert shop.apart(UPDATE) == PASSED
        assert shop.files() == before


class TestUnused:
    @pytest.fixture
    def two(self, shop: Desk) -> Desk:
        """A golden that a test uses, and one beside it that nothing does."""
        shop.log("logs/b.loom.jsonl", "r-2")
        shop.write_test(COMPARE.format(output="done"))
        return shop

    UNUSED = ("1 golden log is used by no test (pytest-loom never deletes one):", "  logs/b.loom.jsonl")

    def test_a_whole_run_lists_them(self, two: Desk) -> None:
        """It is said at the end, the session stays green, and the file stays, also when goldens are accepted."""
        assert two() == PASSED
        assert two.section[1:] == list(self.UNUSED)
        assert two(UPDATE) == PASSED
        assert two.section[1:] == list(self.UNUSED)
        assert "logs/b.loom.jsonl" in two.files()

    def test_two_workers_list_them_too(self, two: Desk) -> None:
        """The same with pytest-xdist, whose workers each know."""
        pytest.importorskip("xdist")
        assert two.apart("-n", "2", plugins=("xdist",)) == PASSED
        assert two.section[1:] == list(self.UNUSED)

    @pytest.mark.parametrize(
        "options",
        [["test_it.py"], ["."], ["test_it.py::test_it"], ["--ignore=other"], ["--ignore-glob=other*"]],
        ids=" ".join,
    )
    def test_not_when_something_was_named_or_left_out(self, two: Desk, options: list[str]) -> None:
        """Where not all tests were collected, it cannot be told what is unused."""
        assert two(*options) == PASSED
        assert two.section == []

    def test_not_in_a_folder_of_the_project(self, two: Desk) -> None:
        """Started in a sub-folder, pytest collects that one only."""
        two.write_test(COMPARE.format(output="done"), "tests/test_sub.py")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(two.path / "tests")
            assert two() == PASSED
        assert two.section == []

    def test_not_when_a_module_was_not_collected(self, two: Desk) -> None:
        """A module that is broken, or skips itself, may use the golden."""
        two.write("test_other.py", "import pytest\n\npytest.importorskip('no_such_module')\n")
        assert two() == PASSED
        assert two.section == []
        two.write("test_other.py", "import no_such_module\n")
        two()
        assert two.section == []

    def test_tests_that_were_left_out_use_theirs(self, two: Desk) -> None:
        """-k leaves tests out that were collected: their goldens are in use."""
        two.write_test(
            COMPARE.format(output="done").replace("logs/a", "logs/b").replace("test_it", "test_b"), "test_b.py"
        )
        assert two("-k", "test_it") == PASSED
        assert two.section == []

    def test_logs_of_the_deploy_simulation_are_in_use(self, two: Desk) -> None:
        """What loom_logs names is used by the simulation, whether or not this run simulates."""
        two.ini("loom_logs = logs/*.loom.jsonl")
        assert two() == PASSED
        assert two.section == []
        two.ini("loom_logs = logs/a.loom.jsonl")
        assert two() == PASSED
        assert two.section[1:] == list(self.UNUSED)

    def test_files_beside_goldens_that_are_none(self, two: Desk) -> None:
        """Only *.loom.jsonl and *.loom.jsonl.gz can be goldens that somebody forgot."""
        (two.path / "logs/b.loom.jsonl").unlink()
        for name in ("notes.txt", "a.loom.jsonl.orig", "c.jsonl"):
            two.write(f"logs/{name}", "")
        assert two() == PASSED
        assert two.section == []
