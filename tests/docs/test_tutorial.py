"""docs/tutorial.md is true: its steps are taken one after the other, as its reader takes them."""

from __future__ import annotations

from pathlib import Path

from tests.pages import BLOCKS, assert_shows, change, line, run, write

BLOCKS_OF = [
    *("tut-install", "tut-application", "tut-test", "tut-settings", "tut-record", "tut-record-output", "tut-replay"),
    *("tut-rename", "tut-simulate", "tut-red", "tut-mend", "tut-green", "tut-change", "tut-difference", "tut-accept"),
    "tut-ci",
]
"""Which blocks are taken here."""


def edit(file: Path, name: str) -> None:
    """Make the change that a block shows: groups of lines that go, each with the lines that come in their place."""
    old, new = "", ""
    for shown in [*BLOCKS[name].text.splitlines(keepends=True), "-"]:
        if shown.startswith("-") and new:
            change(file, old, new)
            old, new = "", ""
        if shown.startswith("-"):
            old += shown[1:]
        else:
            assert shown.startswith("+")
            new += shown[1:]


def test_ten_minutes(tmp_path: Path) -> None:
    """Each command does what the page says: recorded, green, red, mended, accepted, and green for CI."""
    assert line("tut-install") == "python -m pip install ./pytest-loom"
    for name in ("tut-application", "tut-test", "tut-settings"):
        write(name, tmp_path)
    application, test = tmp_path / "refunds.py", tmp_path / "tests" / "test_refunds.py"
    recorded = run(line("tut-record"), tmp_path)
    assert recorded.returncode == 0, recorded.stdout
    assert_shows(BLOCKS["tut-record-output"].text, recorded.stdout)
    paid = 'return f"receipt-{order}"  # and here money be sent'
    change(application, paid, "raise OSError")
    assert run(line("tut-replay"), tmp_path).returncode == 0
    change(application, "raise OSError", paid)
    edit(application, "tut-rename")
    red = run(line("tut-simulate"), tmp_path)
    assert red.returncode == 1
    assert_shows(BLOCKS["tut-red"].text, red.stdout)
    edit(application, "tut-mend")
    green = run(line("tut-simulate"), tmp_path)
    assert green.returncode == 0, green.stdout
    assert_shows(BLOCKS["tut-green"].text, green.stdout)
    edit(application, "tut-change")
    change(test, '"receipt-o-17"', '"paid: receipt-o-17"')
    differs = run(line("tut-replay"), tmp_path)
    assert differs.returncode == 1
    assert_shows(BLOCKS["tut-difference"].text, differs.stdout)
    assert run(line("tut-accept"), tmp_path).returncode == 0
    assert run(line("tut-ci"), tmp_path).returncode == 0
    assert "No breaking change" in (tmp_path / "loom.md").read_text(encoding="utf-8")
