"""The forms of a deploy report, told by the suffix of the file: one table for the plugin and the command line."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_loom.deploy.report import DeployReport

FORMS = {
    ".gitlab.json": "gitlab",
    ".sarif.json": "sarif",
    ".html": "html",
    ".json": "json",
    ".md": "markdown",
    ".sarif": "sarif",
}
"""By suffix, of several that fit the first: the module beside this one whose ``write_NAME`` writes it."""


def form_of(path: Path) -> str | None:
    """The name of the form that a file's suffix tells; None where it tells none."""
    return next((form for suffix, form in FORMS.items() if path.name.endswith(suffix)), None)


def shows_runs(path: Path) -> bool:
    """Whether a report of this name shows what runs did (``deploy.timeline``)."""
    return form_of(path) == "html"


def missing_for(path: Path) -> str:
    """What has to be installed to write a report of this name, and what to type; "" where nothing is missing."""
    if form_of(path) != "html":
        return ""
    from pytest_loom.report.html import missing

    return missing()


def write_report(report: DeployReport, path: Path, *, ok: bool, extra: Mapping[str, Any]) -> None:
    """Write a report in the form that the suffix tells, atomically (``write_json`` says what ``ok`` and ``extra`` are).

    Raises OSError where the file cannot be written, ValueError where its suffix tells no form.
    """
    form = form_of(path)
    if form is None:
        raise ValueError(f"the form is told by the suffix, one of {', '.join(FORMS)}")
    module = importlib.import_module(f"pytest_loom.report.{form}")
    getattr(module, f"write_{form}")(report, path, ok=ok, extra=extra)
