"""``@pytest.mark.loom(...)``: which golden logs it names, how the tests are called, and what it refuses to mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.plugin.conftest import Desk

PASSED, FAILED, INTERRUPTED = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED
TEST = """
import pytest

{decorator}
def test_it(loom_golden):
    print("GOT", loom_golden.execution_id, loom_golden.path)
    assert loom_golden.events

def test_beside_it():
    pass
"""


def mark(desk: Desk, decorator: str, name: str = "test_it.py") -> None:
    """Write a test file whose first test has the marker."""
    desk.write(name, TEST.format(decorator=decorator))


def names(desk: Desk) -> list[str]:
    """The names of the collected tests."""
    desk("--collect-only", "-q")
    return [line.rpartition("::")[2] for line in desk.result.outlines if "::" in line and not line.startswith("ERROR")]


class TestPaths:
    def test_one_file_is_one_plain_test(self, desk: Desk) -> None:
        """A literal path to a file of one run does not parametrize: the node id stays as it is, whatever the run's."""
        desk.log("logs/a.loom.jsonl", "r-1")
        mark(desk, "@pytest.mark.loom('logs/a.loom.jsonl')")
        assert names(desk) == ["test_it", "test_beside_it"]
        assert desk("-s") == PASSED
        desk.result.stdout.fnmatch_lines(["*GOT r-1 logs/a.loom.jsonl*"])

    def test_a_glob_is_one_test_for_each_run(self, desk: Desk) -> None:
        """Each run of each file that matches, by its execution id; also where only one file matches today."""
        desk.log("logs/a.loom.jsonl", "r-1")
        mark(desk, "@pytest.mark.loom('logs/*.loom.jsonl')")
        assert names(desk) == ["test_it[r-1]", "test_beside_it"]
        desk.log("logs/b.loom.jsonl", "r-2")
        desk.log("logs/b.loom.jsonl", "r-3", append=True)
        assert names(desk) == ["test_it[r-1]", "test_it[r-2]", "test_it[r-3]", "test_beside_it"]
        assert desk("test_it.py::test_it[r-3]", "-s") == PASSED
        desk.result.stdout.fnmatch_lines(["*GOT r-3 logs/b.loom.jsonl*"])

    def test_a_file_of_many_runs(self, desk: Desk) -> None:
        """A literal path to a file of several runs gives one test a run."""
        for number in range(3):
            desk.log("logs/a.loom.jsonl", f"r-{number}", append=True)
        mark(desk, "@pytest.mark.loom('logs/a.loom.jsonl')")
        assert names(desk) == ["test_it[r-0]", "test_it[r-1]", "test_it[r-2]", "test_beside_it"]
        assert desk() == PASSED

    def test_several_paths(self, desk: Desk) -> None:
        """Paths and globs add up, in the order in which they are written."""
        for name in ("a", "b", "c"):
            desk.log(f"logs/{name}.loom.jsonl", f"r-{name}")
        mark(desk, "@pytest.mark.loom('logs/c.loom.jsonl', 'logs/[ab].loom.jsonl')")
        assert names(desk) == ["test_it[r-c]", "test_it[r-a]", "test_it[r-b]", "test_beside_it"]

    def test_a_file_that_two_paths_name(self, desk: Desk) -> None:
        """A run is one test, however many of the paths find it."""
        for name in ("a", "b"):
            desk.log(f"logs/{name}.loom.jsonl", f"r-{name}")
        mark(desk, "@pytest.mark.loom('logs/a.loom.jsonl', 'logs/*.loom.jsonl')")
        assert names(desk) == ["test_it[r-a]", "test_it[r-b]", "test_beside_it"]

    def test_a_folder(self, desk: Desk) -> None:
        """A folder means the logs in it."""
        desk.log("logs/deep/a.loom.jsonl", "r-1")
        desk.log("logs/b.loom.jsonl", "r-2")
        mark(desk, "@pytest.mark.loom('logs')")
        assert names(desk) == ["test_it[r-2]", "test_it[r-1]", "test_beside_it"]

    def test_from_the_folder_of_the_test(self, desk: Desk) -> None:
        """Where the configuration's folder has no such file, paths start from the folder of the test file."""
        desk.log("tests/logs/a.loom.jsonl", "r-1")
        desk.log("tests/logs/b.loom.jsonl", "r-2")
        mark(desk, "@pytest.mark.loom('logs/*.loom.jsonl')", "tests/test_it.py")
        mark(desk, "@pytest.mark.loom('logs/a.loom.jsonl')", "tests/test_other.py")
        assert names(desk) == ["test_it[r-1]", "test_it[r-2]", "test_beside_it", "test_it", "test_beside_it"]
        assert desk() == PASSED

    def test_from_the_folder_that_has_the_file(self, desk: Desk) -> None:
        """A folder of the same name beside the configuration does not hide the file that lies beside the test."""
        desk.log("logs/other.loom.jsonl", "above")
        desk.log("tests/logs/a.loom.jsonl", "beside")
        mark(desk, "@pytest.mark.loom('logs/a.loom.jsonl')", "tests/test_it.py")
        assert desk("-s") == PASSED
        desk.result.stdout.fnmatch_lines(["*GOT beside tests/logs/a.loom.jsonl*"])

    def test_from_the_folder_of_the_configuration(self, desk: Desk) -> None:
        """Where both folders have the file, the configuration's is meant, wherever pytest is started."""
        desk.log("logs/a.loom.jsonl", "above")
        desk.log("tests/logs/a.loom.jsonl", "beside")
        mark(desk, "@pytest.mark.loom('logs/a.loom.jsonl')", "tests/test_it.py")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(desk.path / "tests")
            assert desk("-s") == PASSED
        desk.result.stdout.fnmatch_lines([f"*GOT above {desk.path}/logs/a.loom.jsonl*"])

    def test_a_name_that_looks_like_a_glob(self, desk: Desk) -> None:
        """A file that is called so is that file, and one plain test."""
        desk.log("logs/a[1].loom.jsonl", "r-1")
        desk.log("logs/a1.loom.jsonl", "r-2")
        mark(desk, "@pytest.mark.loom('logs/a[1].loom.jsonl')")
        assert names(desk) == ["test_it", "test_beside_it"]
        assert desk("-s") == PASSED
        desk.result.stdout.fnmatch_lines(["*GOT r-1 logs/a[[]1].loom.jsonl*"])

    def test_path_objects_and_absolute_paths(self, desk: Desk) -> None:
        """A pathlib.Path will do, and an absolute path is taken as it is."""
        desk.log("logs/a.loom.jsonl", "r-1")
        mark(desk, "@pytest.mark.loom(__import__('pathlib').Path(__file__).parent / 'logs' / 'a.loom.jsonl')")
        assert desk("-s") == PASSED
        desk.result.stdout.fnmatch_lines(["*GOT r-1 logs/a.loom.jsonl*"])

    def test_other_formats(self, desk: Desk) -> None:
        """A golden may be of any format that a source reads."""
        desk.write("runs.txt", (desk.log("logs/a.loom.jsonl", "r-1")).read_text())
        mark(desk, "@pytest.mark.loom('runs.txt')")
        assert desk("-s") == PASSED
        desk.result.stdout.fnmatch_lines(["*GOT r-1 runs.txt*"])


