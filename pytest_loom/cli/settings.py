"""pytest's configuration as a command needs it, without pytest: the ``loom_`` settings and the folder they start from.

The file is looked for as pytest does, from the current folder upwards. Hooks of a conftest.py are not asked.
"""

from __future__ import annotations

import configparser
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_loom.errors import LoomError

_TOML = ("pytest.toml", ".pytest.toml")


@dataclass(frozen=True)
class Settings:
    """``base``: the folder that relative paths start from; ``values``: what the configuration says; ``file``: where."""

    base: Path
    values: dict[str, Any] = field(default_factory=dict)
    file: Path | None = None

    def lines(self, name: str) -> list[str]:
        """A setting that has several lines."""
        value = self.values.get(name, "")
        found = value if isinstance(value, list) else str(value).splitlines()
        return [line for item in found if (line := str(item).strip())]

    def text(self, name: str) -> str:
        """A setting of one line, "" where it is not set."""
        value = self.values.get(name) or ""
        return " ".join(map(str, value)) if isinstance(value, list) else str(value).strip()

    def path(self, name: str, default: str) -> Path:
        """A setting that is a path."""
        return self.base / (str(self.values.get(name) or "").strip() or default)


def read_settings(folder: Path) -> Settings:
    """The settings of the project that ``folder`` belongs to. Raises LoomError where its file cannot be read."""
    for parent in (folder, *folder.parents):
        for name in (*_TOML, "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"):
            path = parent / name
            values = _read(path) if path.is_file() else None
            if values is not None:
                return Settings(parent, values, path)
    return Settings(folder)


def _read(path: Path) -> dict[str, Any] | None:
    """What a file says to pytest; None where it says nothing."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".toml":
            data = tomllib.loads(text)
            if path.name in _TOML:
                found = data.get("pytest", {})
            else:
                tool = data.get("tool", {}).get("pytest")
                found = None if tool is None else tool.get("ini_options", tool)
        else:
            parser = configparser.ConfigParser(interpolation=None)
            parser.read_string(text)
            section = "tool:pytest" if path.name == "setup.cfg" else "pytest"
            found = dict(parser[section]) if parser.has_section(section) else None
            if found is None and path.name in ("pytest.ini", ".pytest.ini"):
                found = {}
    except (OSError, ValueError, configparser.Error) as problem:
        raise LoomError(f"the configuration cannot be read: {problem}", path=str(path)) from None
    return found if found is None or isinstance(found, dict) else {}
