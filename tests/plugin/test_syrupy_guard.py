"""Every way in which syrupy 7 loses snapshots under ``--snapshot-update``: files of ``loom_snapshot`` survive them all.

Each test runs pytest in a process of its own, since syrupy keeps its session in a global.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUNS = """
from pytest_loom.log.event import LogBuilder

def run(output, execution_id="run-0001-abcdef", at=1000):
    made = LogBuilder(execution_id, "refund")
    made.add("EXECUTION_STARTED", {"input": 1}, timestamp=at)
    made.add("STEP_STARTED", {"stepId": "assess"}, timestamp=at + 1)
    made.add("STEP_COMPLETED", {"stepId": "assess", "output": output}, timestamp=at + 2)
    made.add("EXECUTION_COMPLETED", {"output": f"done by {execution_id}"}, timestamp=at + 3)
    return made.log()
"""
HEAD = """
import os, pytest
from runs import run
"""
THREE = """
def test_one(loom_snapshot):
    assert run(1) == loom_snapshot

def test_two(loom_snapshot):
    assert run(2) == loom_snapshot

def test_three(loom_snapshot):
    assert run(3) == loom_snapshot
"""
KEPT = [
    "__snapshots__/test_a/test_one.loomrun",
    "__snapshots__/test_a/test_three.loomrun",
    "__snapshots__/test_a/test_two.loomrun",
    "__snapshots__/test_b/test_far.loomrun",
]
RAN, FAILED, INTERRUPTED = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED

_TIMES = itertools.count(1_700_000_000, 10)


class Project:
    """A folder with tests that use ``loom_snapshot``, and pytest runs in it."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self.plugins: tuple[str, ...] = ("-p", "syrupy", "-p", "pytest_loom.plugin")
        self.result: pytest.RunResult

    def write(self, name: str, body: str) -> None:
        """Make a test file (or any other) of the project."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEAD + body if name.endswith(".py") and path.name.startswith("test_") else body)
        now = next(_TIMES)  # one of its own, or Python takes the bytecode of what the file was a moment ago
        os.utime(path, (now, now))

    def __call__(self, *options: str) -> int:
        """Run pytest with the options; its exit status."""
        xdist = ("-p", "xdist") if "-n" in options else ()
        self.result = self.pytester.runpytest_subprocess(*self.plugins, *xdist, *options)
        return int(self.result.ret)

    @property
    def files(self) -> list[str]:
        """The files in snapshot folders, without caches."""
        found = (path.relative_to(self.path).as_posix() for path in self.path.rglob("*") if path.is_file())
        return sorted(name for name in found if "__snapshots__" in name or "goldens" in name)

    @property
    def said(self) -> list[str]:
        """The guard's own lines."""
        return [line for line in self.result.outlines if line.startswith("pytest-loom: ")]


