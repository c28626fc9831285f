"""Shadow resume: the SDK is asked in a child process, and nothing gets out of it."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Annotated, Any

import pydantic
import pytest

from pytest_loom.deploy.agents_shadow import shadowed
from pytest_loom.sources import load_log

pytest.importorskip("agents", reason="needs the extra: pip install pytest-loom[openai-agents]")
changes: Any = importlib.import_module("agent_changes")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot copy a process")


def asked(saved: dict[str, Any], agent: Any, folder: Path) -> list[str]:
    """The codes of what the SDK says of a saved run."""
    path = folder / "run.json"
    path.write_text(json.dumps(saved))
    return [found.code for found in shadowed(load_log(path), agent)]


@pytest.mark.parametrize("name", ["words", "line-object", "optional-strict", "nested-same"])
def test_a_run_that_loads_is_no_finding(name: str, tmp_path: Path) -> None:
    """A harmless change: the SDK loads the run and still asks."""
    one = next(one for one in changes.CHANGES if one.name == name)
    assert asked(changes.save(one), one.new(), tmp_path) == []


@pytest.mark.parametrize("name", ["agent-renamed", "line-first-renamed", "line-cut"])
def test_a_run_that_the_sdk_refuses(name: str, tmp_path: Path) -> None:
    """What from_json refuses is a finding, in the SDK's own words."""
    one = next(one for one in changes.CHANGES if one.name == name)
    assert asked(changes.save(one), one.new(), tmp_path) == ["frontier-missing"]


def test_an_older_sdk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema version that the installed SDK does not know is schema-unknown."""
    module = importlib.import_module("agents.run_state")
    monkeypatch.setattr(module, "SUPPORTED_SCHEMA_VERSIONS", frozenset({"1.0"}))
    one = changes.CHANGES[0]
    assert asked(changes.save(one), one.old(), tmp_path) == ["schema-unknown"]


def test_what_the_application_does_while_loading_stays_in_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule that writes a file, reads a secret or hangs does not get out, and hangs nobody."""
    effects = tmp_path / "effects.log"
    monkeypatch.setenv("EFFECTS_LOG", str(effects))

    def rule(ctx: Any, agent: Any) -> bool:
        with Path(os.environ.get("EFFECTS_LOG", str(effects))).open("a") as file:
            file.write("asked")
        return True

    one = next(one for one in changes.CHANGES if one.name == "words")
    new = changes.agent(changes.tool(changes.plain_pay, is_enabled=rule))
    asked(changes.save(one), new, tmp_path)
    assert not effects.exists()


def at_most(value: int) -> int:
    """A rule that no schema shows."""
    if value > 2500:
        raise ValueError("at most 2500")
    return value


def at_most_there(value: int) -> int:
    """A rule that hangs on the environment."""
    if value > int(os.environ.get("LOOM_NO_SUCH_LIMIT", "1")):
        raise ValueError("too much")
    return value


def strict(order: str, cents: Annotated[int, pydantic.AfterValidator(at_most)]) -> str:
    """Pay."""
    return str(changes.done("pay", order, cents))


def hanging(order: str, cents: Annotated[int, pydantic.AfterValidator(at_most_there)]) -> str:
    """Pay."""
    return str(changes.done("pay", order, cents))


def test_a_validator_that_no_schema_shows(tmp_path: Path) -> None:
    """Arguments that today's own validator refuses are found by asking it, with nothing run."""
    one = next(one for one in changes.CHANGES if one.name == "words")
    saved = changes.save(one)
    new = changes.agent(changes.tool(strict))
    assert changes.resume(one, new, saved).effects == []  # what the SDK does: the payment is lost, without a word
    changes.EFFECTS.clear()
    assert asked(saved, new, tmp_path) == ["tool-args"]
    assert changes.EFFECTS == []
    assert asked(saved, changes.agent(changes.tool(hanging)), tmp_path) == []
