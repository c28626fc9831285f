"""``on_import``: an action for a module that may be imported later."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pytest_loom.flow.imports import on_import

Make = Callable[[str, str], str]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Write a module ``loom_imp_NAME`` (or a package's part) and return its name; it is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(name: str, source: str = "") -> str:
        name = f"loom_imp_{name}"
        file = tmp_path / (name.replace(".", "/") + ".py")
        file.parent.mkdir(exist_ok=True)
        (file.parent / "__init__.py").touch() if "." in name else None
        file.write_text(source)
        importlib.invalidate_caches()
        return name

    yield write
    for name in [name for name in sys.modules if name.startswith("loom_imp_")]:
        del sys.modules[name]


def test_a_module_that_is_imported_already_is_handled_at_once(make: Make) -> None:
    """The action is called with the module when the block starts, and not again by another import of it."""
    name = make("old", "")
    module = importlib.import_module(name)
    seen: list[ModuleType] = []
    with on_import({name: seen.append}):
        assert seen == [module]
        importlib.import_module(name)
    assert seen == [module]


def test_a_module_that_is_imported_later_is_handled_before_its_importer_sees_it(make: Make) -> None:
    """What imports the module finds what the action did, also by ``from X import name``."""
    name = make("late", "def door(): return 'live'")
    user = make("user", f"from {name} import door\nresult = door()")

    def shut(module: ModuleType) -> None:
        assert module.door() == "live"  # it has run to its end
        module.door = lambda: "shut"  # type: ignore[attr-defined]

    with on_import({name: shut}):
        assert importlib.import_module(user).result == "shut"


def test_a_part_of_a_package_is_waited_for_by_its_full_name(make: Make) -> None:
    """The package itself does not trigger what waits for its submodule."""
    name = make("pack.deep.part".replace("deep.", ""), "")
    seen: list[str] = []
    with on_import({name: lambda module: seen.append(module.__name__)}):
        importlib.import_module(name.rpartition(".")[0])
        assert seen == []
        importlib.import_module(name)
        assert seen == [name]


def test_the_module_knows_its_real_loader(make: Make) -> None:
    """inspect, importlib.resources and reload find the module as if nobody had waited for it."""
    name = make("loader", "def door(): return 1\n")
    with on_import({name: lambda module: None}):
        assert importlib.util.find_spec(name) is not None
        module = importlib.import_module(name)
    kinds = {type(module.__loader__).__name__, type(module.__spec__.loader).__name__}  # type: ignore[union-attr]
    assert kinds == {"SourceFileLoader"}
    assert "return 1" in inspect.getsource(module.door)
    assert importlib.reload(module) is module


def test_nothing_is_left_after_the_last_block(make: Make) -> None:
    """The finder is there while any block is open, in whatever order blocks end, and gone afterwards."""
    before = list(sys.meta_path)
    name = make("left", "")
    seen: list[str] = []
    first, second = (on_import({name: lambda module, which=which: seen.append(which)}) for which in ("one", "two"))  # type: ignore[misc]
    first.__enter__()
    second.__enter__()
    assert len(sys.meta_path) == len(before) + 1
    first.__exit__(None, None, None)
    importlib.import_module(name)
    second.__exit__(None, None, None)
    assert seen == ["two"]
    assert sys.meta_path == before


def test_after_the_block_an_import_does_nothing(make: Make) -> None:
    """A module that is imported when the block is over is nobody's business."""
    name = make("after", "")
    seen: list[ModuleType] = []
    with on_import({name: seen.append}):
        pass
    importlib.import_module(name)
    assert seen == []


def test_a_module_that_fails_is_waited_for_still(make: Make) -> None:
    """An import that raises calls no action; one that succeeds later does."""
    name = make("broken", "raise ValueError('no')")
    seen: list[ModuleType] = []
    with on_import({name: seen.append}):
        with pytest.raises(ValueError, match="no"):
            importlib.import_module(name)
        assert seen == []
        make("broken", "ok = True  # mended")
        importlib.import_module(name)
        assert len(seen) == 1


def test_builtin_and_replaced_modules(make: Make) -> None:
    """A module of C is handled too, and one that puts another object in its place is handed over as that object."""
    name = make("swap", "import sys\nsys.modules[__name__] = type(sys)('swapped')")
    builtin = "xxsubtype"  # a test module that every build contains and nothing imports
    seen: list[str] = []
    with on_import(dict.fromkeys((name, builtin), lambda module: seen.append(module.__name__))):
        importlib.import_module(name)
        importlib.import_module(builtin)
    sys.modules.pop(builtin)
    assert seen == ["swapped", builtin]


def test_what_an_action_raises_comes_out_of_the_import(make: Make) -> None:
    """The import fails with the action's error, and the finder is still taken away."""
    before = list(sys.meta_path)
    name = make("bad", "")

    def fail(module: ModuleType) -> None:
        raise RuntimeError("no seam in this version")

    with on_import({name: fail}), pytest.raises(RuntimeError, match="no seam"):
        importlib.import_module(name)
    assert sys.meta_path == before


def test_an_action_may_import(make: Make) -> None:
    """An action that imports another module that is waited for does not hang."""
    other = make("second", "")
    name = make("first", "")
    seen: list[str] = []

    def both(module: ModuleType) -> None:
        seen.append(module.__name__)
        importlib.import_module(other)

    with on_import({name: both, other: lambda module: seen.append(module.__name__)}):
        importlib.import_module(name)
    assert seen == [name, other]


def test_blocks_of_several_threads(make: Make) -> None:
    """Each of the blocks that threads have open at the same time gets its action called once."""
    name = make("threads", "")
    barrier = threading.Barrier(4)
    seen: list[int] = []

    def work(which: int) -> None:
        with on_import({name: lambda module: seen.append(which)}):
            barrier.wait(5)
            importlib.import_module(name)
            barrier.wait(5)

    threads = [threading.Thread(target=work, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(seen) == [0, 1, 2, 3]
