"""``pytest-loom simulate`` and ``merge``: the same verdicts as a pytest session gives, in one process or in many."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import wait
from typing import Any

import pytest

from pytest_loom.cli.corpus import DEFAULT_LOGS
from pytest_loom.cli.output import ERROR, FINDING, OK, STOPPED
from pytest_loom.plugin.options import DEFAULT_LOGS as OF_THE_PLUGIN
from tests.cli.conftest import Desk, made
from tests.cli.test_show import ESCAPES

APP = """
def flow(name, *steps):
    return {"workflowId": name, "steps": {step: {} for step in steps}}

flows = {"refund": flow("refund", "assess", "pay")}
renamed = {"refund": flow("refund", "assess_risk", "pay")}
"""


@pytest.fixture
def app(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """An application ``src/loom_cli_app.py`` with settings, and forty runs, of which those of some files wait."""
    (desk.folder / "src").mkdir()
    (desk.folder / "src/loom_cli_app.py").write_text(APP)
    ini = ["[pytest]", "pythonpath = src", "loom_flows = loom_cli_app:flows", "loom_logs = runs/**/*.jsonl"]
    (desk.folder / "pytest.ini").write_text("\n".join(ini))
    for number in range(40):
        steps = ("assess", "gone") if number % 4 == 0 else ("assess",)
        desk.log(f"{number % 3}/r-{number:02}", made(f"r-{number:02}", steps=steps, waits="Approved"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "loom_cli_app", raising=False)
    return desk


def session(desk: Desk, *options: str) -> subprocess.CompletedProcess[str]:
    """A pytest session in the same folder."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "pytest_loom.plugin",
        "-p",
        "no:cacheprovider",
        "--loom-deploy-sim",
    ]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # an installed pytest-loom would come twice
    return subprocess.run([*command, *options], cwd=desk.folder, capture_output=True, text=True, timeout=120, env=alone)


def test_the_defaults_are_the_plugins() -> None:
    """Without ``loom_logs`` the command looks where the plugin looks."""
    assert DEFAULT_LOGS == OF_THE_PLUGIN


