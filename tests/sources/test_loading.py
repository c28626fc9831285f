"""load_log, load_logs, what files a path, glob or folder names, and sources that users register."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import Log, LogBuilder, LogError, load_log, load_logs, write_log
from pytest_loom.log.event import Engine
from pytest_loom.sources import (
    find_files,
    iter_file,
    iter_logs,
    register_source,
    source_of,
    sources,
    unregister_source,
)


def made(name: str, events: int = 2) -> Log:
    """A log of an execution of that name."""
    builder = LogBuilder(name, "refund")
    for number in range(events):
        builder.add("Noted", {"n": number}, timestamp=number)
    return builder.log()


def write(path: Path, *names: str) -> Path:
    """A file with executions of those names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b""
    for name in names:
        data += write_log(made(name), path).read_bytes()
    path.write_bytes(data)
    return path


def names(source: Any) -> list[str]:
    """The executions that ``load_logs`` gives, in order; an error as ``!``."""
    logs, found = load_logs(source), []
    while True:
        try:
            found.append(next(logs).execution_id)
        except StopIteration:
            return found
        except LogError:
            found.append("!")


class TestLoadLog:
    def test_it_gives_the_one_log_of_a_file(self, tmp_path: Path) -> None:
        """A path may be text or a Path."""
        path = write(tmp_path / "a.loom.jsonl", "a")
        assert load_log(path).execution_id == load_log(str(path)).execution_id == "a"

    def test_it_refuses_a_file_of_several_executions(self, tmp_path: Path) -> None:
        """Which of them was meant is not guessed; their names are shown, made printable."""
        path = write(tmp_path / "a.loom.jsonl", "a", "b\n\x1b[31m", "c", "d")
        with pytest.raises(LogError) as caught:
            load_log(path)
        assert "holds 4 executions (a, b\\n\\x1b[31m, c, …), one was asked for" in caught.value.what
        assert "load_logs()" in caught.value.hint

    def test_one_good_execution_beside_a_bad_one_is_not_one(self, tmp_path: Path) -> None:
        """The damage is what has to be looked at first."""
        path = write(tmp_path / "a.loom.jsonl", "a", "b")
        path.write_bytes(b"".join(path.read_bytes().splitlines(True)[:3]).replace(b'"sequence":1', b'"sequence":2', 1))
        with pytest.raises(LogError, match="execution a: event 2: the log begins"):
            load_log(path)


class TestLoadLogs:
    def test_a_bad_log_raises_and_the_next_one_follows(self, tmp_path: Path) -> None:
        """One bad log never hides the others, neither in its file nor in other files."""
        bad = write(tmp_path / "b.loom.jsonl", "b1", "b2", "b3")
        lines = bad.read_bytes().splitlines(True)
        bad.write_bytes(b"".join(lines[:2] + lines[3:]))
        write(tmp_path / "a.loom.jsonl", "a")
        (tmp_path / "c.loom.jsonl").write_bytes(b"\x00\xff")
        (tmp_path / "d.loom.jsonl").symlink_to(tmp_path / "gone")
        (tmp_path / "e.loom.jsonl").write_bytes(b"")
        write(tmp_path / "f.loom.jsonl", "f")
        assert names(tmp_path) == ["a", "b1", "!", "b3", "!", "!", "!", "f"]
        assert names(str(tmp_path / "*.loom.jsonl")) == ["a", "b1", "!", "b3", "!", "!", "!", "f"]

    def test_it_can_be_used_in_a_for_loop(self, tmp_path: Path) -> None:
        """Where all is well it is an iterator like any other."""
        write(tmp_path / "a.loom.jsonl", "a", "b")
        assert [log.execution_id for log in load_logs(tmp_path)] == ["a", "b"]

    @pytest.mark.parametrize("source", ["*.loom.jsonl", "**/*.jsonl", "", "sub"])
    def test_nothing_found_is_an_error_at_once(self, tmp_path: Path, source: str) -> None:
        """An empty corpus proves nothing."""
        (tmp_path / "sub").mkdir()
        (tmp_path / "notes.txt").write_text("x")
        with pytest.raises(LogError, match="proves nothing"):
            load_logs(os.path.join(tmp_path, source))

    def test_logs_come_one_at_a_time(self, tmp_path: Path) -> None:
        """A file is only opened when its turn has come."""
        write(tmp_path / "a.loom.jsonl", "a")
        late = write(tmp_path / "b.loom.jsonl", "b")
        logs = load_logs(tmp_path)
        next(logs)
        late.unlink()
        with pytest.raises(LogError, match="No such file"):
            next(logs)


