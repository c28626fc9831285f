"""The live-call guard and files: real attempts to change them, and what is no change."""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import shutil
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.errors import LiveCallError
from pytest_loom.flow.guard import closed


def rmtree(folder: Path) -> None:
    """Remove a folder, whatever goes wrong."""
    shutil.rmtree(folder / "sub", ignore_errors=True)


def append(folder: Path) -> None:
    """Append to a file."""
    with open(folder / "file", "a", encoding="utf-8") as file:
        file.write("x")


FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "write_text": (lambda folder: (folder / "new").write_text("x"), "write to .*new"),
    "append": (append, "write to .*file"),
    "update": (lambda folder: open(folder / "file", "r+b").close(), "write to .*file"),
    "exclusive": (lambda folder: open(folder / "new", "x", encoding="utf-8").close(), "write to .*new"),
    "os.open": (lambda folder: os.close(os.open(folder / "new", os.O_CREAT | os.O_WRONLY)), "write to .*new"),
    "remove": (lambda folder: os.remove(folder / "file"), "remove .*file"),
    "unlink": (lambda folder: (folder / "file").unlink(), "remove .*file"),
    "rename": (lambda folder: os.rename(folder / "file", folder / "new"), "rename .*file"),
    "replace": (lambda folder: (folder / "file").replace(folder / "new"), "rename .*file"),
    "move": (lambda folder: shutil.move(folder / "file", folder / "new"), "rename .*file"),
    "mkdir": (lambda folder: (folder / "new").mkdir(), "make the folder .*new"),
    "rmdir": (lambda folder: (folder / "sub" / "empty").rmdir(), "remove the folder .*empty"),
    "rmtree": (rmtree, "remove the folder .*sub"),
    "copy": (lambda folder: shutil.copy(folder / "file", folder / "new"), "write to .*new"),
    "truncate": (lambda folder: os.truncate(folder / "file", 0), "cut .*file"),
    "link": (lambda folder: os.link(folder / "file", folder / "new"), "make the link .*new"),
    "symlink": (lambda folder: os.symlink("file", folder / "new"), "make the link .*new"),
    "chmod": (lambda folder: os.chmod(folder / "file", 0o600), "change the mode of .*file"),
    "utime": (lambda folder: os.utime(folder / "file"), "change the times of .*file"),
    "temporary": (lambda folder: tempfile.NamedTemporaryFile().close(), "write to "),
    "sqlite": (lambda folder: sqlite3.connect(folder / "new").close(), "the database .*new"),
    "sqlite-uri": (lambda folder: sqlite3.connect(f"file:{folder}/new", uri=True).close(), "the database .*new"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with something in it."""
    folder = tmp_path / "data"
    (folder / "sub" / "empty").mkdir(parents=True)
    (folder / "sub" / "file").write_text("sub")
    (folder / "file").write_text("text")
    return folder


def tree(folder: Path) -> dict[str, str | None]:
    """Everything below a folder, with its text."""
    return {str(path.relative_to(folder)): path.read_text() if path.is_file() else None for path in folder.rglob("*")}


class TestFiles:
    @pytest.mark.parametrize("way", FILES)
    def test_changes_are_refused(self, folder: Path, way: str) -> None:
        """No way of changing files gets through, in the temporary folder neither, and everything stays as it was."""
        change, says = FILES[way]
        before = tree(folder)
        with closed() as guard, pytest.raises(LiveCallError, match=says) as caught:
            change(folder)
        assert guard.calls == [caught.value]
        assert caught.value.path == __file__
        assert tree(folder) == before

    @pytest.mark.parametrize(
        ("event", "rest"),
        [("os.chown", (1, 1, -1)), ("os.setxattr", ("x", b"", 0)), ("os.removexattr", ("x",)), ("os.chflags", (0,))],
    )
    def test_what_cannot_be_tried_everywhere(self, folder: Path, event: str, rest: tuple[Any, ...]) -> None:
        """Changes that need rights, or belong to other systems, are judged by their audit events."""
        with closed(), pytest.raises(LiveCallError, match=r"change the \w+ of .*file"):
            sys.audit(event, folder / "file", *rest)
        with closed(writable=[folder]) as guard:
            sys.audit(event, folder / "file", *rest)
        assert guard.calls == []

    @pytest.mark.skipif(os.unlink not in os.supports_dir_fd, reason="this system has no dir_fd")
    def test_paths_below_an_open_folder(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A path that is relative to a descriptor is judged by that folder, not by the working directory."""
        monkeypatch.chdir(folder / "sub")
        descriptor = os.open(folder, os.O_RDONLY)
        with closed(writable=[folder / "sub"]), pytest.raises(LiveCallError, match=r"remove .*data/file"):
            os.unlink("file", dir_fd=descriptor)
        with closed(writable=[folder]):
            os.unlink("file", dir_fd=descriptor)
        os.close(descriptor)
        assert not (folder / "file").exists()

    @pytest.mark.parametrize("way", FILES)
    def test_writable_folders_may_be_changed(self, folder: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
        """All of it works below a folder that writable names."""
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        before = tree(folder)
        with closed(writable=[folder]) as guard:
            FILES[way][0](folder)
        assert guard.calls == []
        assert tree(folder) != before or way in ("update", "chmod", "utime", "temporary")

    def test_a_folder_of_a_similar_name_is_not_writable(self, folder: Path) -> None:
        """Whole names count, and neither ``..`` nor a link leads out of a writable folder."""
        inside = folder / "sub"
        (inside / "link").symlink_to(folder / "file")
        (inside / "up").symlink_to(folder)
        with closed(writable=[inside]) as guard:
            for path in (folder / "subway", inside / ".." / "x", inside / "link", inside / "up" / "x"):
                with pytest.raises(LiveCallError):
                    path.write_text("x")
            (inside / "link").unlink()  # the link itself lies inside
        assert len(guard.calls) == 4
        assert (folder / "file").read_text() == "text"

    def test_relative_paths_are_resolved(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A relative path means what it means to the process: below its working directory."""
        monkeypatch.chdir(folder)
        with closed(writable=[Path("sub")]):
            Path("sub/x").write_text("x")
            with pytest.raises(LiveCallError, match="write to x during"):
                Path("x").write_text("x")

    def test_reading_and_what_is_no_change(self, folder: Path) -> None:
        """Reading, devices, and making a folder that is there already are all right."""
        with closed() as guard:
            assert (folder / "file").read_text() == "text"
            assert sorted(os.listdir(folder)) == ["file", "sub"]
            with open(os.devnull, "w", encoding="utf-8") as null:
                null.write("x")
            (folder / "sub").mkdir(exist_ok=True)
            os.makedirs(folder / "sub", exist_ok=True)
            sqlite3.connect(":memory:").close()
            with contextlib.suppress(sqlite3.OperationalError):
                sqlite3.connect(f"file:{folder}/none?mode=ro", uri=True).close()
        assert guard.calls == []

    def test_what_is_open_already_stays_usable(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Open files, standard output and descriptors may be written to."""
        with open(folder / "file", "w", encoding="utf-8") as file, closed() as guard:
            file.write("more")
            os.ftruncate(file.fileno(), 0)
            with open(file.fileno(), "w", encoding="utf-8", closefd=False) as again:
                again.write("again")
            print("printed")
        assert guard.calls == []
        assert "printed" in capsys.readouterr().out

    def test_log_handlers_may_write(self, folder: Path) -> None:
        """A file handler that opens its file with the first record, or rolls it over, is not the run's doing."""
        logger = logging.Logger("loom-guard-test")
        handler = logging.FileHandler(folder / "log", delay=True)
        logger.addHandler(handler)
        with closed() as guard:
            logger.warning("said")
        handler.close()
        assert guard.calls == []
        assert (folder / "log").read_text() == "said\n"

    def test_imports_may_write_compiled_modules(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The import system's cache is no file of the application."""
        (tmp_path / "loom_guard_compiled.py").write_text("value = 1")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(sys, "dont_write_bytecode", False)
        monkeypatch.setattr(sys, "pycache_prefix", None)
        with closed() as guard:
            importlib.import_module("loom_guard_compiled")
        del sys.modules["loom_guard_compiled"]
        assert guard.calls == []
        assert list((tmp_path / "__pycache__").glob("loom_guard_compiled.*.pyc"))


def test_what_the_garbage_collector_cleans_up_is_nobodys_call(tmp_path: Path) -> None:
    """It runs when it likes, so also in the middle of a run, for what another test left."""
    folder = tempfile.TemporaryDirectory(dir=tmp_path)
    name = folder.name
    with closed() as guard, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del folder
        gc.collect()
    assert (guard.calls, os.path.exists(name)) == ([], False)
