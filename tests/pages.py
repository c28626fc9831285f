"""The pages (README.md and docs/), their fenced blocks, and how a test runs and compares these."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}


class Block(NamedTuple):
    """One fenced block: its language and its text."""

    language: str
    text: str


def blocks() -> Iterator[tuple[str, Block]]:
    """Every fenced block of all pages with its name ("" where it has none)."""
    pattern = r"(?:^<!-- ([\w-]+) -->\n)?^[ ]*(`{3,}|~{3,})(\w*)[^\n]*\n(.*?)^[ ]*\2[ ]*$"
    for page in PAGES.values():
        for match in re.finditer(pattern, page, re.M | re.S):
            yield match[1] or "", Block(match[3], match[4])


BLOCKS = dict(blocks())


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of a page with this interpreter and the plugins that the README's first command installs."""
    words = shlex.split(command)
    if words[0] in ("python", ".venv/bin/python"):
        words[0] = sys.executable
    elif words[0] == "pytest-loom":
        words[:1] = [sys.executable, "-m", "pytest_loom"]
    ours = ("PYTEST_", "LOOM_", "GITHUB_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours) and name != "CI"}
    clean["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    clean["PYTHONDONTWRITEBYTECODE"] = "1"  # or Python takes the bytecode of what a file was a moment ago
    clean["PYTEST_ADDOPTS"] = "-p pytest_loom.plugin -p syrupy -p no:cacheprovider"
    return subprocess.run(words, cwd=folder, env=clean, capture_output=True, text=True, timeout=120)


def line(name: str) -> str:
    """The one command of a block."""
    (line,) = BLOCKS[name].text.splitlines()
    return line


def write(name: str, folder: Path) -> None:
    """Write a block to the file that its first line names."""
    first, _, _ = BLOCKS[name].text.partition("\n")
    assert first.startswith("# "), f"the block {name} does not begin with the name of its file"
    path = folder / first.removeprefix("# ")
    path.parent.mkdir(exist_ok=True)
    path.write_text(BLOCKS[name].text, encoding="utf-8")


def change(file: Path, old: str, new: str) -> None:
    """Change a file of the application."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def _normal(line: str) -> str:
    """A line of output without what differs from machine to machine: widths, rulers, seconds."""
    return re.sub(r"\d+\.\d+s\b", "0s", " ".join(line.strip(" =_-").split()))


def assert_shows(shown: str, output: str) -> None:
    """Every line of ``shown`` stands in the output, in this order and together; ``[...]`` stands for any lines."""
    lines = [_normal(line) for line in output.splitlines()]
    at = 0
    for part in re.split(r"^\[\.\.\.\]\n", shown, flags=re.M):
        wanted = [_normal(line) for line in part.splitlines()]
        found = (i for i in range(at, len(lines) - len(wanted) + 1) if lines[i : i + len(wanted)] == wanted)
        start = next(found, None)
        assert start is not None, f"not in the output:\n{part}\nThe output is:\n{output}"
        at = start + len(wanted)
    assert shown.strip(), f"the page shows nothing. The output is:\n{output}"


def printed(name: str, folder: Path) -> str:
    """What a script of a page prints, files named from its folder."""
    write(name, folder)
    done = run(f"python {BLOCKS[name].text.partition(chr(10))[0].removeprefix('# ')}", folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(f"{folder}{os.sep}", "")
