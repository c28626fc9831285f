"""``module:attr`` as users write it, imported: today's flows."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from pytest_loom.errors import FlowError

_OURS = (str(Path(__file__).parents[1] / "plugin"), str(Path(__file__).parents[1] / "cli"), __file__)


def target_for(lines: Sequence[str], log_path: Path | None, base: Path) -> str | None:
    """The ``module:attr`` that lines of ``loom_flows`` name for a log: the first whose glob matches it, or None.

    Without a log there is no telling between several lines, so only a single one is taken.
    """
    for line in lines:
        pattern, equals, target = line.rpartition("=")
        only = log_path is None and len(lines) == 1
        if not equals or only or (log_path is not None and _matches(log_path, pattern.strip(), base)):
            return target.strip()
    return None


def _matches(path: Path, pattern: str, base: Path) -> bool:
    names = [str(path)]
    with contextlib.suppress(ValueError):  # on another drive of Windows
        names.append(os.path.relpath(path, base))
    return any(fnmatch(name, pattern) for name in names)


def import_target(target: str, base: Path, *, setting: str) -> Any:
    """Import ``module:attr``, which the user's own settings name. Raises FlowError saying what failed and where.

    A module beside the configuration file is found, as it is by ``python -m pytest`` there: that folder goes to the end
    of the import path, so that it hides nothing.
    """
    module_name, _, attribute = target.partition(":")
    if str(base) not in sys.path:
        sys.path.append(str(base))
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as problem:
        hint = f"Try: python -c 'import {module_name}'"
        if isinstance(problem, ModuleNotFoundError) and problem.name == module_name.partition(".")[0]:
            hint = f'Is the folder of {module_name} importable? Set pythonpath = ["."] in pytest\'s configuration.'
        raise FlowError(
            f"{setting} = {target}: importing {module_name} raised {_said(problem)}{raised_at(problem)}", hint=hint
        ) from problem
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            file = _shown(str(module.__file__))
            what = f"{setting} = {target}: {module_name} is imported, but has no {part} ({file})"
            raise FlowError(what, hint=_instead(value, part, target, setting))
        value = getattr(value, part)
    return value


def _instead(value: Any, part: str, target: str, setting: str) -> str:
    """What may be meant by a name that ``value`` does not have."""
    from pytest_loom.contract.resolve import own_name

    held = getattr(value, "__dict__", {}).items()
    registered = next((name for name, found in held if own_name(found) == part), None)
    if registered is not None:
        meant = f"{target.removesuffix(part)}{registered}"
        return f"{registered} is registered there under the name {part}: {setting} = {meant}"
    near = difflib.get_close_matches(part, dir(value), n=1)
    return f"Did you mean {near[0]}?" if near else "Name today's flows, as simulate_deploy takes them."


def raised_at(problem: BaseException) -> str:
    """`` (file:line)`` of the user's line that raised, or "" where the import system did."""
    if isinstance(problem, SyntaxError) and problem.filename:
        return f" ({_shown(problem.filename)}:{problem.lineno})"
    place = ""
    trace = problem.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith(("<frozen", *_OURS)) and "importlib" not in name and "pluggy" not in name:
            place = f" ({_shown(name)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _shown(path: str) -> str:
    return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else path


def _said(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem.msg if isinstance(problem, SyntaxError) else problem}"
