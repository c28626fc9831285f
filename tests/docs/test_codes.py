"""The pages of the finding codes are true: each has an example, which finds its code and prints what the page shows."""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path

import pytest

from pytest_loom.log.migrations import isolated_migrations
from pytest_loom.log.upcast import isolated_upcasters
from pytest_loom.report.codes import known_codes
from tests.pages import BLOCKS, PAGES, write

BLOCKS_OF = [name for code in known_codes() for name in (f"code-{code}", f"code-{code}-output")]
"""Which blocks are taken here."""


def words(text: str) -> str:
    """The text without its line breaks, which are the page's."""
    return " ".join(text.split())


@pytest.mark.parametrize("code", known_codes())
def test_example(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example provokes the code, and what is printed is what the page shows."""
    write(f"code-{code}", tmp_path)
    (script,) = tmp_path.iterdir()
    monkeypatch.chdir(tmp_path)
    with isolated_upcasters(), isolated_migrations():
        runpy.run_path(str(script))
    printed = capsys.readouterr().out
    assert f" {code}: " in printed
    assert words(printed.replace(f"{tmp_path}{os.sep}", "")) == words(BLOCKS[f"code-{code}-output"].text)


def test_a_page_for_each() -> None:
    """Every code has a page, with the same parts, and no page tells of a code that there is not."""
    pages = {name: text for name, text in PAGES.items() if name.startswith("docs/codes/")}
    assert sorted(pages) == sorted(f"docs/codes/{code}.md" for code in known_codes())
    for name, text in pages.items():
        assert re.findall(r"^# (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M) == [Path(name).stem]
        parts = ["An example", "What would happen on resume", "The ways out"]
        assert re.findall(r"^## (.*)$", text, re.M) == parts
