"""What a deploy simulation says of DBOS runs beside changed code: versions, attempts, classes, what is not told."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import FlowError, check_resume, simulate_deploy
from pytest_loom.contract.resolve import contract_of, own_name
from pytest_loom.contract.targets import import_target
from pytest_loom.log.origin import with_origin
from pytest_loom.sources import load_logs
from pytest_loom.sources.dbos.contract import topics_of
from tests.engines.dbos.changes import APPS
from tests.engines.dbos.conftest import Bench, needs_dbos

pytestmark = [needs_dbos, pytest.mark.filterwarnings("ignore")]

CLAIM = APPS["claim"]
UNPINNED = CLAIM.replace('    "application_version": "1",\n', "")
MORE = """
@DBOS.dbos_class()
class Office(DBOSConfiguredInstance):
    def __init__(self, name):
        super().__init__(config_name=name)
        self.name = name

    @DBOS.workflow()
    def handle(self, number):
        judge(load(number))
        answer = DBOS.recv("approval", timeout_seconds=200000000)
        return pay(load(number), f"{self.name} {answer}")

north = Office("north")
flows = {"claim": north.handle}
"""


def changed_rows(bench: Bench, store: Path, *queries: str) -> Path:
    """A copy of a store in which something is changed by hand."""
    folder = bench.fresh()
    shutil.copytree(store.parent, folder, dirs_exist_ok=True)
    with contextlib.closing(sqlite3.connect(folder / "desk.sqlite")) as connection:
        for query in queries:
            connection.execute(query)
        connection.commit()
    return folder / "desk.sqlite"


def breaking(store: Path, flows: Any) -> list[Any]:
    """The breaking findings."""
    return [found for found in simulate_deploy(str(store), flows).findings if found.severity == "breaking"]


def test_a_computed_version_changes_with_a_comment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no version is set, any edit of any workflow strands the runs; a step's body does not, nor a set version."""
    store = bench.store("claim", text=UNPINNED)
    assert breaking(store, bench.flows(UNPINNED)) == []
    body = UNPINNED.replace('outside(f"judge', 'outside("" + f"judge')
    assert breaking(store, bench.flows(body)) == []
    comment = UNPINNED.replace("    found = load", "    # a comment\n    found = load")
    (found,) = breaking(store, bench.flows(comment))
    assert found.code == "flow-missing"
    assert "computes" in found.message
    assert "would go on with it" in found.hint
    (version,) = {log.state.manifest["flowVersion"] for log in load_logs(store)}
    assert f'application_version="{version}"' in found.hint
    monkeypatch.setenv("DBOS__APPVERSION", version)
    assert breaking(store, bench.flows(comment)) == []
    monkeypatch.setenv("DBOS__APPVERSION", "other")
    assert len(breaking(store, bench.flows(comment))) == 1
    monkeypatch.delenv("DBOS__APPVERSION")
    pinned = comment.replace('"name": "desk",', f'"name": "desk", "application_version": "{version}",')
    assert breaking(store, bench.flows(pinned)) == []


def test_the_way_out_of_another_version_says_whether_the_code_fits(bench: Bench) -> None:
    """A run of another version whose steps do not fit either is not to be pinned to today's code."""
    text = CLAIM.replace('"application_version": "1"', '"application_version": "2"')
    (fits,) = breaking(bench.store("claim"), bench.flows(text))
    assert "would go on with it" in fits.hint
    assert 'DBOS.fork_workflow("run-1", 6' in fits.hint
    (does_not,) = breaking(bench.store("claim"), bench.flows(text.replace("judge", "assess")))
    assert "does not do what was recorded either" in does_not.hint
    assert does_not.version == "1"


def test_a_step_that_is_gone_is_no_swap(bench: Bench) -> None:
    """Where the workflow comes to it nowhere any more it is to be kept for old runs; else its place has changed."""
    removed = CLAIM.replace("    verdict = judge(found)\n", '    verdict = "fair"\n')
    (found,) = breaking(bench.store("claim"), bench.flows(removed))
    assert "and nowhere for step judge any more" in found.message
    assert '  if not DBOS.patch("without-judge"):\n      judge(…)' in found.hint
    later = removed.replace("    tell(number)\n    return", "    finish(found)\n    return")
    later = later.replace("@DBOS.workflow()", "def finish(found):\n    judge(found)\n\n@DBOS.workflow()")
    (found,) = breaking(bench.store("claim"), bench.flows(later))
    assert "nowhere" not in found.message
    assert "keep both orders" in found.hint


