"""Golden logs in tests: which ones a marker names, one parameter each, and how a changed one is accepted."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import lru_cache
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_loom.errors import printable
from pytest_loom.plugin.accepted import as_golden, differences, summary
from pytest_loom.plugin.keys import FACTS, MUTATION, PASSED
from pytest_loom.plugin.options import SETTINGS, accept_command, accepting, failing, shown

if TYPE_CHECKING:
    from pytest_loom.log.event import Log

DIFF_RULES = ("ignore", "compare", "tolerance", "comparators", "unordered")
"""Keyword arguments of the marker that go to ``diff_runs``."""

_MARKER_KEYS = (*DIFF_RULES, "scorers", "thresholds")
_ID_LIMIT = 80


@dataclass(frozen=True)
class GoldenRef:
    """One golden log of a test: the file, and which of its executions (None: the only one)."""

    path: Path
    execution_id: str | None = None


WRITTEN = pytest.StashKey[dict[Any, Any]]()
"""The goldens that this process has written: which test, and what."""

USED = pytest.StashKey[set[Path]]()
"""The golden files that some collected test names."""


FOLDER = "logs"
"""Beside the test file: where ``loom.record`` keeps what it was given no path for."""


def default_folder(test_file: Path) -> Path:
    """Where the recordings of a test file lie that were given no path."""
    return Path(os.path.abspath(test_file.parent)) / FOLDER / test_file.stem


def default_name(nodeid: str) -> str:
    """A test's name, with its class and parameters, as a file name."""
    name = nodeid.partition("::")[2].replace("::", ".")
    clean = re.sub(r"[^A-Za-z0-9_.@+-]+", "-", name).strip("-.") or "test"
    return clean if len(clean) <= 120 else f"{clean[:110]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def may_record(metafunc: pytest.Metafunc) -> None:
    """Note that a test may have recordings under its default name, whether or not it comes to make or use them."""
    path = default_folder(metafunc.definition.path) / default_name(metafunc.definition.nodeid)
    metafunc.config.stash.setdefault(USED, set()).add(path)


def check_marker(marker: pytest.Mark) -> None:
    """Fail where the marker says something that has no meaning."""
    for name in marker.kwargs:
        if name not in _MARKER_KEYS:
            pytest.fail(
                f"@pytest.mark.loom has no argument {name!r}; it takes paths and {', '.join(_MARKER_KEYS)}",
                pytrace=False,
            )
    for path in marker.args:
        if not isinstance(path, (str, os.PathLike)):
            pytest.fail(f"@pytest.mark.loom takes paths of golden logs, not {path!r}", pytrace=False)


def parametrize(metafunc: pytest.Metafunc) -> None:
    """One test per golden where the marker's pattern or file gives several."""
    marker = metafunc.definition.get_closest_marker("loom")
    if marker is None or "loom_golden" not in metafunc.fixturenames or not marker.args:
        return
    try:
        check_marker(marker)
        refs = _refs(metafunc.config, marker, metafunc.definition.path.parent)
    except pytest.fail.Exception:
        return  # the fixture will say so: one test fails then, not the collection of its module
    metafunc.config.stash.setdefault(USED, set()).update(ref.path for ref in refs)
    if len(refs) == 1 and refs[0].execution_id is None:
        return
    metafunc.parametrize("loom_golden", refs, ids=_ids(refs), indirect=True)


def golden_of(request: pytest.FixtureRequest) -> Log:
    """The golden log that the test's marker names, ready to be compared and, where asked for, to be replaced."""
    from pytest_loom.log.event import Golden

    marker = request.node.get_closest_marker("loom")
    if marker is None or not marker.args:
        pytest.fail('loom_golden needs @pytest.mark.loom("path/to/golden.loom.jsonl") on the test', pytrace=False)
    check_marker(marker)
    ref = getattr(request, "param", None) or _only(_refs(request.config, marker, request.path.parent))
    if "__snapshots__" in ref.path.parts:
        pytest.fail(
            f"golden log {ref.path} lies in __snapshots__, where syrupy deletes what it does not know: move it",
            pytrace=False,
        )
    update = accepting(request.config, ref.path)
    rules = diff_rules(marker)
    log = load_golden(request, ref, update=update, rules=rules)
    if update:
        staged: list[Log] = []
        log.golden = Golden(rules, staged.append)
        request.addfinalizer(lambda: _keep(request, ref, log, staged))
    else:
        from pytest_loom.plugin.pending import Pending

        mutation = request.config.stash.get(MUTATION, None)
        compared = None if mutation is None else lambda rules: mutation.compared(ref.path, log, rules)
        log.golden = Golden(rules, None, Pending(request, ref, log).differs, compared)
    return log


def diff_rules(marker: pytest.Mark) -> dict[str, Any]:
    """What the marker says on how to compare, as arguments of ``diff_runs``."""
    return {name: marker.kwargs[name] for name in DIFF_RULES if name in marker.kwargs}


def marker_refs(request: pytest.FixtureRequest, marker: pytest.Mark) -> list[GoldenRef]:
    """The goldens that a test's marker names."""
    return _refs(request.config, marker, request.path.parent)


