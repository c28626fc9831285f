"""What the checks say about a changed agent, against what the real SDK does when the saved run is resumed on it."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.contract.resolve import contract_of
from pytest_loom.deploy.agents import CHECKS
from pytest_loom.deploy.agents_shadow import shadowed
from pytest_loom.deploy.report import Finding
from pytest_loom.sources import load_log

pytest.importorskip("agents", reason="needs the extra: pip install pytest-loom[openai-agents]")
changes: Any = importlib.import_module("agent_changes")

VERSION = tuple(int(part) for part in importlib.metadata.version("openai-agents").split(".")[:2])
if VERSION < (0, 24):  # it forgives other things: a finished agent that is gone, a handoff that is gone
    pytest.skip("the checks say what openai-agents 0.24 does", allow_module_level=True)


def findings(saved: dict[str, Any], new: Any, old: Any, folder: Path) -> list[Finding]:
    """What the checks say about the saved run on ``new``; ``old`` is yesterday's agent or None."""
    (folder / "run.json").write_text(json.dumps(saved))
    log = load_log(folder / "run.json")
    today, yesterday = contract_of(new), None if old is None else contract_of(old)
    found = [found for check in CHECKS for found in check(log, today, yesterday)]
    return found if any(one.severity == "breaking" for one in found) else found + list(shadowed(log, new))


@pytest.mark.parametrize("with_contract", [True, False], ids=["contract", "store-alone"])
@pytest.mark.parametrize("one", changes.CHANGES, ids=[one.name for one in changes.CHANGES])
def test_findings_agree_with_the_sdk(one: Any, with_contract: bool, tmp_path: Path) -> None:
    """A finding is breaking exactly where the resumed run fails or does something else than on the old code."""
    saved = changes.save(one)
    before, after = changes.resume(one, one.old(), saved), changes.resume(one, one.new(), saved)
    same = after.good and after.effects == before.effects
    found = findings(saved, one.new(), one.old() if with_contract else None, tmp_path)
    worst = max((finding.severity for finding in found), key=["info", "warning", "breaking"].index, default="ok")
    expected = one.expected or ("ok" if same else "breaking")
    assert worst == expected, f"{before} -> {after}; {[finding.message for finding in found]}"
