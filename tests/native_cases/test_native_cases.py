"""Native flows that were changed while runs of them waited: what really happens, and what a deploy simulation says.

Each folder beside this file is a case: ``old/app.py`` recorded the runs in ``store/`` (``make_stores.py`` makes them
anew), ``new/app.py`` is today's code, and ``case.toml`` says

- ``expected``: ``breaking`` (a run is lost, refused, or does something other than what it was suspended to do),
  ``warning`` (it goes on, but a person has to look) or ``ok`` (it ends as on old code: same effects, same output;
  with ``resume.compare = "superset"`` also what is new);
- ``harm``, ``observed`` and ``silent`` (nothing was raised and the run did not fail); ``needs_contract``: the break is
  not to be seen without yesterday's contract; ``codes``: one of these findings is to name the run;
- ``executions``, and ``bystanders``: runs in the same store that are not hurt;
- ``[[record]]``: how the runs were recorded; ``[resume]``: the answers that they get. ``carried``: ``resume_as`` with
  the ``transform_state`` of ``new/app.py`` takes them over. Where there is a ``before/``, the store was taken over
  already, or is a later release's, and that is what old code knew;
- ``[truth]``: what ``truth.py`` saw when it resumed the first of the ``executions`` on either side.

``page(state)`` in an application is what whoever decides is shown of the saved state: it reads the state in today's
version, by the registered migrations, as DESIGN's resume pipeline has it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.deploy.report import BREAKING, WARNING

Facts = dict[str, Any]

FOLDER = Path(__file__).parent
SPECS: dict[str, Facts] = {
    path.parent.name: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*/case.toml"))
}
HARMS = {
    "lost-run": "ends, or looks finished, without its remaining work",
    "approval-bypassed": "goes on without an approval or a control that today's code has",
    "wrong-arguments": "an effect runs with other values than were recorded or approved",
    "wrong-answer": "an answer serves another question, or is read differently",
    "state-lost": "saved state cannot be read, or is read as something else",
    "effects-repeated": "what was done is done again",
    "stranded": "is never picked up, or waits or is refused for ever",
    "error-on-resume": "raises instead of going on",
    "none": "",
}
BY_COMMAND_LINE = (
    "refund-words-and-bodies",
    "refund-answer-renamed",
    "refund-input-unit",
    "support-permission-widened",
    "ingest-step-renamed",
)
"""Cases that are also simulated as users do it, with contracts captured before: two need them."""

every_case = pytest.mark.parametrize("name", SPECS)


def ran(what: str) -> dict[str, Facts]:
    """What ``truth.py`` prints of all cases, by name."""
    program = [sys.executable, str(FOLDER / "truth.py"), what, *(str(FOLDER / name) for name in SPECS)]
    done = subprocess.run(program, capture_output=True, text=True, check=False, encoding="utf-8")
    assert not done.returncode, done.stderr
    return {facts["case"]: facts for facts in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="session")
def truths() -> dict[str, Facts]:
    """What became of every case's runs on either side."""
    return ran("resume")


@pytest.fixture(scope="session")
def reports() -> dict[str, Facts]:
    """What a simulation said of every case."""
    return ran("simulate")


def differences(spec: Facts, old: Facts, new: Facts) -> list[str]:
    """In what a run on today's code differs from one on old code; additions are none where the case allows for them."""
    found = [part for part in ("status", "output", "pending", "error", "shown") if old[part] != new[part]]
    was, now = (Counter[str](side["effects"]) for side in (old, new))  # side by side they come in any order
    same = was <= now if spec["resume"].get("compare") == "superset" else was == now
    return found if same else [*found, "effects"]


# What really happens -------------------------------------------------------------------------------------------------


@every_case
def test_truth_is_what_the_case_says(name: str, truths: dict[str, Facts]) -> None:
    """Really resumed on either side, the run does what the case says that it does."""
    spec, execution = SPECS[name], SPECS[name]["executions"][0]
    old, new = (truths[name][side]["runs"][execution] for side in ("old", "new"))
    said: Facts = {"output_old": None, "output_new": None, "shown_old": "", "shown_new": "", "pending_new": []}
    seen = {f"{part}_{side}": run[part] for side, run in (("old", old), ("new", new)) for part in ("effects", "output")}
    seen |= {"shown_old": old["shown"], "shown_new": new["shown"], "pending_new": new["pending"]}
    kind = {"error_new": new["error"].partition(":")[0]}  # how it is put in words is no part of the truth
    assert seen | kind == said | spec["truth"] | {"error_new": spec["truth"]["error_new"].partition(":")[0]}
    assert spec["silent"] == (not new["error"])