def test_the_same_as_a_session(app: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report is to the byte that of a pytest session, whatever the number of processes; so are the lines shown."""
    done = session(app, "--loom-report=session.json")
    assert done.returncode == 1
    found = app("simulate", "--report", "cli.json")
    assert (found.status, found.err) == (FINDING, "report: cli.json\n")
    assert (app.folder / "cli.json").read_bytes() == (app.folder / "session.json").read_bytes()
    title, *lines = found.out.splitlines()
    assert title == "deploy simulation of 40 log files"
    assert lines[-1] == "NOT SAFE TO DEPLOY: 10 of 40 runs would break, 40 warnings"
    shown = done.stdout.splitlines()
    assert [line for line in lines if line.replace("--report", "--loom-report") not in shown] == []
    monkeypatch.setattr("pytest_loom.deploy.parts.LARGE", 500)
    outputs = set()
    for jobs in (2, 3):
        many = app("simulate", "--report", "many.json", "--jobs", jobs)
        assert many.status == FINDING
        assert (app.folder / "many.json").read_bytes() == (app.folder / "cli.json").read_bytes()
        outputs.add(many.out)
    assert len(outputs) == 1


STOPPING = """
import multiprocessing, os, signal

def flows(workflow_id, version=None):
    if workflow_id == "first" and not multiprocessing.parent_process():
        os.kill(os.getpid(), signal.SIGINT)
    return {"workflowId": workflow_id, "steps": {"assess": {}, "pay": {}}}
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_shows_what_there_is(app: Desk, monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    """Ctrl-C ends it with a report of what was judged by then, which is no green, and status 130."""

    def interrupted(*args: Any, **rules: Any) -> Any:
        if "first" in told:
            told.clear()
            os.kill(os.getpid(), signal.SIGINT)
        return wait(*args, **rules)

    told = {"first"}
    monkeypatch.setattr("pytest_loom.deploy.parts.AT_ONCE", 1)
    monkeypatch.setattr("pytest_loom.deploy.parts.wait", interrupted)
    (app.folder / "src/loom_cli_app.py").write_text(STOPPING)
    first = app.log("a/0", made("r-0", flow="first"))
    first.write_bytes(first.read_bytes() + app.log("a/1", made("r-1")).read_bytes())
    for number in range(2, 9):
        app.log(f"a/{number}", made(f"r-{number}"))
    done = app("simulate", "runs/a", "--jobs", jobs, "--report", "cli.json")
    assert (done.status, done.err.splitlines()[-1]) == (STOPPED, "pytest-loom: stopped")
    report = json.loads((app.folder / "cli.json").read_text())
    left = report["summary"]["not_judged"]
    assert (report["ok"], report["summary"]["logs"], report["findings"]) == (False, 9, [])
    assert f"NOT JUDGED: {left} of 9 log files, since it was stopped" in done.out
    assert (left, report["summary"]["runs"]) == ((9, 1) if jobs == 1 else (7, 3))


def test_json_is_the_report(app: Desk) -> None:
    """``--json`` gives report.json itself on standard output."""
    app("simulate", "--report", "cli.json")
    done = app("simulate", "--json")
    assert done.out.encode() == (app.folder / "cli.json").read_bytes()
    assert done.status == FINDING


def test_what_is_said_goes_before_what_is_set(app: Desk) -> None:
    """Sources and flows of the command line go before the settings; a folder is walked."""
    done = app("simulate", "runs/1", "--flows", "loom_cli_app:renamed", "--json")
    assert done.json["summary"]["runs"] == 13
    assert {found["code"] for found in done.json["findings"]} == {"step-removed", "suspended-carryover"}
    done = app("simulate", "runs/1/r-01.loom.jsonl", "runs/1/*01*", "--json")
    assert (done.status, done.json["summary"]["runs"]) == (OK, 1)


def test_flows_by_the_place_of_the_log(app: Desk) -> None:
    """Lines of ``loom_flows`` give each application's runs their own flows; a run of none is an error."""
    ini = app.folder / "pytest.ini"
    lines = "\n  runs/0/* = loom_cli_app:renamed\n  runs/1/* = loom_cli_app:flows"
    ini.write_text(ini.read_text().replace("loom_cli_app:flows", lines))
    done = app("simulate", "runs/0", "runs/1", "--json")
    hurt = {found["source"].split("/")[1] for found in done.json["findings"] if found["step"] == "assess"}
    assert hurt == {"0"}
    done = app("simulate")
    assert (done.status, "no line of loom_flows is for runs/2/" in done.err) == (ERROR, True)


def test_acknowledged_and_policies(app: Desk) -> None:
    """``loom_acks`` counts as in a session, one that no finding needed is said; ``--policy`` is read."""
    ack = '[[ack]]\ncode = "step-removed"\nflow = "{}"\nowner = "ann"\nreason = "by hand"\nexpires = 2999-01-01\n'
    (app.folder / "acks.toml").write_text(ack.format("refund") + ack.format("other"))
    ini = app.folder / "pytest.ini"
    ini.write_text(ini.read_text() + "\nloom_acks = acks.toml\n")
    done = app("simulate")
    assert done.status == OK
    assert "note: loom_acks: no finding is step-removed of flow other" in done.out
    (app.folder / "policy.toml").write_text("[[rule]]\nflow = 5\n")
    done = app("simulate", "--policy", "policy.toml")
    assert (done.status, "policy.toml: not a policy" in done.err) == (ERROR, True)
    assert app("simulate", "--contracts", "nowhere").status == ERROR


@pytest.mark.parametrize("of", [1, 3])
def test_shards_merge_to_the_whole(app: Desk, of: int) -> None:
    """Shards merge, in any order, to the bytes of one job; the verdict is printed, and other forms are written too."""
    app("simulate", "--report", "whole.json")
    names = []
    for number in range(1, of + 1):
        names.append(f"{number}.json")
        app("simulate", "--shard", f"{number}/{of}", "--report", names[-1])
    done = app("merge", *reversed(names), "-o", "merged.json", "--report", "merged.md")
    assert done.status == FINDING
    assert (app.folder / "merged.json").read_bytes() == (app.folder / "whole.json").read_bytes()
    assert "NOT SAFE TO DEPLOY: 10 of 40" in done.out
    assert "10 of 40" in (app.folder / "merged.md").read_text()
    assert app("merge", *names, "--json").json["summary"]["breaking"] == 10


def test_shards_of_a_session_merge_as_well(app: Desk) -> None:
    """What pytest's shards wrote is merged by the command."""
    for number in (1, 2):
        session(app, f"--loom-shard={number}/2", f"--loom-report={number}.json")
    app("simulate", "--report", "whole.json")
    assert app("merge", "1.json", "2.json", "-o", "merged.json").status == FINDING
    assert (app.folder / "merged.json").read_bytes() == (app.folder / "whole.json").read_bytes()


def test_a_missing_shard_is_no_verdict(app: Desk) -> None:
    """A shard that is missing or broken ends with status 2 and writes nothing; green ones alone give 0."""
    for number in (1, 2, 3):
        app("simulate", "--shard", f"{number}/3", "--report", f"{number}.json")
    done = app("merge", "1.json", "3.json", "-o", "merged.json")
    assert (done.status, "no report of shard 2/3" in done.err, done.out) == (ERROR, True, "")
    assert not (app.folder / "merged.json").exists()
    (app.folder / "2.json").write_text('{"schema": 1, "ok": tr')
    assert app("merge", "1.json", "2.json", "3.json", "-o", "merged.json").status == ERROR
    app("simulate", "runs/1/r-01.loom.jsonl", "--report", "green.json")
    assert app("merge", "green.json").status == OK
    data = json.loads((app.folder / "green.json").read_text())
    (app.folder / "green.json").write_text(json.dumps(data | {"ok": False}))
    done = app("merge", "green.json")
    assert (done.status, "NOT JUDGED" in done.out) == (FINDING, True)


FINDING_FACTS = {"code": "c", "severity": "breaking", "workflow_id": "a", "execution_id": "e", "step": None}
SHARDS: tuple[Any, ...] = (5, [], {}, "a/b", "5", "1/99999999")
HOSTILE_REPORTS: list[dict[str, Any]] = [
    {"ok": "yes"},
    {"notes": [1]},
    {"notes": "abc"},
    {"findings": [FINDING_FACTS]},
    {"findings": [{**FINDING_FACTS, "message": "m", "hint": "h", "source": "s", "severity": "x"}]},
    {"findings": [{**FINDING_FACTS, "message": [], "hint": "h", "source": "s"}]},
    {"runs": [{"execution_id": 1, "workflow_id": 2, "status": 3, "verdict": 4, "source": 5}]},
    {"contracts": [5]},
    {"contracts": [{"workflow_id": "a", "was": "b", "now": "c", "runs": "x", "changes": []}]},
    {"lineage": 5},
    {"lineage": {"patches": 5}},
    {"summary": {}},
    {"summary": {"runs": -1, "in_flight": 0, "out_of_scope": 0}},
    {"summary": {"runs": 10**30, "in_flight": 0, "out_of_scope": 0}},
    *({"summary": {"runs": 0, "in_flight": 0, "out_of_scope": 0, "shard": shard}} for shard in SHARDS),
]


@pytest.mark.parametrize("changed", HOSTILE_REPORTS)
def test_reports_that_are_none(app: Desk, changed: dict[str, Any]) -> None:
    """A report of another shape, from wherever it came, is refused with its name and writes nothing."""
    app("simulate", "runs/1/r-01.loom.jsonl", "--report", "part.json")
    data = json.loads((app.folder / "part.json").read_text())
    (app.folder / "part.json").write_text(json.dumps({**data, **changed}))
    done = app("merge", "part.json", "-o", "merged.json")
    assert (done.status, done.out, "part.json: not a report" in done.err) == (ERROR, "", True)
    assert not (app.folder / "merged.json").exists()


def test_a_report_without_an_end(app: Desk) -> None:
    """Nesting without an end is refused as well."""
    (app.folder / "part.json").write_text("[" * 100_000)
    assert app("merge", "part.json").status == ERROR


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "nowhere"),
        ("simulate", "runs", "--flows", "loom_cli_app"),
        ("simulate", "runs", "--flows", "loom_cli_app:nothing"),
        ("simulate", "runs", "--shard", "4/3"),
        ("simulate", "runs", "--jobs", "0"),
        ("simulate", "runs", "--report", "report.txt"),
        ("simulate", "runs", "--scope", "some"),
        ("simulate", "runs", "--report", "no/such/../\0/r.json"),
        ("merge",),
        ("merge", "nowhere.json"),
        ("merge", "pytest.ini", "-o", "merged.json"),
        ("merge", "pytest.ini", "-o", "merged.txt"),
    ],
)
def test_wrong_usage(app: Desk, words: tuple[str, ...]) -> None:
    """What makes no sense ends with status 2 and a line that says so."""
    done = app(*words)
    assert (done.status, done.out, "Traceback" in done.err) == (ERROR, "", False)
    assert done.err