class TestMissing:
    @pytest.mark.parametrize("pattern", ["logs/a.loom.jsonl", "logs/deep/a.loom.jsonl"])
    def test_a_missing_file(self, desk: Desk, pattern: str) -> None:
        """The test fails with the command that makes the file; the tests beside it run."""
        mark(desk, f"@pytest.mark.loom({pattern!r})")
        assert desk() == FAILED
        assert desk.counts == {"errors": 1, "passed": 1}
        desk.result.stdout.fnmatch_lines(
            [
                f"golden log {pattern} does not exist.",
                "  Make it: pytest test_it.py::test_it --loom-update",
                "  (the test then accepts what today's code did; look at it before you commit it)",
            ]
        )

    def test_a_glob_that_matches_nothing(self, desk: Desk) -> None:
        """Only the test itself fails: no golden proves nothing, and the module is collected all the same."""
        mark(desk, "@pytest.mark.loom('logs/*.loom.jsonl')")
        assert desk() == FAILED
        assert desk.counts == {"errors": 1, "passed": 1}
        desk.result.stdout.fnmatch_lines(
            ["@pytest.mark.loom('logs/[*].loom.jsonl'): no log matches, and no log proves nothing"]
        )

    def test_one_missing_among_several(self, desk: Desk) -> None:
        """Each path has its test, the missing one fails alone."""
        desk.log("logs/a.loom.jsonl", "r-1")
        mark(desk, "@pytest.mark.loom('logs/a.loom.jsonl', 'logs/z.loom.jsonl')")
        assert desk() == FAILED
        assert desk.counts == {"errors": 1, "passed": 2}
        desk.result.stdout.fnmatch_lines(["golden log logs/z.loom.jsonl does not exist."])

    def test_an_empty_folder(self, desk: Desk) -> None:
        """A folder without logs is as bad as a glob without matches."""
        (desk.path / "logs").mkdir()
        mark(desk, "@pytest.mark.loom('logs')")
        assert desk() == FAILED
        assert desk.counts == {"errors": 1, "passed": 1}

    @pytest.mark.parametrize("decorator", ["", "@pytest.mark.loom()", "@pytest.mark.loom(ignore=['x'])"])
    def test_no_path(self, desk: Desk, decorator: str) -> None:
        """loom_golden without a path says what it needs."""
        mark(desk, decorator)
        assert desk() == FAILED
        desk.result.stdout.fnmatch_lines(
            ['loom_golden needs @pytest.mark.loom("path/to/golden.loom.jsonl") on the test']
        )


