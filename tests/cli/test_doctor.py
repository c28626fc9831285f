"""``pytest-loom doctor``: what it finds, and what it says to type where something is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_loom.cli.around import KNOWN
from pytest_loom.cli.output import ERROR, FINDING, OK
from pytest_loom.log.candidates import Facts, keep
from pytest_loom.plugin.options import add_options
from tests.cli.conftest import Desk, made
from tests.cli.test_show import ESCAPES
from tests.pages import ROOT

APP = "flows = {'refund': {'workflowId': 'refund', 'steps': {'assess': {}, 'pay': {}}}}\n"


@pytest.fixture
def clinic(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A project in which all is well: settings, flows, and two runs."""
    for name in ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pytest_loom.cli.around.entry_points", lambda group: [_Entry()])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "loom_clinic_app", raising=False)
    (desk.folder / "loom_clinic_app.py").write_text(APP)
    settings(desk)
    desk.log("one", made("order-17"))
    desk.log("two", made("order-18", waits="Approved"))
    return desk


class _Entry:
    value = "pytest_loom.plugin"


def settings(desk: Desk, *lines: str, **changed: str) -> None:
    """Write pytest.ini."""
    said = {"loom_flows": "loom_clinic_app:flows", "loom_logs": "runs/*.loom.jsonl", **changed}
    text = [f"{name} = {value}" for name, value in said.items() if value]
    (desk.folder / "pytest.ini").write_text("\n".join(["[pytest]", *text, *lines, ""]))


def found(desk: Desk, about: str, state: str = "problem") -> list[dict[str, Any]]:
    """The checks of a part that came out so."""
    checks = desk("doctor", "--json").json["checks"]
    return [check for check in checks if check["about"] == about and check["state"] == state]


def test_all_is_well(clinic: Desk) -> None:
    """Nothing wrong is status 0; what is configured and found is said part by part, at 80 columns."""
    done = clinic("doctor")
    assert (done.status, done.err) == (OK, "no problems\n"), done.out
    text = " ".join(done.out.split())
    assert "runs/*.loom.jsonl: 2 files, 2 runs (2 loom)" in text
    assert "loom_clinic_app:flows: refund" in text
    assert "pytest --loom-deploy-sim --snapshot-update -k deploy-sim" in done.out
    assert "Python " in text
    assert all(len(line) <= 80 for line in done.out.splitlines())
    assert clinic("doctor", "--json").json["ok"]


def test_the_settings_are_the_plugins() -> None:
    """doctor knows the settings that the plugin declares, all of them and no other."""
    named: list[str] = []

    class Parser:
        def getgroup(self, *args: Any) -> Any:
            return self

        def addoption(self, *args: Any, **kwargs: Any) -> None:
            pass

        def addini(self, name: str, *args: Any, **kwargs: Any) -> None:
            named.append(name)

    add_options(Parser())  # type: ignore[arg-type]  # all of a parser that is asked for
    assert sorted(named) == sorted(KNOWN)


