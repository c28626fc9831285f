"""Checks of ``pytest-loom doctor`` on what is around the runs: the configuration, pytest, git, what is installed."""

from __future__ import annotations

import difflib
import os
import platform
import shlex
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from itertools import islice, pairwise
from pathlib import Path

from pytest_loom.cli.check import Check, Seen, counted, masked, some, version_of
from pytest_loom.cli.corpus import shown
from pytest_loom.cli.git import is_ignored
from pytest_loom.cli.review import walk
from pytest_loom.cli.settings import Settings
from pytest_loom.errors import printable

KNOWN = (
    "loom_acks",
    "loom_allow",
    "loom_contracts",
    "loom_effects",
    "loom_flows",
    "loom_logs",
    "loom_max_age",
    "loom_pending",
    "loom_policy",
    "loom_scrub",
)
"""The settings that there are; the plugin declares the same."""

_MOST = 10_000
_NATIVE = ("pytest.toml", ".pytest.toml")
_FRAMEWORKS = (
    *("langgraph", "langchain-core", "openai-agents", "pydantic-ai", "pydantic-ai-slim", "temporalio", "dbos"),
    *("aws-durable-execution-sdk-python", "inspect-ai", "claude-agent-sdk", "openai", "anthropic"),
)
_NEEDS = {
    "langgraph": ("langgraph", "langgraph"),
    "openai-agents": ("openai-agents", "openai-agents"),
    "pydantic_ai": ("pydantic-ai-slim", "pydantic-ai"),
    "temporal": ("temporalio", "temporal"),
    "dbos": ("dbos", "dbos"),
    "aws-durable": ("aws-durable-execution-sdk-python", "aws-durable"),
}
"""By the source of a run: the package that its engine is asked with, and the extra that brings it."""


def configuration(settings: Settings) -> Iterator[Check]:
    """The file of settings, and each setting that is pytest-loom's."""
    about = "configuration"
    if settings.file is None:
        hint = "Write pytest.ini with a section [pytest], or [tool.pytest.ini_options] into pyproject.toml."
        yield Check(about, "note", "no configuration of pytest from here upwards: every setting has its default", hint)
        return
    yield Check(about, "ok", f"{shown(settings.file)}: paths in it start from {printable(str(settings.base), 300)}")
    if _is_native(settings.file) and (version_of("pytest") or "9").partition(".")[0] < "9":
        yield Check(
            about,
            "problem",
            f"pytest {version_of('pytest')} reads [tool.pytest.ini_options] and pytest.ini, and not this table",
            'Call the table [tool.pytest.ini_options], or upgrade:\n  python -m pip install "pytest>=9"',
        )
    for name in settings.values:
        if name.startswith("loom_") and name not in KNOWN:
            near = difflib.get_close_matches(name, KNOWN, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(KNOWN)}."
            yield Check(about, "problem", f"{printable(name)} is no setting of pytest-loom", hint)
    for name in KNOWN:
        if name in settings.values:
            yield Check(about, "ok", f"{name}: {printable(', '.join(map(masked, settings.lines(name))), 500)}")


def pytest_itself(settings: Settings) -> Iterator[Check]:
    """Whether pytest loads the plugin, and those that it works with."""
    about = "pytest"
    said = settings.values.get("addopts") or ""
    words = [*(said if isinstance(said, list) else _words(str(said))), *_words(os.environ.get("PYTEST_ADDOPTS", ""))]
    off = {word[2:].removeprefix("no:") for word in words if word.startswith("-pno:")}
    off |= {word.removeprefix("no:") for flag, word in pairwise(words) if flag == "-p" and "no:" in word}
    named = any(word.endswith("pytest_loom.plugin") for word in words)
    alone = bool(os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"))
    if off & {"loom", "pytest_loom.plugin"}:
        yield Check(about, "problem", "addopts switches pytest-loom off", "Take -p no:loom out of it.")
    elif alone and not named:
        yield Check(
            about, "problem", "PYTEST_DISABLE_PLUGIN_AUTOLOAD is set, so pytest loads no plugin by itself",
            "Unset it, or add -p pytest_loom.plugin -p syrupy to addopts.",
        )  # fmt: skip
    elif not named and not any(one.value == "pytest_loom.plugin" for one in entry_points(group="pytest11")):
        yield Check(
            about, "problem", "pytest-loom is not installed where this runs, so pytest does not load it by itself",
            "Install it:\n  python -m pip install pytest-loom",
        )  # fmt: skip
    else:
        yield Check(about, "ok", f"pytest {version_of('pytest')} loads pytest-loom")
    for package, plugin, without in (
        ("syrupy", "syrupy", "goldens are accepted with --loom-update, and loom_snapshot is not there"),
        ("pytest-xdist", "xdist", "large files and stores are judged by one process"),
    ):
        found = version_of(package)
        if found is None:
            yield Check(about, "note", f"{package} is not installed: {without}", f"  python -m pip install {package}")
        elif plugin in off:
            yield Check(about, "note", f"{package} {found} is switched off in addopts: {without}")
        else:
            yield Check(about, "ok", f"{package} {found}")
    if "cacheprovider" in off:
        yield Check(about, "note", "the cache of pytest is switched off: --lf and --ff are not there")


def review(settings: Settings) -> Iterator[Check]:
    """Candidates that wait, and whether git would take what is not for it."""
    waiting = list(islice(walk(settings.base), _MOST))
    if waiting:
        goldens = counted(len(waiting), "golden")
        yield Check(
            "review", "note", f"candidates wait beside {goldens}: {some(map(shown, waiting))}", "  pytest-loom review"
        )
    names = [
        f"*.jsonl{end}"
        for end in (".new", ".gz.new", ".partial")
        if is_ignored(settings.base / f"x.loom.jsonl{end}") is False
    ]
    if names:
        yield Check(
            "review", "note", "git would take what is not for it", "\n  ".join(["Put into .gitignore:", *names])
        )


def installed(seen: Seen) -> Iterator[Check]:
    """The versions of what is there, and what is missing for the runs that were found."""
    about = "installed"
    found = [f"{name} {version_of(name)}" for name in _FRAMEWORKS if version_of(name)]
    own = f"pytest-loom {version_of('pytest-loom') or '(from its source)'}, Python {platform.python_version()}"
    yield Check(about, "ok", ", ".join([own, *found]))
    for source in sorted(seen.sources & _NEEDS.keys()):
        package, extra = _NEEDS[source]
        if version_of(package) is None:
            text = f"there are {source} runs, and {package} is not installed: its own code is not asked about them"
            yield Check(about, "note", text, f'  python -m pip install "pytest-loom[{extra}]"')


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _is_native(file: Path) -> bool:
    """Whether it is the table that pytest 9 brought."""
    if file.name in _NATIVE:
        return True
    return (
        file.name == "pyproject.toml" and "ini_options" not in tomllib.loads(file.read_text("utf-8"))["tool"]["pytest"]
    )