class TestDamaged:
    def test_only_its_own_test_fails(self, desk: Desk) -> None:
        """A damaged file among good ones fails where it is used, with file and line, and nowhere else."""
        desk.log("logs/a.loom.jsonl", "r-1")
        desk.log("logs/b.loom.jsonl", "r-2")
        with desk.log("logs/c.loom.jsonl", "r-3").open("a") as stream:
            stream.write("torn")
        desk.write("logs/d.loom.jsonl", "")
        mark(desk, "@pytest.mark.loom('logs/*.loom.jsonl')")
        assert desk() == FAILED
        assert desk.counts == {"errors": 2, "passed": 3}
        desk.result.stdout.fnmatch_lines(
            [
                "golden log cannot be read: *logs/c.loom.jsonl:5: *",
                "  Restore it from version control.",
                "golden log cannot be read: *logs/d.loom.jsonl: the file is empty*",
            ]
        )

    def test_one_run_of_several(self, desk: Desk) -> None:
        """A bad line spoils its own run of a file, and the others are tested."""
        desk.log("logs/a.loom.jsonl", "r-1")
        with desk.log("logs/a.loom.jsonl", "r-2", append=True).open("a") as stream:
            stream.write('{"executionId": "r-2", "sequence": "x"}\n')
        mark(desk, "@pytest.mark.loom('logs/a.loom.jsonl')")
        assert names(desk) == ["test_it[r-1]", "test_it[r-2]", "test_beside_it"]
        assert desk() == FAILED
        assert desk.counts == {"errors": 1, "passed": 2}

    def test_a_file_that_changed_since_collection(self, desk: Desk) -> None:
        """A run that is gone from the file by the time its test runs is said to be gone."""
        desk.log("logs/a.loom.jsonl", "r-1")
        desk.log("logs/a.loom.jsonl", "r-2", append=True)
        mark(desk, "@pytest.mark.loom('logs/a.loom.jsonl')")
        desk.write(
            "conftest.py",
            "import pathlib\n\ndef pytest_collection_finish(session):\n    path = pathlib.Path('logs/a.loom.jsonl')\n"
            "    path.write_text(''.join(line for line in path.read_text().splitlines(True) if 'r-1' in line))\n",
        )
        assert desk() == FAILED
        desk.result.stdout.fnmatch_lines(["golden log logs/a.loom.jsonl no longer holds execution r-2"])