@every_case
def test_truth_is_what_the_case_expects(name: str, truths: dict[str, Facts]) -> None:
    """An "ok" run ends as on old code; any other does not, or (a warning) raises nothing. Old code resumes them all."""
    spec, sides = SPECS[name], truths[name]
    for execution, old in sides["old"]["runs"].items():
        new = sides["new"]["runs"][execution]
        assert not old["error"]
        found = differences(spec, old, new)
        if spec["expected"] == "ok" or execution in spec.get("bystanders", ()):
            assert not found
            assert (new["status"], new["error"]) == ("completed", "")
        elif spec["expected"] == "breaking":
            assert found
        else:
            assert not new["error"]
        if "carried" in sides:
            assert not differences(spec, old, sides["carried"]["runs"][execution])


@every_case
def test_a_case_is_well_made(name: str) -> None:
    """It names its runs, its harm, and codes that there are."""
    spec, folder = SPECS[name], FOLDER / name
    assert spec["expected"] in ("ok", "warning", "breaking")
    assert spec["harm"] in HARMS
    assert (spec["expected"] == "ok") == (spec["harm"] == "none") == (not spec["codes"])
    assert set(spec["codes"]) <= {*BREAKING, *WARNING}
    runs = {run["execution"] for run in spec["record"]}
    assert runs == {*spec["executions"], *spec.get("bystanders", ())}
    assert runs == {path.name.removesuffix(".loom.jsonl") for path in (folder / "store").iterdir()}
    assert (folder / "old" / "app.py").read_bytes() != (folder / "new" / "app.py").read_bytes()


def test_two_in_five_are_benign() -> None:
    """A checker that cries at every change would fail here."""
    assert sum(spec["expected"] == "ok" for spec in SPECS.values()) >= 0.4 * len(SPECS)


# What a simulation says ----------------------------------------------------------------------------------------------


def check_report(spec: Facts, report: Facts) -> None:
    """A report finds what hurts the runs, by name and reason, and nothing else."""
    of_run = [found for found in report["findings"] if found["execution_id"] in spec["executions"]]
    telling = [found for found in of_run if found["code"] != "suspended-carryover"]
    breaking = [found for found in telling if found["severity"] == "breaking"]
    loud = [found for found in telling if found["severity"] in ("breaking", "warning")]
    if spec["expected"] == "ok":
        assert report["ok"], report["findings"]
        return
    assert loud, report["findings"]
    assert {found["code"] for found in loud} & set(spec["codes"]), loud
    if spec["expected"] == "breaking":
        assert not report["ok"]
        assert breaking, loud
    hurt = {found["execution_id"] for found in report["findings"] if found["severity"] == "breaking"}
    assert not hurt & set(spec.get("bystanders", ()))


@every_case
def test_simulated(name: str, reports: dict[str, Facts]) -> None:
    """With yesterday's contracts, a simulation says of each case what it is, and does no effect."""
    assert (reports[name]["error"], reports[name]["effects"]) == ("", [])
    check_report(SPECS[name], reports[name])


@pytest.mark.parametrize("name", BY_COMMAND_LINE)
def test_simulated_by_command_line(name: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same by ``pytest --loom-deploy-sim``, contracts captured with the old code."""
    effects = pytester.path / "effects.log"
    monkeypatch.setenv("EFFECTS_LOG", str(effects))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=os.pathsep)
    pytester.makeini("[pytest]\nloom_logs = store/*\nloom_flows = app:flows\n")
    shutil.copytree(FOLDER / name / "store", pytester.path / "store")
    plugins = ("-p", "pytest_loom.plugin", "-p", "syrupy", "-p", "no:cacheprovider")
    for side, option in (("old", "--snapshot-update"), ("new", "--loom-report=report.json")):
        shutil.copytree(FOLDER / name / side, pytester.path, dirs_exist_ok=True)
        done = pytester.runpytest_subprocess(*plugins, "--loom-deploy-sim", option)
        assert done.ret in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))
    check_report(SPECS[name], report)
    assert not effects.exists()