def test_what_is_no_step_has_no_name_to_keep(bench: Bench) -> None:
    """A step in the place of an operation of DBOS's own is not that one under another name."""
    text = CLAIM.replace('DBOS.set_event("verdict", verdict)', "tell(number)")
    (found,) = breaking(bench.store("claim"), bench.flows(text))
    assert "DBOS.setEvent was recorded" in found.message
    assert "@DBOS.step(name=" not in found.hint
    assert '  if DBOS.patch("tell"):' in found.hint


def test_an_imported_run_is_not_called_by_its_golden(bench: Bench) -> None:
    """What is typed for a run takes its workflow id in DBOS, which a golden does not know."""
    (log,) = load_logs(bench.store("claim"))
    golden = with_origin(log, {"source": "dbos", "engine": "journal"})
    report = simulate_deploy(golden, bench.flows(CLAIM.replace("judge", "assess")))
    (hint,) = [found.hint for found in report.findings if found.severity == "breaking"]
    assert log.execution_id not in hint
    assert 'DBOS.fork_workflow("WORKFLOW-ID", 2, application_version=…)\nWORKFLOW-ID is the run\'s own in DBOS' in hint


def test_what_a_run_was_started_with_is_told_by_type(bench: Bench) -> None:
    """The recorded arguments stand beside the signature that they do not fit."""
    text = CLAIM.replace("def claim(number):", "def claim(number, office):")
    (found,) = breaking(bench.store("claim"), bench.flows(text))
    assert "was started as claim(str), and today's is claim(number, office)" in found.message


def test_one_recovery_too_many(bench: Bench) -> None:
    """A run that was recovered more often than today's workflow allows is given up by the deploy's own recovery."""
    store = changed_rows(bench, bench.store("claim"), "UPDATE workflow_status SET recovery_attempts = 3")
    assert breaking(store, bench.flows(CLAIM)) == []
    limited = CLAIM.replace("@DBOS.workflow()", "@DBOS.workflow(max_recovery_attempts=2)")
    (found,) = breaking(store, bench.flows(limited))
    assert (found.code, "MAX_RECOVERY_ATTEMPTS_EXCEEDED" in found.message) == ("frontier-missing", True)


def test_a_workflow_of_a_configured_instance(bench: Bench) -> None:
    """A method's run is replayed on the instance of today that has its name, and is known by the class's name."""
    text = CLAIM.replace("import DBOS,", "import DBOS, DBOSConfiguredInstance,") + MORE
    store = bench.store("claim", text=text)
    flows = bench.flows(text)
    assert own_name(flows["claim"]) == "Office.handle"
    assert breaking(store, flows) == []
    (found,) = breaking(store, bench.flows(text.replace("judge(load(number))", "load(number)")))
    assert (found.code, found.workflow_id) == ("replay-diverged", "Office.handle")


def test_steps_are_no_workflows(bench: Bench) -> None:
    """A step has no contract of its own; a workflow has its arguments and the topics that it names."""
    flows = bench.flows(CLAIM)
    contract = contract_of(flows["claim"])
    assert (contract.workflow_id, contract.version, contract.engine) == ("claim", "1", "journal")
    assert contract.input_schema is not None
    assert contract.steps is None
    assert contract.gates is not None
    assert list(contract.gates) == ["approval"]
    step = flows["claim"].__wrapped__.__globals__["judge"]
    assert own_name(step) is None


def test_a_workflow_that_goes_by_another_name(bench: Bench) -> None:
    """Where loom_flows asks for what a function is registered as, the function is named."""
    bench.flows(
        CLAIM.replace("@DBOS.workflow()\ndef claim", '@DBOS.workflow(name="claim")\ndef handle').replace(
            '{"claim": claim}', '{"claim": handle}'
        )
    )
    with pytest.raises(FlowError) as caught:
        import_target("desk_app:claim", bench.folder, setting="loom_flows")
    assert caught.value.hint == "handle is registered there under the name claim: loom_flows = desk_app:handle"