def test_no_log_and_no_flows(desk: Desk) -> None:
    """An empty corpus is an error, and so are runs that are held against nothing."""
    done = desk("simulate")
    assert (done.status, "no log found" in done.err) == (ERROR, True)
    desk.log("one", made())
    done = desk("simulate")
    assert (done.status, "against which code" in done.err) == (ERROR, True)


def test_what_a_log_says_cannot_reach_the_terminal(app: Desk) -> None:
    """Names and texts of logs and of other people's reports are shown escaped."""
    app.log("evil", made(f"id {ESCAPES}", flow=f"flow {ESCAPES}", steps=[ESCAPES], waits=ESCAPES))
    done = app("simulate", "runs/evil.loom.jsonl", "--report", "evil.json")
    assert done.status == FINDING
    assert all(line.isprintable() for line in (done.out + done.err).split("\n"))
    done = app("merge", "evil.json")
    assert done.status == FINDING
    assert all(line.isprintable() for line in (done.out + done.err).split("\n"))


def test_a_broken_log_is_a_finding(app: Desk) -> None:
    """A log that cannot be read hides no other, and makes the verdict red."""
    path = app.folder / "runs/0/r-00.loom.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    done = app("simulate", "runs/0", "--json")
    broken = {found["code"] for found in done.json["findings"] if "r-00" in found["source"]}
    assert (done.status, broken, done.json["summary"]["runs"]) == (FINDING, {"log-unreadable"}, 14)