@pytest.fixture
def empty(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project without tests."""
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=os.pathsep)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    project = Project(pytester)
    project.write("runs.py", RUNS)
    return project


@pytest.fixture(scope="module")
def accepted() -> dict[str, Path]:
    """Where the accepted snapshots of the project are; filled by the first test that needs them."""
    return {}


@pytest.fixture
def project(empty: Project, accepted: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project of two test files whose four snapshots have been accepted."""
    empty.write("test_a.py", THREE)
    empty.write("test_b.py", "def test_far(loom_snapshot):\n    assert run(4) == loom_snapshot\n")
    if "at" not in accepted:
        assert empty("--snapshot-update") == RAN
        accepted["at"] = tmp_path_factory.mktemp("accepted") / "__snapshots__"
        shutil.copytree(empty.path / "__snapshots__", accepted["at"])
    else:
        shutil.copytree(accepted["at"], empty.path / "__snapshots__")
    assert empty.files == KEPT
    return empty


class TestNothingIsLost:
    def test_g13_a_test_that_fails_before_its_assertion(self, project: Project) -> None:
        """The snapshot of a test that never came to compare it stays."""
        project.write("test_a.py", THREE.replace("run(2) ==", "1 / 0 =="))
        assert project("--snapshot-update") == FAILED
        assert project.files == KEPT
        assert project.said == [
            "pytest-loom: kept 1 run summary that this run did not use: 1 test failed (test_a.py::test_two)"
        ]

    def test_g14_a_run_that_stops_at_the_first_failure(self, project: Project) -> None:
        """Snapshots of the tests that -x did not reach stay."""
        project.write("test_a.py", "def test_zero():\n    assert 0\n" + THREE)
        assert project("-x", "--snapshot-update") == FAILED
        assert project.files == KEPT

    def test_g15_an_interrupted_update(self, project: Project) -> None:
        """Snapshots of the tests that Ctrl-C left out stay."""
        project.write("test_a.py", "def test_zero():\n    raise KeyboardInterrupt\n" + THREE)
        assert project("--snapshot-update") == INTERRUPTED
        assert project.files == KEPT
        assert project.said == ["pytest-loom: kept 4 run summaries that this run did not use: the run was interrupted"]

    def test_g15_an_interrupted_plain_run(self, project: Project) -> None:
        """Ctrl-C is exit status 2 and nothing else: no snapshot is called unused."""
        project.write("test_a.py", THREE.replace("run(2) ==", "os.kill(os.getpid(), 2) or run(2) =="))
        assert project() == INTERRUPTED
        assert project.files == KEPT
        assert project.said == []

    def test_g16_a_crashed_worker(self, project: Project) -> None:
        """Snapshots of tests that had passed on the worker that died stay, though another worker replaced it."""
        project.write("test_a.py", THREE.replace("run(3) ==", "os._exit(1) or run(3) =="))
        assert project("-n", "2", "--dist", "loadfile", "--snapshot-update") == FAILED
        assert project.files == KEPT
        assert [line.rpartition(": ")[2] for line in project.said] == ["a worker crashed"]

    def test_g23_collecting_only(self, project: Project) -> None:
        """An editor that lists tests sees exit status 0, and no snapshot is called unused."""
        assert project("--collect-only", "-q") == RAN
        assert project.files == KEPT
        assert "unused" not in project.result.stdout.str()

    def test_g23_collecting_only_with_update(self, project: Project) -> None:
        """Even with --snapshot-update, listing tests deletes nothing."""
        assert project("--collect-only", "--snapshot-update") == RAN
        assert project.files == KEPT
        assert [line.rpartition(": ")[2] for line in project.said] == ["tests were only collected"]

    @pytest.mark.parametrize("option", ["--ignore=test_a.py", "--ignore-glob=*_a.py"])
    def test_g24_ignored_test_files(self, project: Project, option: str) -> None:
        """Snapshots of test files that were kept out of the run stay, and are not called unused."""
        assert project(option) == RAN
        assert project(option, "--snapshot-update") == RAN
        assert project.files == KEPT

    @pytest.mark.parametrize("options", [(), ("--golden", "--ignore=two.loom.jsonl")])
    def test_g24_items_that_are_not_collected_this_time(self, project: Project, options: tuple[str, ...]) -> None:
        """Items made from other files (under a flag, or ignored) keep their snapshots; syrupy knows no .py for them."""
        project.write("conftest.py", GOLDEN_ITEMS)
        project.write("two.loom.jsonl", "{}")
        project.write("test_c.py", "def test_text(snapshot):\n    assert 'text' == snapshot\n")
        assert project("--golden", "--snapshot-update") == RAN
        everything = sorted([*KEPT, "__snapshots__/two.loom/replay.loomrun", "__snapshots__/test_c.ambr"])
        assert project.files == everything
        assert project(*options) == RAN
        assert project(*options, "--snapshot-update") == RAN
        assert project.files == everything

    def test_g6b_items_that_are_no_functions(self, empty: Project) -> None:
        """A file that belongs to an item of another kind stays when -k leaves that item out."""
        empty.write("conftest.py", OTHER_ITEMS)
        empty.write("odd.case", "")
        empty.write("test_c.py", "def test_text(snapshot):\n    assert 'text' == snapshot\n")
        empty.write("__snapshots__/odd/case.loomrun", "workflow: odd\n")
        assert empty("-k", "test_text", "--snapshot-update") == RAN
        assert "__snapshots__/odd/case.loomrun" in empty.files

    def test_g1_beside_syrupys_own_json(self, project: Project) -> None:
        """No other extension claims our suffix, and ours claims no other: both kinds pass, stay and are found again."""
        project.write(
            "test_c.py",
            "from syrupy.extensions.json import JSONSnapshotExtension\n"
            "def test_json(snapshot):\n    assert {'a': 1} == snapshot.use_extension(JSONSnapshotExtension)\n",
        )
        theirs = "__snapshots__/test_c/test_json.json"
        for options in (["--snapshot-update"], [], ["test_c.py", "--snapshot-update"]):
            assert project(*options) == RAN
            assert project.files == sorted([*KEPT, theirs])

    def test_g2_beside_amber_tests(self, project: Project) -> None:
        """To an amber test in the same folder our files are no unknown snapshots, even when their tests are gone."""
        project.write("test_c.py", "def test_text(snapshot):\n    assert 'text' == snapshot\n")
        assert project("--snapshot-update") == RAN
        for name in ("test_a.py", "test_b.py"):
            (project.path / name).unlink()
        assert project() == RAN
        assert "unused" not in project.result.stdout.str()
        project.write("test_d.py", "def test_deselected():\n    pass\n")
        assert project("-k", "text", "--snapshot-update") == RAN
        assert project.files == sorted([*KEPT, "__snapshots__/test_c.ambr"])

    def test_g3_parameters_that_differ_only_in_unsafe_characters(self, empty: Project) -> None:
        """Each parameter set has a file of its own, on every file system, and passes next time."""
        empty.write(
            "test_p.py",
            "values = ['a/b', 'ab', 'a:b', 'a*b', 'x' * 300, 'x' * 301, 'é/', '\\U0001f600' * 90]\n"
            "@pytest.mark.parametrize('value', values)\n"
            "def test_p(value, loom_snapshot):\n    assert run(value) == loom_snapshot\n",
        )
        assert empty("-W", "error", "--snapshot-update") == RAN
        assert len(empty.files) == 8
        assert all(len(Path(name).name.encode()) < 140 and not set(name) & set('\\?*:|"<>') for name in empty.files)
        assert empty("-W", "error") == RAN

    def test_g4_equal_runs_are_equal_bytes(self, project: Project) -> None:
        """Another id and other times change no byte; a real change is rewritten, with nothing stale left."""
        before = {name: (project.path / name).read_bytes() for name in KEPT}
        project.write("test_a.py", THREE.replace("(1)", "(1, 'run-0002-fedcba', 999)").replace("run(2)", "run(22)"))
        assert project("test_a.py") == FAILED
        project.result.assert_outcomes(passed=2, failed=1)
        assert project("--snapshot-update") == RAN
        after = {name: (project.path / name).read_bytes() for name in KEPT}
        changed = [name for name in KEPT if before[name] != after[name]]
        assert changed == ["__snapshots__/test_a/test_two.loomrun"]
        assert after[changed[0]] == before[changed[0]].replace(b"completed 2", b"completed 22")

    def test_g9_another_folder_name(self, project: Project) -> None:
        """Under --snapshot-dirname the files are written, kept and cleaned up in that folder."""
        named = "--snapshot-dirname=goldens"
        assert project(named, "--snapshot-update") == RAN
        moved = [name.replace("__snapshots__", "goldens") for name in KEPT]
        assert project.files == sorted(KEPT + moved)
        assert project(named, "--ignore=test_a.py", "--snapshot-update") == RAN
        assert project.files == sorted(KEPT + moved)
        (project.path / "test_b.py").unlink()
        assert project(named, "--snapshot-update") == RAN
        assert project.files == sorted(KEPT + moved[:3])

    def test_g5_what_cannot_be_compared_says_so(self, empty: Project) -> None:
        """A value that is no run, or a log that cannot be folded, fails with its own words at the user's line."""
        empty.write(
            "test_a.py",
            "def test_no_run(loom_snapshot):\n    assert {'a': 1} == loom_snapshot\n"
            "def test_bad_log(loom_snapshot):\n"
            "    log = run(1)\n"
            "    log.events.append(type(log.events[0])(**{\n"
            "        name: getattr(log.events[0], name) for name in log.events[0].__struct_fields__\n"
            "    } | {'event_type': 'STEP_TELEPORTED'}))\n"
            "    assert log == loom_snapshot\n",
        )
        assert empty() == FAILED
        out = empty.result.stdout.str()
        assert "TypeError: loom_snapshot compares runs: give it a Log or an ExecutionState, not dict" in out
        assert "kernel event kind STEP_TELEPORTED is not known" in out
        assert "/syrupy/" not in out.replace("\\", "/")

    def test_g5_a_broken_diff_keeps_the_assertion(self, project: Project) -> None:
        """Whatever goes wrong while the difference is shown, the test fails as an assertion about the snapshot."""
        project.write(
            "test_b.py",
            "import pytest_loom.plugin.snapshot as home\n"
            "def test_far(loom_snapshot, monkeypatch):\n"
            "    monkeypatch.setattr(home, '_changed', None)\n    assert run(5) == loom_snapshot\n",
        )
        assert project() == FAILED
        out = project.result.stdout.str()
        assert "the difference cannot be shown" in out
        assert "INTERNALERROR" not in out
        assert "_callers.py" not in out

    def test_g12_one_name_for_two_runs(self, empty: Project) -> None:
        """Two different runs under one name fail at once and leave the first one's snapshot; equal ones may share."""
        empty.write(
            "test_a.py",
            "def test_twice(loom_snapshot):\n"
            "    assert run(1) == loom_snapshot(name='x')\n    assert run(2) == loom_snapshot(name='x')\n"
            "def test_same(loom_snapshot):\n"
            "    assert run(1) == loom_snapshot(name='x')\n    assert run(1) == loom_snapshot(name='x')\n",
        )
        for _ in range(2):
            assert empty("--snapshot-update") == FAILED
            empty.result.assert_outcomes(passed=1, failed=1)
            empty.result.stdout.fnmatch_lines(["*two different runs are compared with the snapshot 'x' in one test*"])
            assert "completed 1" in (empty.path / "__snapshots__/test_a/test_twice[x].loomrun").read_text()


GOLDEN_ITEMS = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--golden", action="store_true")

class Golden(pytest.File):
    def collect(self):
        from runs import run
        def replay(loom_snapshot):
            assert run(1) == loom_snapshot
        yield pytest.Function.from_parent(self, name="replay", callobj=replay)

def pytest_collect_file(file_path, parent):
    if file_path.name.endswith(".loom.jsonl") and parent.config.getoption("--golden"):
        return Golden.from_parent(parent, path=file_path)
"""
OTHER_ITEMS = """
import pytest

class Odd(pytest.Item):
    def runtest(self):
        pass

class OddFile(pytest.File):
    def collect(self):
        yield Odd.from_parent(self, name="case")

def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".case":
        return OddFile.from_parent(parent, path=file_path)
"""


class TestOtherSetups:
    @pytest.mark.parametrize(
        "options",
        [
            ("-n", "2"),
            ("-p", "no:cacheprovider"),
            ("-W", "error"),
            ("-p", "pytest_randomly"),
            ("-n", "2", "-W", "error"),
        ],
    )
    def test_a_failing_update_keeps_and_a_passing_one_cleans(self, project: Project, options: tuple[str, ...]) -> None:
        """With other plugins on or off, in any order and with warnings as errors, the guard decides the same."""
        project.write("test_a.py", THREE.replace("run(2) ==", "1 / 0 =="))
        assert project(*options, "--snapshot-update") == FAILED
        assert project.files == KEPT
        project.write("test_a.py", THREE.partition("def test_three")[0])
        assert project(*options, "--snapshot-update") == RAN
        assert project.files == [name for name in KEPT if "three" not in name]
        assert project.said == [
            "pytest-loom: deleted 1 run summary that no test uses any more: __snapshots__/test_a/test_three.loomrun"
        ]

    @pytest.mark.parametrize("update", ["--snapshot-update", "--snapshot-update-new-only"])
    def test_workers_write_and_find_snapshots(self, empty: Project, update: str) -> None:
        """Snapshots made by xdist workers are the ones that a run without workers compares with."""
        empty.write("test_a.py", THREE)
        assert empty("-n", "2", update) == RAN
        assert empty.files == KEPT[:3]
        assert empty() == RAN


class TestCleaningUp:
    def test_golden_logs_are_never_touched(self, project: Project) -> None:
        """A whole passing update removes an unused summary, and no golden log."""
        project.write("refund.loom.jsonl", "{}")
        project.write("test_b.py", "def test_other():\n    pass\n")
        assert project("--snapshot-update") == RAN
        assert project.files == KEPT[:3]
        assert (project.path / "refund.loom.jsonl").exists()

    def test_a_deleted_test_file_is_cleaned_up_after(self, project: Project) -> None:
        """The folder of a test file that is gone goes too, also when its neighbours were collected by workers."""
        (project.path / "test_b.py").unlink()
        assert project("-n", "2", "--snapshot-update") == RAN
        assert project.files == KEPT[:3]
        assert not (project.path / "__snapshots__/test_b").exists()

    @pytest.mark.parametrize("options", [(), ("-n", "2")])
    def test_a_plain_run_reports_unused_ones(self, project: Project, options: tuple[str, ...]) -> None:
        """Without --snapshot-update an unused summary stays, is named, and the run ends with 1, as syrupy's own do."""
        (project.path / "test_b.py").unlink()
        assert project(*options) == FAILED
        assert project.files == KEPT
        assert project.said == [
            "pytest-loom: 1 run summary unused, so this run fails: __snapshots__/test_b/test_far.loomrun; "
            "--snapshot-update deletes unused ones"
        ]

    @pytest.mark.parametrize(("option", "lines"), [("--snapshot-warn-unused", 1), ("--snapshot-disable-unused", 0)])
    def test_syrupys_flags_for_unused_ones_hold(self, project: Project, option: str, lines: int) -> None:
        """What syrupy's flags say about unused snapshots is so for ours."""
        (project.path / "test_b.py").unlink()
        assert project(option) == RAN
        assert len(project.said) == lines
        assert project.files == KEPT

    def test_no_cleanup_keeps_unused_ones(self, project: Project) -> None:
        """--snapshot-no-cleanup keeps them and is given as the reason."""
        (project.path / "test_b.py").unlink()
        assert project("--snapshot-update", "--snapshot-no-cleanup") == RAN
        assert project.files == KEPT
        assert [line.rpartition(": ")[2] for line in project.said] == ["--snapshot-no-cleanup"]

    @pytest.mark.parametrize(
        "options",
        [
            ("-k", "one or far"),
            ("-m", "not slow"),
            ("--deselect", "test_a.py::test_two"),
            ("test_a.py::test_one", "test_b.py"),
            ("--lf",),
            ("--setup-only",),
            ("-p", "dropping"),
            ("-p", "leaving"),
        ],
    )
    def test_a_run_that_left_tests_out_deletes_nothing(self, project: Project, options: tuple[str, ...]) -> None:
        """Whichever way tests were left out of a passing run: it cannot tell what is unused, and says what it kept."""
        drop = "def pytest_collection_modifyitems(items):\n    items[:] = items[2:]\n"
        leave = "import pytest\ndef pytest_runtest_teardown(item):\n    pytest.exit('enough', returncode=0)\n"
        project.write("dropping.py", drop)
        project.write("leaving.py", leave)
        project.write("pytest.ini", "[pytest]\nmarkers = slow")
        if options == ("--lf",):
            project.write("test_a.py", THREE.replace("run(2) ==", "1 / 0 =="))
            assert project() == FAILED
        project.write("test_a.py", THREE.replace("def test_two", "@pytest.mark.slow\ndef test_two"))
        assert project(*options, "--snapshot-update") == RAN
        assert project.files == KEPT
        (line,) = project.said
        assert line.startswith("pytest-loom: kept ")

    @pytest.mark.parametrize(
        "body",
        [
            THREE.replace("def test_two", "@pytest.mark.skip\ndef test_two"),
            THREE.replace("def test_two", "@pytest.mark.xfail\ndef test_two").replace("run(2) ==", "1 / 0 =="),
            "pytest.importorskip('no_such_module')\n" + THREE,
        ],
        ids=["skipped", "expected to fail", "file skipped"],
    )
    @pytest.mark.parametrize("workers", [(), ("-n", "2")])
    def test_skipped_tests_keep_their_snapshots(self, project: Project, body: str, workers: tuple[str, ...]) -> None:
        """A test that is skipped here runs elsewhere: its summary is not unused."""
        project.write("test_a.py", body)
        for options in ((), ("--snapshot-update",)):
            assert project(*workers, *options) == RAN
            assert project.files == KEPT
            assert project.said == []

    def test_a_folder_may_be_named(self, project: Project) -> None:
        """Naming folders is no selection of tests: what lies in them is judged, nothing else is."""
        project.write("unit/test_u.py", "def test_u(loom_snapshot):\n    assert run(6) == loom_snapshot\n")
        assert project("unit", "--snapshot-update") == RAN
        project.write("unit/test_u.py", "def test_v(loom_snapshot):\n    assert run(6) == loom_snapshot\n")
        (project.path / "test_b.py").unlink()
        assert project("unit", "--snapshot-update") == RAN
        assert project.files == [*KEPT, "unit/__snapshots__/test_u/test_v.loomrun"]

    def test_a_file_that_cannot_be_deleted_is_said(self, project: Project) -> None:
        """A failing deletion is a line, not a crash."""
        (project.path / "test_b.py").unlink()
        project.write("stuck.py", STUCK)
        assert project("-p", "stuck", "--snapshot-update") == RAN
        (line,) = project.said
        assert line.endswith("__snapshots__/test_b/test_far.loomrun (no way)")


STUCK = """
import pathlib
def unlink(self, missing_ok=False):
    raise OSError(13, "no way")
pathlib.Path.unlink = unlink
"""


class TestCosts:
    def test_loading_the_guard_imports_no_syrupy(self) -> None:
        """The guard is loaded in every pytest run, so it brings in neither syrupy nor the log."""
        code = "import sys, pytest_loom.plugin.guard; print([n for n in ('syrupy', 'msgspec') if n in sys.modules])"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert run.stdout.strip() == "[]"

    def test_without_syrupy_the_fixture_says_what_it_needs(self, empty: Project) -> None:
        """Under -p no:syrupy only tests that use loom_snapshot fail, each with one line."""
        empty.write("test_a.py", "def test_one(loom_snapshot):\n    pass\ndef test_two():\n    pass\n")
        empty.plugins = ("-p", "pytest_loom.plugin", "-p", "no:syrupy")
        assert empty() == FAILED
        empty.result.assert_outcomes(passed=1, errors=1)
        empty.result.stdout.fnmatch_lines(["loom_snapshot needs syrupy: install syrupy 7, *"])
        assert "Traceback" not in empty.result.stdout.str()

    @pytest.mark.parametrize("options", [(), ("--collect-only", "-q"), ("--snapshot-update",)])
    def test_other_snapshots_are_syrupys_business(self, empty: Project, options: tuple[str, ...]) -> None:
        """A project without loom snapshots sees syrupy's own behaviour, line for line and file for file."""
        outcomes: list[tuple[int, list[str], list[str]]] = []
        empty.write("test_t.py", "def test_text(snapshot):\n    assert 'text' == snapshot\n")
        for plugins in (empty.plugins, ("-p", "syrupy")):
            shutil.rmtree(empty.path / "__snapshots__", ignore_errors=True)
            empty.write("__snapshots__/foreign.txt", "")
            empty.plugins = plugins
            empty("--snapshot-update", "--snapshot-no-cleanup")
            status = empty(*options)
            said = [line for line in empty.result.outlines if "snapshot" in line]
            outcomes.append((status, empty.files, said))
        assert outcomes[0] == outcomes[1]