def test_without_anything(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder it says that there is no configuration and no log, and what to type."""
    monkeypatch.setattr("pytest_loom.cli.around.entry_points", lambda group: [_Entry()])
    done = desk("doctor")
    assert done.status == FINDING
    assert "no configuration of pytest" in done.out
    assert "no log is found" in done.out
    assert "pytest-loom import SOURCE -o tests/goldens" in done.out


@pytest.mark.parametrize(
    ("lines", "about", "text", "hint"),
    [
        (["loom_flow = x:y"], "configuration", "loom_flow is no setting", "loom_flows?"),
        (["loom_zzz = 1"], "configuration", "loom_zzz is no setting", "There are loom_acks"),
        (["addopts = -p no:loom"], "pytest", "switches pytest-loom off", "-p no:loom"),
        (["addopts = -pno:loom"], "pytest", "switches pytest-loom off", "-p no:loom"),
        (["loom_scrub = re:("], "rules", "loom_scrub", ""),
        (["loom_acks = nowhere.toml"], "rules", "nowhere.toml", ""),
        (["loom_policy = nowhere.toml"], "rules", "nowhere.toml", ""),
        (["loom_effects = loom_clinic_app:nothing"], "effects", "has no nothing", ""),
    ],
)
def test_settings_that_make_no_sense(clinic: Desk, lines: list[str], about: str, text: str, hint: str) -> None:
    """Each is a problem of its part, with what was probably meant."""
    settings(clinic, *lines)
    (check,) = found(clinic, about)
    assert text in check["text"]
    assert hint in check["hint"]
    assert clinic("doctor").status == FINDING


def test_patterns_that_match_nothing(clinic: Desk) -> None:
    """A pattern without a file is a problem that names the folder which is not there; logs elsewhere are named."""
    settings(clinic, loom_logs="rnus/*.loom.jsonl")
    first, second = found(clinic, "logs")
    assert first["text"] == "rnus/*.loom.jsonl matches no file"
    assert "no folder rnus: did you mean runs?" in first["hint"]
    assert 'Set loom_logs = ["runs/*.loom.jsonl"]' in second["hint"]
    settings(clinic, loom_logs="runs/x*.loom.jsonl")
    assert "its folder is there" in found(clinic, "logs")[0]["hint"]
    settings(clinic, loom_logs="runs/one*")
    assert found(clinic, "logs") == []
    assert "1 more are in no pattern" in found(clinic, "logs", "note")[0]["text"]


def test_broken_logs_and_stores(clinic: Desk) -> None:
    """A log that cannot be read is named with its line; of a store that cannot be reached no password is shown."""
    broken = clinic.log("bad", made("bad"))
    broken.write_bytes(broken.read_bytes()[:-20])
    (check,) = found(clinic, "logs")
    assert "runs/bad.loom.jsonl:6" in check["text"]
    broken.unlink()
    settings(clinic, loom_logs="nobody://user:s3cret@host/db")
    done = clinic("doctor")
    assert (done.status, "s3cret" in done.out + done.err) == (FINDING, False)


def test_flows_that_cannot_be_had(clinic: Desk) -> None:
    """No flows, flows that do not import, flows that no line names, and flows that the runs are not of."""
    settings(clinic, loom_flows="")
    assert "against which code" in found(clinic, "flows")[0]["text"]
    settings(clinic, loom_flows="no_such_module:flows")
    assert "no_such_module" in found(clinic, "flows")[0]["text"]
    settings(clinic, loom_flows="loom_clinic_app:folws")
    assert "Did you mean flows?" in found(clinic, "flows")[0]["hint"]
    settings(clinic, loom_flows="\n  other/* = loom_clinic_app:flows")
    assert "no line of loom_flows is for runs/one.loom.jsonl" in found(clinic, "logs")[0]["text"]
    settings(clinic)
    clinic.log("three", made("x", flow="chargeback"))
    assert "has not: chargeback" in found(clinic, "flows", "note")[0]["text"]
    (clinic.folder / "loom_clinic_app.py").write_text(APP + "raise RuntimeError('at import')\n")
    sys.modules.pop("loom_clinic_app", None)
    assert "at import" in found(clinic, "flows")[0]["text"]


def test_contracts_acks_and_candidates(clinic: Desk) -> None:
    """What is captured is compared with today's; expired acknowledgements and waiting candidates are said."""
    from datetime import UTC, datetime

    from pytest_loom.contract.model import Contract
    from pytest_loom.contract.store import capture

    contract = Contract.model_validate({"workflowId": "refund", "steps": {"assess": {}}})
    path = capture(clinic.folder / "loom-contracts", contract, datetime.now(UTC))
    assert "today's is not among them: refund" in found(clinic, "contracts", "note")[0]["text"]
    assert path is not None
    path.write_text("{")
    assert path.name in found(clinic, "contracts")[0]["text"]
    ack = '[[ack]]\ncode = "step-removed"\nflow = "a"\nowner = "ann"\nreason = "by hand"\nexpires = 2020-01-01\n'
    (clinic.folder / "acks.toml").write_text(ack)
    settings(clinic, "loom_acks = acks.toml")
    assert "1 have expired" in found(clinic, "rules", "note")[0]["text"]
    keep(clinic.folder / "runs/one.loom.jsonl", made("order-17"), Facts())
    (check,) = found(clinic, "review", "note")
    assert check["hint"].strip() == "pytest-loom review"


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_what_git_would_take(clinic: Desk) -> None:
    """In a repository that does not ignore candidates and partial recordings, the lines for .gitignore are given."""
    subprocess.run(["git", "init", "-q"], cwd=clinic.folder, check=True)
    (check,) = found(clinic, "review", "note")
    assert check["hint"].split()[3:] == ["*.jsonl.new", "*.jsonl.gz.new", "*.jsonl.partial"]
    (clinic.folder / ".gitignore").write_text("\n".join(check["hint"].split()[3:]))
    assert found(clinic, "review", "note") == []


def test_how_pytest_is_set_up(clinic: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin that is not loaded, switched off or not installed is said; so is a table that pytest 8 does not read."""
    settings(clinic, "addopts = -p no:syrupy -p no:cacheprovider -p no:xdist")
    notes = " ".join(check["text"] for check in found(clinic, "pytest", "note"))
    assert all(word in notes for word in ("--loom-update", "--lf", "one process"))
    settings(clinic)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    assert "PYTEST_DISABLE_PLUGIN_AUTOLOAD" in found(clinic, "pytest")[0]["text"]
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p pytest_loom.plugin")
    assert found(clinic, "pytest") == []
    monkeypatch.delenv("PYTEST_ADDOPTS")
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    monkeypatch.setattr("pytest_loom.cli.around.entry_points", lambda group: [])
    assert "not installed where this runs" in found(clinic, "pytest")[0]["text"]
    monkeypatch.setattr("pytest_loom.cli.around.version_of", {"pytest": "8.4.2"}.get)
    (clinic.folder / "pytest.ini").unlink()
    (clinic.folder / "pyproject.toml").write_text('[tool.pytest]\nloom_logs = ["runs/*.jsonl"]\n')
    assert "and not this table" in found(clinic, "configuration")[0]["text"]
    (clinic.folder / "pyproject.toml").write_text('[tool.pytest.ini_options]\nloom_logs = ["runs/*.jsonl"]\n')
    assert found(clinic, "configuration") == []
    notes = " ".join(check["text"] for check in found(clinic, "pytest", "note"))
    assert "syrupy is not installed" in notes


def test_frameworks_that_are_missing(clinic: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are runs of an engine that is not installed, the extra that brings it is named."""
    shutil.copy(ROOT / "tests/sources/temporal_history.json", clinic.folder / "runs/history.json")
    settings(clinic, loom_logs="runs/*")
    monkeypatch.setattr("pytest_loom.cli.around.version_of", {"pytest": "9.0", "syrupy": "7", "pytest-xdist": "3"}.get)
    (check,) = found(clinic, "installed", "note")
    assert check["hint"].strip() == 'python -m pip install "pytest-loom[temporal]"'
    monkeypatch.setattr("pytest_loom.cli.around.version_of", lambda name: "9.9")
    assert found(clinic, "installed", "note") == []


def test_a_configuration_that_cannot_be_read(clinic: Desk) -> None:
    """It is an error with the file's name."""
    (clinic.folder / "pytest.ini").write_text("[pytest\n")
    done = clinic("doctor")
    assert (done.status, "pytest.ini" in done.err) == (ERROR, True)


def test_what_logs_and_settings_say_cannot_reach_the_terminal(clinic: Desk) -> None:
    """Names of flows, files and settings are shown escaped."""
    clinic.log("evil", made(ESCAPES, flow=ESCAPES))
    name = "runs/\x1b[2J\u202e.loom.jsonl"
    Path(name).write_text("{")
    settings(clinic, "loom_\x1b[2J = 5", f"loom_acks = {name}.toml")
    done = clinic("doctor")
    assert done.status == FINDING
    assert all(line.isprintable() for line in (done.out + done.err).split("\n"))
    json.loads(clinic("doctor", "--json").out)


def test_the_corpus(clinic: Desk) -> None:
    """How many runs of each flow there are and how old, what none of them comes by, and which flow has none."""
    flow = (
        "{{'workflowId': '{0}', 'steps': {{'assess': {{}}, 'pay': {{}}, 'tell': {{}}}}, 'gates': {{'Approved': {{}}}}}}"
    )
    flows = ", ".join(f"'{name}': {flow.format(name)}" for name in ("refund", "payout"))
    (clinic.folder / "loom_clinic_app.py").write_text(f"flows = {{{flows}}}\n")
    settings(clinic, "loom_max_age = 1", loom_logs="runs/*.loom.jsonl")
    (fine,) = found(clinic, "corpus", "ok")
    assert fine["text"].startswith("refund: 2 runs, 1 not over, the newest of 2025-11-30 (")
    notes = found(clinic, "corpus", "note")
    assert [note["text"].partition(" days ago")[0].rstrip("0123456789") for note in notes] == [
        "no run of payout is recorded: whatever changes there, this simulation is green",
        "no recorded run of refund comes by step tell",
        "the newest run of refund is of 2025-11-30, ",
    ]
    assert "pytest-loom import" in notes[0]["hint"]


def test_no_corpus_without_flows(clinic: Desk) -> None:
    """Flows that cannot be imported are one problem, and nothing is said of what runs come by."""
    settings(clinic, loom_flows="nowhere:flows")
    assert len(found(clinic, "flows")) == 1
    assert found(clinic, "corpus", "note") == found(clinic, "corpus", "ok") == []


def test_runs_that_do_not_say_their_flow(clinic: Desk) -> None:
    """What an engine does not name is of the only flow that there is, as a simulation has it: no note on strangers."""
    for file in (clinic.folder / "runs").glob("*.loom.jsonl"):
        text = file.read_text()
        assert '"workflowId":"refund"' in text
        file.write_text(text.replace('"workflowId":"refund"', '"workflowId":"unknown"'))
    done = clinic("doctor")
    text = " ".join(done.out.split())
    assert "has not: unknown" not in text
    assert "no run of refund is recorded" not in text
    assert "refund: 2 runs" in text