def test_classes_of_a_module_that_is_loaded_under_another_root(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded as package.app.Claim is not gone where the tests have the application as app."""
    store = bench.store("claim")
    flows = bench.flows(CLAIM)
    module = sys.modules.pop("desk_app")
    (found,) = breaking(store, flows)
    assert (found.code, "desk_app.Claim" in found.message) == ("output-contract", True)
    monkeypatch.setitem(sys.modules, "package.desk_app", module)
    assert breaking(store, flows) == []


def test_topics_that_cannot_be_read_off(bench: Bench) -> None:
    """Topics in helper functions and module constants are found; one that is put together makes the list incomplete."""
    helped = CLAIM.replace(
        '    answer = DBOS.recv("approval", timeout_seconds=200000000)', "    answer = ask()"
    ).replace("@DBOS.workflow()", 'TOPIC = "approval"\ndef ask():\n    return DBOS.recv(TOPIC)\n\n@DBOS.workflow()')
    assert topics_of(bench.flows(helped)["claim"]) == ({"approval"}, True)
    for topic in ("Topic.APPROVAL.value", 'TOPICS["approval"]', "TOPICS.get('x')"):
        text = helped.replace(
            'TOPIC = "approval"', "import enum\nTOPICS = {'approval': 'approval'}\nTOPIC = '-'"
        ).replace("def ask", "class Topic(enum.Enum):\n    APPROVAL = 'approval'\ndef ask")
        found = topics_of(bench.flows(text.replace("recv(TOPIC)", f"recv({topic})"))["claim"])
        assert found == (({"approval"}, True) if "get" not in topic else (set(), False))
    handed = (
        helped.replace("= ask()", '= ask("approval")')
        .replace("def ask():", "def ask(name):")
        .replace("recv(TOPIC)", "recv(name)")
    )
    assert topics_of(bench.flows(handed)["claim"]) == ({"approval"}, True)
    built = CLAIM.replace('DBOS.recv("approval"', 'DBOS.recv(f"approval-{number}"')
    assert topics_of(bench.flows(built)["claim"]) == (set(), False)
    store = bench.store("claim", [("approval-C-1", "ada"), ("approval-C-2", "bob")], text=built)
    assert breaking(store, bench.flows(built)) == []


def test_what_is_no_step_is_done_again(bench: Bench, tmp_path: Path) -> None:
    """Code of the workflow that reaches out beside its steps is told, and does nothing in the simulation."""
    file = tmp_path / "ledger"
    text = CLAIM.replace("    found = load", f"    open({str(file)!r}, 'a').close()\n    found = load")
    (found,) = breaking(bench.store("claim"), bench.flows(text))
    assert found.code == "effect-repeated"
    assert not file.exists()


def test_what_cannot_be_told_is_said(bench: Bench) -> None:
    """Where the code looks into a value that is not in the record as data, how far it was followed is told."""
    store = bench.store("claim")
    unreadable = "UPDATE operation_outputs SET output = 'bm90aGluZw==' WHERE function_id = 1"
    store = changed_rows(bench, store, unreadable)
    flows = bench.flows(CLAIM.replace("    verdict = judge(found)", "    verdict = judge(found) if found.cents else 0"))
    findings = simulate_deploy(str(store), flows).findings
    told = {found.code: found.severity for found in findings}
    assert told == {"suspended-carryover": "warning", "replay-untold": "info"}
    assert breaking(store, bench.flows(CLAIM)) == []


def test_a_workflow_that_hangs(bench: Bench) -> None:
    """Code that never comes to an end is stopped, and the other runs are still looked at."""
    text = CLAIM.replace("    found = load", "    while True: pass\n    found = load")
    (log,) = load_logs(bench.store("claim"))
    decision = check_resume(log, bench.flows(text)["claim"])
    assert [found.code for found in decision.findings if found.severity == "info"] == ["replay-untold"]