class TestNames:
    @pytest.mark.parametrize(
        ("ids", "shown"),
        [
            (["a/b", "a:b", "a b"], ["a-b", "a-b~2", "a-b~3"]),
            (["x~2", "x/", "x*"], ["x-2", "x-", "x-~2"]),
            (["r\x1b[31m", "r\n1", "r\x00"], ["r--31m", "r-1", "r-"]),
            (["../../etc", "..", "/"], ["..-..-etc", "..", "-"]),
            (["é", "ß"], ["-", "-~2"]),
            (["[x]", "x::y", "x]"], ["-x-", "x--y", "x-"]),
            (["n" * 5000, "n" * 5001], None),
        ],
        ids=["cleaned", "suffix", "control", "paths", "letters", "brackets", "long"],
    )
    def test_hostile_execution_ids(self, desk: Desk, ids: list[str], shown: list[str] | None) -> None:
        """Ids from logs make short, printable and distinct test names, and each test still gets its own run."""
        for execution_id in ids:
            desk.log("logs/a.loom.jsonl", execution_id, append=True)
        desk.write(
            "test_it.py",
            f"import pytest\n\nIDS = {ids!r}\nseen = []\n\n@pytest.mark.loom('logs/a.loom.jsonl')\n"
            "def test_it(loom_golden):\n    assert loom_golden.execution_id in IDS\n"
            "    seen.append(loom_golden.execution_id)\n\n"
            "def test_all():\n    assert seen == IDS\n",
        )
        found = names(desk)[: len(ids)]
        assert len(set(found)) == len(ids)
        assert all(name.isprintable() and name.isascii() and len(name) < 100 for name in found)
        if shown is not None:
            assert found == [f"test_it[{name}]" for name in shown]
        if int(pytest.__version__.split(".")[0]) >= 9:
            desk.ini("strict = true")
        assert desk() == PASSED

    def test_one_of_them_can_be_run(self, desk: Desk) -> None:
        """A test of a hostile id is addressed by the name that is shown."""
        for execution_id in ("a/b", "a b", "[x]::y"):
            desk.log("logs/a.loom.jsonl", execution_id, append=True)
        mark(desk, "@pytest.mark.loom('logs/a.loom.jsonl')")
        for name in names(desk)[:3]:
            assert desk(f"test_it.py::{name}") == PASSED
            assert desk.counts == {"passed": 1}

    def test_the_same_id_in_two_files(self, desk: Desk) -> None:
        """The file's name goes before the id, so that both can be told apart."""
        desk.log("logs/a.loom.jsonl", "r-1")
        desk.log("logs/b.loom.jsonl", "r-1")
        mark(desk, "@pytest.mark.loom('logs/*.loom.jsonl')")
        assert names(desk) == ["test_it[a-r-1]", "test_it[b-r-1]", "test_beside_it"]
        desk.log("more/a.loom.jsonl", "r-1")
        mark(desk, "@pytest.mark.loom('*/*.loom.jsonl')")
        assert names(desk) == ["test_it[a-r-1]", "test_it[b-r-1]", "test_it[a-r-1~2]", "test_beside_it"]
        assert desk() == PASSED