class TestFindFiles:
    def test_an_address_is_no_path(self) -> None:
        """One that no source reads is an error at once; it does not show the password that one may hold."""
        for address, what in (("ftp", "no source reads ftp:// addresses"), ("redis", "redis store are not supported")):
            with pytest.raises(LogError, match=what) as caught:
                load_logs(f"{address}://ann:s3cret@db/runs")
            assert "s3cret" not in str(caught.value)
        with pytest.raises(LogError, match="this is an address, not a path") as caught:
            find_files("postgres://ann:s3cret@db/runs")
        assert "s3cret" not in str(caught.value)

    @pytest.fixture
    def corpus(self, tmp_path: Path) -> Path:
        """A folder with logs, and with much that is none."""
        for name in (
            "b.loom.jsonl",
            "a.jsonl.gz",
            "sub/c.jsonl",
            "sub/deep/d.loom.jsonl",
            "notes.txt",
            "x.loom.jsonl.partial",
            "x.loom.jsonl-wal",
            "runs.db-wal",
            ".hidden.loom.jsonl",
            ".git/e.loom.jsonl",
            "__snapshots__/f.loom.jsonl",
            "__pycache__/g.loom.jsonl",
            "node_modules/h.loom.jsonl",
            "loom-contracts/refund/i.json",
            "loom-contracts/refund/i.jsonl",
        ):
            write(tmp_path / "t.loom.jsonl", "x").rename(self.ready(tmp_path / name))
        return tmp_path

    @staticmethod
    def ready(path: Path) -> Path:
        """The path, with its folder made."""
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @staticmethod
    def short(files: list[Path], folder: Path) -> list[str]:
        """Paths below the folder."""
        return [file.relative_to(folder).as_posix() for file in files]

    def test_a_folder_gives_the_files_with_a_suffix_of_a_source_sorted(self, corpus: Path) -> None:
        """Hidden files, snapshots, caches and captured contracts are never logs."""
        assert self.short(find_files(corpus), corpus) == [
            "a.jsonl.gz",
            "b.loom.jsonl",
            "sub/c.jsonl",
            "sub/deep/d.loom.jsonl",
        ]

    def test_a_glob_gives_what_it_matches(self, corpus: Path) -> None:
        """Less folders, SQLite's side files, and what is never a log."""
        (corpus / "folder.loom.jsonl").mkdir()
        assert self.short(find_files(corpus / "*.loom.jsonl*"), corpus) == ["b.loom.jsonl", "x.loom.jsonl.partial"]
        assert self.short(find_files(corpus / "**" / "*.jsonl"), corpus) == [
            "b.loom.jsonl",
            "sub/c.jsonl",
            "sub/deep/d.loom.jsonl",
        ]
        assert self.short(find_files(corpus / "?.jsonl.[gx]z"), corpus) == ["a.jsonl.gz"]

    def test_what_a_glob_names_itself_is_meant(self, corpus: Path) -> None:
        """A folder that is skipped on a walk can be asked for; so can one below which the whole checkout lies."""
        assert self.short(find_files(corpus / "node_modules" / "*.jsonl"), corpus) == ["node_modules/h.loom.jsonl"]

    def test_relative_names_start_from_the_root_that_is_given(
        self, corpus: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else from the working directory."""
        for name, count in (("sub", 2), ("sub/*.jsonl", 1), ("b.loom.jsonl", 1)):
            assert len(find_files(name, root=corpus)) == count
            assert all(file.is_file() for file in find_files(name, root=corpus))
        monkeypatch.chdir(corpus)
        assert find_files("sub/*.jsonl") == [Path("sub/c.jsonl")]
        assert find_files(corpus / "sub" / "*.jsonl", root=Path("/elsewhere")) == [corpus / "sub" / "c.jsonl"]

    def test_a_file_whose_name_looks_like_a_glob_is_that_file(self, tmp_path: Path) -> None:
        """Parametrized tests name their logs so."""
        path = write(tmp_path / "run[1].loom.jsonl", "a")
        write(tmp_path / "run1.loom.jsonl", "b")
        assert find_files(path) == [path]
        assert names(path) == ["a"]

    def test_a_plain_name_is_given_as_it_is(self, tmp_path: Path) -> None:
        """Whether it can be read is for the reader to say."""
        assert find_files(tmp_path / "gone.loom.jsonl") == [tmp_path / "gone.loom.jsonl"]

    def test_what_cannot_be_opened_is_found_all_the_same(self, tmp_path: Path) -> None:
        """A dangling link or a pipe in a corpus is a log that cannot be read, not one that is not there."""
        (tmp_path / "a.loom.jsonl").symlink_to(tmp_path / "gone")
        os.mkfifo(tmp_path / "b.loom.jsonl")
        assert names(tmp_path) == names(tmp_path / "*.jsonl") == ["!", "!"]

    def test_links_to_folders_are_not_followed(self, tmp_path: Path) -> None:
        """A loop of links must not make the walk endless."""
        write(tmp_path / "a.loom.jsonl", "a")
        (tmp_path / "loop").symlink_to(tmp_path)
        assert self.short(find_files(tmp_path), tmp_path) == ["a.loom.jsonl"]

    def test_a_folder_that_cannot_be_listed_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Logs that might be in it would be missing without a word."""
        write(tmp_path / "a.loom.jsonl", "a")
        (tmp_path / "locked").mkdir()
        scandir = os.scandir

        def refuse(path: Any) -> Any:
            if str(path).endswith("locked"):
                raise PermissionError(13, "Permission denied", str(path))
            return scandir(path)

        monkeypatch.setattr(os, "scandir", refuse)
        with pytest.raises(LogError, match="locked: cannot be listed: Permission denied"):
            find_files(tmp_path)

    @pytest.mark.parametrize("text", ["a\0b/*.jsonl", "x" * 5000, "x" * 5000 + "*", "[", "**", "a\0b"])
    def test_strange_names_are_no_crash(self, tmp_path: Path, text: str) -> None:
        """There is nothing, or one path that its reader refuses."""
        try:
            files = find_files(tmp_path / text)
        except LogError:
            return
        assert [type(item) for item in iter_logs(files)] == [LogError]


class Orders:
    """A source as a user would write it: one order a line."""

    name = "orders"
    engine: Engine = "checkpoint"
    live = True
    suffixes = (".orders",)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Known by its first word."""
        return head.startswith(b"order")

    def read(self, path: Path) -> Iterator[Log | LogError]:
        """A run for each line."""
        for text in path.read_text().splitlines():
            if text == "order crash":
                raise ZeroDivisionError("1/0 \x1b[31m")
            if text == "order bad":
                yield LogError("bad order", path=str(path))
            elif text == "order raise":
                raise LogError("raised order", path=str(path))
            else:
                yield made(text.split()[1])


@pytest.fixture
def orders() -> Iterator[Orders]:
    """The source, registered for the test."""
    source = Orders()
    register_source(source)
    yield source
    unregister_source(source)


class TestSources:
    def test_built_in_sources_are_asked_in_order(self) -> None:
        """Our own format first, foreign ones after it."""
        assert [source.name for source in sources()][:2] == ["loom", "temporal"]

    def test_a_registered_source_is_asked_first_and_read_through(self, tmp_path: Path, orders: Orders) -> None:
        """Its logs carry its name, how its engine resumes, and whether they are live."""
        path = tmp_path / "a.orders"
        path.write_text("order x\norder bad\norder y\n")
        assert [source.name for source in sources()][:3] == ["orders", "loom", "temporal"]
        assert source_of(path).name == orders.name
        log = next(load_logs(path))
        assert (log.execution_id, log.source, log.engine, log.live) == ("x", "orders", "checkpoint", True)
        assert names(path) == ["x", "!", "y"]
        assert names(tmp_path) == ["x", "!", "y"]

    def test_registering_twice_is_once_and_can_be_undone(self, tmp_path: Path, orders: Orders) -> None:
        """A plugin may be loaded twice in one process."""
        register_source(orders)
        assert [source.name for source in sources()].count("orders") == 1
        unregister_source(orders)
        unregister_source(orders)
        path = tmp_path / "a.orders"
        path.write_text("order x\n")
        with pytest.raises(LogError, match="asked: loom, temporal"):
            source_of(path)

    def test_the_source_that_was_registered_last_is_asked_first(self, orders: Orders) -> None:
        """What comes later may refine what came before."""
        later = Orders()
        register_source(later)
        try:
            assert [id(source) for source in sources()][:2] == [id(later), id(orders)]
        finally:
            unregister_source(later)

    @pytest.mark.usefixtures("orders")
    @pytest.mark.parametrize(
        ("last", "said"),
        [("order raise", "raised order"), ("order crash", "the orders source failed on it: ZeroDivisionError")],
    )
    def test_a_source_that_breaks_hides_no_other_file(self, tmp_path: Path, last: str, said: str) -> None:
        """What it gave before counts, its failure is a LogError with the cause, and other files follow."""
        (tmp_path / "a.orders").write_text(f"order x\n{last}\norder never\n")
        write(tmp_path / "b.loom.jsonl", "b")
        assert names(tmp_path) == ["x", "!", "b"]
        error = list(iter_file(tmp_path / "a.orders"))[1]
        assert isinstance(error, LogError)
        assert said in error.what
        assert error.what.isprintable()
        assert error.path == str(tmp_path / "a.orders")
        assert (last == "order crash") == isinstance(error.__cause__, ZeroDivisionError)

    def test_a_source_whose_sniffing_breaks_is_an_error_of_the_file(
        self, tmp_path: Path, orders: Orders, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It names the source, since that is where the mistake is."""
        monkeypatch.setattr(orders, "sniff", lambda path, head: head.nothing, raising=False)
        path = write(tmp_path / "b.loom.jsonl", "b")
        with pytest.raises(LogError, match="the orders source failed on it: AttributeError"):
            load_log(path)

    def test_a_source_that_finds_no_run_is_an_error(
        self, tmp_path: Path, orders: Orders, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A file without runs must not pass as a corpus."""
        monkeypatch.setattr(orders, "read", lambda path: iter(()))
        path = tmp_path / "a.orders"
        path.write_text("order x")
        with pytest.raises(LogError, match="the orders source finds no run in it"):
            load_log(path)

    def test_a_named_log_is_read_as_one_even_where_its_head_is_damaged(self, tmp_path: Path) -> None:
        """Its suffix is enough, so that damage is called damage; any other file has to look like events."""
        content = b"\0" * 70_000 + write(tmp_path / "t.loom.jsonl", "a").read_bytes()
        for name, said in (
            ("a.loom.jsonl", "NUL bytes"),
            ("a.loom.jsonl.gz", "NUL bytes"),
            ("a.jsonl", "not a log that any"),
        ):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(LogError, match=said):
                load_log(tmp_path / name)