def diff_rules_of(golden: Log | None) -> dict[str, Any]:
    """How runs are compared with a golden."""
    return dict(golden.golden.rules) if golden is not None and golden.golden is not None else {}


def _only(refs: list[GoldenRef]) -> GoldenRef:
    if len(refs) > 1:
        pytest.fail(
            f"@pytest.mark.loom names {len(refs)} logs, and the test was collected for one: if they have just been"
            " recorded, run again; if the mark is on a pytest.param, mark the test",
            pytrace=False,
        )
    return refs[0]


def _refs(config: pytest.Config, marker: pytest.Mark, folder: Path) -> list[GoldenRef]:
    """What the marker's paths name: looked up from the ini file's folder, else from the test's own."""
    refs: list[GoldenRef] = []
    for argument in marker.args:
        text = os.fspath(argument)
        files = _files(text, config.stash[SETTINGS].base, folder)
        if not files:
            pytest.fail(f"@pytest.mark.loom({text!r}): no log matches, and no log proves nothing", pytrace=False)
        many = len(marker.args) > 1 or len(files) > 1 or (has_magic(text) and not str(files[0]).endswith(text))
        for file in files:
            ids = [item.execution_id for item in _read(file, _stamp(file))]
            refs += [GoldenRef(file, name) for name in ids] if many or len(ids) > 1 else [GoldenRef(file)]
    return list(dict.fromkeys(refs))


def _files(text: str, *bases: Path) -> list[Path]:
    """The files that one path of a marker names in the first folder where there are any.

    Where there are none, a plain path is that of a golden to be made, in the first folder that has its parent. What
    looks like a glob and is the name of a file is that file.
    """
    from pytest_loom.errors import LogError
    from pytest_loom.sources import find_files

    plain = [Path(os.path.abspath(base / text)) for base in bases]
    for base, path in zip(bases, plain, strict=True):
        if path.is_file():
            return [path]
        if has_magic(text) or path.is_dir():
            with contextlib.suppress(LogError):
                return [Path(os.path.abspath(file)) for file in find_files(text, root=base)]
    if has_magic(text) or any(path.is_dir() for path in plain):
        return []
    return [next((path for path in plain if path.parent.is_dir()), plain[0])]


def load_golden(request: pytest.FixtureRequest, ref: GoldenRef, *, update: bool, rules: Mapping[str, Any]) -> Log:
    """The golden log of a test; a stand-in for one that is still to be made where ``update`` allows that.

    Under ``--loom-mutate`` it may be a mutant; ``rules`` is how the test compares it.
    """
    from pytest_loom.errors import LogError
    from pytest_loom.log.event import Log

    name = shown(ref.path, request.config.invocation_params.dir)
    again = accept_command(request.config, request.node.nodeid)
    if not ref.path.exists():
        if update:
            return _stand_in(ref.path, name)
        pytest.fail(
            f"golden log {name} does not exist.\n"
            f"  Make it: {again}\n"
            "  (the test then accepts what today's code did; look at it before you commit it)\n"
            "  Effects that call out need --loom-live as well.",
            pytrace=False,
        )
    items = _read(ref.path, _stamp(ref.path))
    wanted = [item for item in items if ref.execution_id is None or item.execution_id == ref.execution_id]
    if not wanted:
        pytest.fail(f"golden log {name} no longer holds execution {printable(ref.execution_id or '')}", pytrace=False)
    if isinstance(wanted[0], LogError):
        pytest.fail(f"golden log cannot be read: {wanted[0]}\n  Restore it from version control.", pytrace=False)
    if ref.execution_id is None and len(wanted) > 1:
        pytest.fail(f"golden log {name} now holds {len(wanted)} executions; run the whole test", pytrace=False)
    log: Log = wanted[0]
    log = Log(log.events, path=name, source=log.source, engine=log.engine, live=log.live, notices=log.notices)
    mutation = request.config.stash.get(MUTATION, None)
    return log if mutation is None else mutation.hand_out(request.node, ref.path, log, rules)