class TestPlaces:
    def test_on_a_class(self, desk: Desk) -> None:
        """A class's marker holds for its tests, and a test's own comes before it."""
        desk.log("logs/a.loom.jsonl", "r-1")
        desk.log("logs/b.loom.jsonl", "r-2")
        desk.write(
            "test_it.py",
            "import pytest\n\n@pytest.mark.loom('logs/a.loom.jsonl')\nclass TestIt:\n"
            "    def test_one(self, loom_golden):\n        assert loom_golden.execution_id == 'r-1'\n\n"
            "    @pytest.mark.loom('logs/b.loom.jsonl')\n"
            "    def test_two(self, loom_golden):\n        assert loom_golden.execution_id == 'r-2'\n",
        )
        assert desk() == PASSED
        assert desk.counts == {"passed": 2}

    def test_on_a_module(self, desk: Desk) -> None:
        """pytestmark holds for all tests of a module, one that takes no golden among them."""
        desk.log("logs/a.loom.jsonl", "r-1")
        desk.log("logs/b.loom.jsonl", "r-2")
        mark(desk, "pytestmark = pytest.mark.loom('logs/*.loom.jsonl')")
        assert names(desk) == ["test_it[r-1]", "test_it[r-2]", "test_beside_it"]
        assert desk() == PASSED

    def test_with_other_parameters(self, desk: Desk) -> None:
        """Goldens and a test's own parameters give every pair."""
        desk.log("logs/a.loom.jsonl", "r-1")
        desk.log("logs/b.loom.jsonl", "r-2")
        desk.write(
            "test_it.py",
            "import pytest\n\n@pytest.mark.parametrize('amount', [1, 2])\n@pytest.mark.loom('logs/*.loom.jsonl')\n"
            "def test_it(loom_golden, amount):\n    assert loom_golden.execution_id[:2] == 'r-' and amount\n",
        )
        assert sorted(names(desk)) == ["test_it[r-1-1]", "test_it[r-1-2]", "test_it[r-2-1]", "test_it[r-2-2]"]
        assert desk() == PASSED

    def test_on_a_single_parameter(self, desk: Desk) -> None:
        """A pytest.param may name its own golden, if it is one; several cannot be told apart there, and it is said."""
        desk.log("logs/a.loom.jsonl", "r-1")
        desk.log("logs/b.loom.jsonl", "r-2")
        desk.write(
            "test_it.py",
            "import pytest\n\n@pytest.mark.parametrize('expected', [\n"
            "    pytest.param('r-1', marks=pytest.mark.loom('logs/a.loom.jsonl')),\n"
            "    pytest.param('r-2', marks=pytest.mark.loom('logs/*.loom.jsonl')),\n"
            "])\ndef test_it(loom_golden, expected):\n    assert loom_golden.execution_id == expected\n",
        )
        assert desk() == FAILED
        assert desk.counts == {"passed": 1, "errors": 1}
        desk.result.stdout.fnmatch_lines(
            ["@pytest.mark.loom names 2 logs, and the test was collected for one: *pytest.param, mark the test"]
        )

    def test_through_another_fixture(self, desk: Desk) -> None:
        """A fixture of the user's may take the golden for the test."""
        desk.log("logs/a.loom.jsonl", "r-1")
        desk.log("logs/b.loom.jsonl", "r-2")
        desk.write(
            "test_it.py",
            "import pytest\n\n@pytest.fixture\ndef order(loom_golden):\n"
            "    return loom_golden.state.variables['_input']['order']\n\n"
            "@pytest.mark.loom('logs/*.loom.jsonl')\ndef test_it(order):\n    assert order == 1\n",
        )
        assert names(desk) == ["test_it[r-1]", "test_it[r-2]"]
        assert desk() == PASSED


class TestRefused:
    @pytest.mark.parametrize(
        ("decorator", "says"),
        [
            (
                "@pytest.mark.loom('logs/a.loom.jsonl', ignored=['x'])",
                "@pytest.mark.loom has no argument 'ignored'; it takes paths and *",
            ),
            ("@pytest.mark.loom(7)", "@pytest.mark.loom takes paths of golden logs, not 7"),
            (
                "@pytest.mark.loom(['logs/a.loom.jsonl'])",
                "@pytest.mark.loom takes paths of golden logs, not [[]'logs/a.loom.jsonl']",
            ),
            ("@pytest.mark.loom", "loom_golden needs @pytest.mark.loom(*"),
        ],
        ids=["keyword", "number", "list", "bare"],
    )
    @pytest.mark.parametrize("fixture", ["loom_golden", "loom"])
    def test_what_has_no_meaning(self, desk: Desk, decorator: str, says: str, fixture: str) -> None:
        """A misspelt rule fails the test that has it, whichever fixture it takes, and no other test."""
        desk.log("logs/a.loom.jsonl", "r-1")
        desk.write(
            "test_it.py",
            f"import pytest\n\n{decorator}\ndef test_it({fixture}):\n    pass\n\ndef test_beside_it():\n    pass\n",
        )
        if fixture == "loom" and "needs" in says:
            assert desk() == PASSED
            return
        assert desk() == FAILED
        assert desk.counts == {"errors": 1, "passed": 1}
        desk.result.stdout.fnmatch_lines([says])

    def test_it_is_listed(self, desk: Desk) -> None:
        """pytest --markers tells what the marker takes."""
        assert desk("--markers") == PASSED
        desk.result.stdout.fnmatch_lines(["@pytest.mark.loom([*]paths, ignore=, compare=, *"])