class TestHtml:
    """``--report x.html``: the page that a session writes."""

    @pytest.fixture(autouse=True)
    def needs(self) -> None:
        """The extra."""
        pytest.importorskip("jinja2", reason="the HTML report needs the extra html (Jinja2)")

    def test_the_page_of_a_session(self, app: Desk) -> None:
        """With the timelines of a few runs, to the byte, and also where shards were merged."""
        assert session(app, "--loom-report=session.html").returncode == 1
        assert app("simulate", "--report", "cli.html").status == FINDING
        text = (app.folder / "cli.html").read_text(encoding="utf-8")
        assert text == (app.folder / "session.html").read_text(encoding="utf-8")
        assert text.count('id="timeline-') == 5  # of both causes three, one of them a run with both
        for number in (1, 2):
            app("simulate", "--shard", f"{number}/2", "--report", f"{number}.json", "--report", f"{number}.html")
        assert app("merge", "1.json", "2.json", "-o", "whole.html").status == FINDING
        merged = (app.folder / "whole.html").read_text(encoding="utf-8")
        assert merged.count('id="timeline-') == 3  # the same three runs show both causes
        assert "NOT SAFE TO DEPLOY" in merged

    def test_without_jinja2(self, app: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is said at once, with what to install."""
        monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
        done = app("simulate", "--report", "cli.html")
        assert done.status == ERROR
        assert "pip install 'pytest-loom[html]'" in done.err