class NotThereYet(dict[str, Any]):
    """The variables of a golden that is still to be made: asked for one, it says so instead of a bare KeyError."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def __missing__(self, key: str) -> Any:
        from pytest_loom.errors import LoomError

        raise LoomError(
            f"golden log {self.name} does not exist yet, so it has no {key}",
            hint="Make the first one with loom.record(flow, input), or take the input from somewhere else.",
        )


def _stand_in(path: Path, name: str) -> Log:
    """Stands for a golden that this run is going to make: differs from every candidate."""
    from pytest_loom.log.event import LogBuilder

    builder = LogBuilder(path.name.partition(".")[0], "?", path=name)
    builder.add("EXECUTION_STARTED", {}, timestamp=0)
    log = builder.log()
    log.state._variables = NotThereYet(name)
    return log


def _keep(request: pytest.FixtureRequest, ref: GoldenRef, golden: Log, staged: list[Log]) -> None:
    """Write the candidate that the test accepted, if the test passed: a failed test accepts nothing."""
    from pytest_loom.evals.diff import diff_runs

    if not staged or not request.node.stash.get(PASSED, False):
        return
    name = shown(ref.path, request.config.invocation_params.dir)
    rules = diff_rules_of(golden)
    if any(diff_runs(staged[-1], other, **rules) for other in staged[:-1]):
        pytest.fail(
            f"different runs were compared with one golden, {name}, so none is accepted: give each its own",
            pytrace=False,
        )
    keep_log(request, ref, golden, staged[-1])


def keep_log(
    request: pytest.FixtureRequest, ref: GoldenRef, golden: Log | None, run: Log, identity: str | None = None
) -> None:
    """Write a run as the golden of a test that passed; a failed test keeps nothing.

    It takes the execution id of the golden that it replaces; a first one takes ``identity``, or keeps its own.
    """
    from pytest_loom.errors import LoomError
    from pytest_loom.evals.diff import diff_runs
    from pytest_loom.log.candidates import drop
    from pytest_loom.log.write import replace_log

    if not request.node.stash.get(PASSED, False):
        return
    name = shown(ref.path, request.config.invocation_params.dir)
    written = request.config.stash.setdefault(WRITTEN, {})
    before = written.setdefault((ref.path, ref.execution_id), (request.node.nodeid, run))
    if before[0] != request.node.nodeid and diff_runs(before[1], run, **diff_rules_of(golden)):
        pytest.fail(
            f"golden log {name} was accepted as another run by {before[0]}: give each test its own golden",
            pytrace=False,
        )
    existed = ref.path.exists()
    old = _read(ref.path, _stamp(ref.path)) if existed else []
    identity = ref.execution_id or (old[0].execution_id if old else identity) or run.execution_id
    if existed and any(getattr(item, "source", "loom") != "loom" for item in old):
        pytest.fail(f"{name} is not written by pytest-loom, so it is not rewritten: export it anew", pytrace=False)
    try:
        made = as_golden(run, golden, identity)
        replace_log(made, ref.path)
        drop(ref.path, identity)
    except (OSError, LoomError) as problem:
        raise failing(f"golden log {name} could not be written, the old one stands: {problem}") from None
    facts = request.node.stash.setdefault(FACTS, {})
    before = golden if existed else None
    what, details = summary(before, run), differences(before, made, diff_rules_of(golden))
    facts.setdefault("accepted", []).append([name, what, details])


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        facts = path.stat()
    except OSError:
        return (0, 0, 0)
    return (facts.st_ino, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, _stamp: tuple[int, int, int]) -> list[Any]:
    """The executions of a file, kept for the next test that asks while the file does not change."""
    from pytest_loom.sources import iter_file

    return list(iter_file(path))


def file_runs(path: Path) -> list[Any]:
    """The runs of a golden's file, broken ones as LogErrors."""
    return _read(path, _stamp(path))


def _ids(refs: list[GoldenRef]) -> list[str]:
    """Unique, readable parameter ids: the execution's, with the file's where that is not enough."""
    names = [_readable(_called(ref)) for ref in refs]
    files: dict[str, set[Path]] = {}
    for ref, name in zip(refs, names, strict=True):
        files.setdefault(name, set()).add(ref.path)
    if any(len(paths) > 1 for paths in files.values()):
        names = [f"{_readable(ref.path.name.partition('.')[0])}-{name}" for ref, name in zip(refs, names, strict=True)]
    taken: set[str] = set()
    for index, name in enumerate(names):
        unique, number = name, 1
        while unique in taken:
            number += 1
            unique = f"{name}~{number}"
        taken.add(unique)
        names[index] = unique
    return names


def _called(ref: GoldenRef) -> str:
    """The execution's id; of an imported run, whose id says nothing, the name of its file."""
    if ref.execution_id is None or re.fullmatch("run-[0-9a-f]{12}", ref.execution_id):
        return ref.path.name if ref.execution_id is None else ref.path.name.partition(".loom.")[0]
    return ref.execution_id


def _readable(name: str) -> str:
    clean = re.sub(r"[^A-Za-z0-9_.@+-]", "-", name)
    if len(clean) <= _ID_LIMIT:
        return clean or "log"
    return f"{clean[: _ID_LIMIT - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def used_goldens(config: pytest.Config) -> set[Path]:
    """The golden files that the tests collected in this process name."""
    return config.stash.get(USED, set())


def unused_goldens(used: set[Path], logs: Container[Path]) -> list[Path]:
    """Golden logs beside used ones that neither a test nor ``loom_logs`` names."""
    beside = {file for folder in {path.parent for path in used} for file in folder.glob("*.loom.jsonl*")}
    tests = {path for path in used if not path.name.endswith((".jsonl", ".gz"))}

    def is_of_a_test(file: Path) -> bool:
        stem = file.name.removesuffix(".gz").removesuffix(".loom.jsonl")
        parts = stem.split("-")
        return any(file.parent / "-".join(parts[:end]) in tests for end in range(1, len(parts) + 1))

    return sorted(
        file
        for file in beside - used
        if file not in logs and file.name.endswith((".loom.jsonl", ".loom.jsonl.gz")) and not is_of_a_test(file)
    )
