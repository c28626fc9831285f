"""README.md and the pages in docs/ are true: their commands, files and outputs are run or compared here, the README's
tables are held against the code.

A fenced block has a name, in a comment on the line before it: ``<!-- name -->``. A block that no test takes fails
``test_every_block_is_taken``, so nobody can add one that is never run.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_loom import PINNED_EVENT_TYPES, SCHEMA_VERSION, Event, LogBuilder, load_logs, write_log
from pytest_loom.cli import _parser
from pytest_loom.deploy.report import BREAKING, WARNING
from pytest_loom.evals.diff import DEFAULT, KINDS
from pytest_loom.flow import seams
from pytest_loom.plugin import hookspecs
from tests.ci import test_page as ci
from tests.docs import test_codes as code_pages
from tests.docs import test_tutorial as tutorial
from tests.engines import test_pages
from tests.engines.dbos import test_page
from tests.engines.temporal import test_page as temporal_page
from tests.pages import BLOCKS, PAGES, ROOT, assert_shows, blocks
from tests.pages import change as _change
from tests.pages import line as _line
from tests.pages import printed as _printed
from tests.pages import run as _run
from tests.pages import write as _write
from tests.plugin import test_mutation_page as mutation
from tests.scale import test_page as scale

README = PAGES["README.md"]

TAKEN = {
    "test_set_up_commands": ("main-job", "own-tests"),
    "test_red_report": ("red-command", "red-report"),
    "test_diff_report": ("diff-report",),
    "test_own_project": ("own-settings", "own-test", "own-ci", "own-application", "own-record"),
    "test_code_that_is_not_touched": ("named-settings", "named-application", "named-test"),
    "test_divergence": ("divergence",),
    "test_resume_fork_and_baseline": ("otherwise",),
    "test_scrubbing_hook": ("scrub-hook",),
    "test_goldens_in_git": ("git-attributes",),
    "test_rules_and_scores": ("diff-rules", "scores"),
    "test_without_pytest": ("plain-python", "plain-command"),
    "test_acknowledged_finding": ("acks",),
    "test_accepting": ("accept", "snapshot-test"),
    "test_own_check": ("own-check",),
    "test_own_source": ("own-source",),
    "test_log_of_ones_own": ("own-log",),
    "test_yesterdays_red_report": ("yesterday-command", "yesterday-report"),
    "test_yesterdays_runs": ("yesterday-decision", "yesterday-output"),
    "test_policy": ("policy",),
    "test_default_or_migration": (
        "silent-default",
        "silent-output",
        "explicit-migration",
        "explicit-output",
        "same-state",
    ),
    "test_meaning_that_changed_under_one_number": ("drift", "drift-output"),
    "test_showing_a_run": ("cli-show", "cli-show-output", "cli-at", "cli-at-output"),
    "test_comparing_runs_and_contracts": ("cli-diff", "cli-diff-output", "cli-contract", "cli-contract-output"),
    "test_review": ("cli-review-change", "cli-review", "cli-review-output", "cli-gitignore"),
    "test_secrets_in_goldens": ("cli-scan", "cli-scan-output"),
    "test_simulations_without_pytest": ("cli-simulate", "cli-simulate-output", "cli-shards"),
    "test_doctor": ("cli-doctor", "cli-doctor-output"),
    "test_import": ("import-command", "import-output", "import-simulation"),
    "test_imports_of_stores": ("import-store", "import-temporal"),
    "test_a_golden_thread_and_a_trace": (
        "traces-application",
        "traces-record",
        "traces-record-command",
        "traces-test",
        "traces-command",
        "traces-report",
    ),
    "test_two_evaluations": ("evals-install", "evals-test", "evals-command", "evals-report"),
    "test_a_durable_function_that_waits": ("evals-state", "evals-durable", "evals-findings"),
}
"""Which test runs or compares which blocks."""


GOLDEN = "tests/logs/test_greeter/test_greets_ada.loom.jsonl"
"""What the README's own project records."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with a copy of example_project, as a clone has it."""
    ignore = shutil.ignore_patterns("__pycache__", ".pytest_cache")
    shutil.copytree(ROOT / "example_project", tmp_path / "example_project", ignore=ignore)
    return tmp_path


@pytest.fixture
def own_project(tmp_path: Path) -> Path:
    """The project of the section "In your own project", with its golden log recorded."""
    for name in ("own-settings", "own-test", "own-application"):
        _write(name, tmp_path)
    made = _run(_line("own-record"), tmp_path)
    assert made.returncode == 0, made.stdout
    assert (tmp_path / GOLDEN).is_file()
    return tmp_path


def test_every_block_is_taken() -> None:
    """Each fenced block has a name that a test takes, and no command hides in running text."""
    names = [name for name, _ in blocks()]
    taken = [name for some in TAKEN.values() for name in some]
    of_engines = [f"{prefix}-{name}" for prefix, page in test_pages.PAGES.items() for name in page.blocks]
    of_engines += [f"dbos-{name}" for name in test_page.NAMES]
    of_engines += [f"temporal-{name}" for name in temporal_page.NAMES]
    of_ci = [name for page in (ci, mutation, scale) for some in page.TAKEN.values() for name in some]
    of_site = [*code_pages.BLOCKS_OF, *tutorial.BLOCKS_OF]
    assert sorted(names) == sorted(taken + of_engines + of_ci + of_site)
    text = "".join(PAGES.values())
    assert text.count("```") == 2 * len(names), "a fence is not closed, or stands inside another"
    assert not [test for test in TAKEN if test not in globals()]
    assert not [test for page in (ci, mutation, scale) for test in page.TAKEN if not hasattr(page, test)]
    assert re.findall(r"(?<!`)`(?:\$ )?(?:python\d*|pip|pytest) [^`]*`", text) == []


@pytest.mark.parametrize("page", [*PAGES, "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links(page: str) -> None:
    """Whatever a page links to in the repository is there, a heading too."""
    prose = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", prose):
        name, _, heading = target.partition("#")
        file = (ROOT / page).parent / name if name else ROOT / page
        assert file.exists(), f"{page} links to {target}"
        if heading:
            titles = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.M)
            assert heading in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, target


def test_first_screen() -> None:
    """What it is in three sentences, then the red report, then the two commands, each on one line."""
    intro = README.split("\n\n")[1]
    assert len(re.findall(r"[.?!](?:\s|$)", intro)) == 3
    assert list(BLOCKS)[:3] == ["red-report", "main-job", "own-tests"]
    assert [len(BLOCKS[name].text.splitlines()) for name in ("main-job", "own-tests")] == [1, 1]
    assert len(BLOCKS["red-report"].text.splitlines()) <= 25


def test_red_report(clone: Path) -> None:
    """The report that the README shows is what its command prints, and the command fails."""
    run = _run(_line("red-command"), clone)
    assert run.returncode == 1
    assert_shows(BLOCKS["red-report"].text, run.stdout)


def test_diff_report(clone: Path) -> None:
    """The failed comparison that the README shows is what pytest prints after that change."""
    _change(clone / "example_project" / "refund_desk" / "shop.py", "> 50_000", "> 95_000")
    run = _run("python -m pytest -vv", clone / "example_project")
    assert run.returncode == 1
    assert_shows(BLOCKS["diff-report"].text, run.stdout)


def test_own_project(own_project: Path) -> None:
    """Settings, test, application and CI line of the README work together, and say so when a step was renamed."""
    run = _run(f"{_line('own-ci')} --loom-report=report.json", own_project)
    assert run.returncode == 0, run.stdout
    assert "2 passed" in run.stdout
    report = json.loads((own_project / "report.json").read_bytes())
    assert (report["ok"], report["summary"]["runs"], report["findings"]) == (True, 1, [])
    _change(own_project / "greeter.py", "compose", "write")
    run = _run(_line("own-ci"), own_project)
    assert run.returncode == 1
    assert "today's code runs step write where the golden run had step compose" in run.stdout
    assert "step compose has run, but today's greet has no such step" in run.stdout


def test_nothing_is_called_in_a_replay(own_project: Path) -> None:
    """With steps that could not run any more the replay is green as before: their answers come from the log."""
    _change(own_project / "greeter.py", "    return True", "    raise OSError")
    assert _run(_line("own-ci"), own_project).returncode == 0
    assert _run(_line("own-record"), own_project).returncode == 1


def test_code_that_is_not_touched(tmp_path: Path) -> None:
    """The functions that the settings name are recorded, and not called from then on; another question is noticed."""
    for name in ("named-settings", "named-application", "named-test"):
        _write(name, tmp_path)
    assert _run(_line("own-record"), tmp_path).returncode == 0
    helpdesk = tmp_path / "helpdesk.py"
    _change(helpdesk, 'return f"refund-{order}"', "raise OSError")
    assert _run("python -m pytest", tmp_path).returncode == 0
    _change(helpdesk, "refund(said['order'])", "refund(said['order'] + '0')")
    run = _run("python -m pytest", tmp_path)
    assert run.returncode == 1
    assert 'order: recorded "1001", today "10010"' in run.stdout


def test_divergence(clone: Path) -> None:
    """The divergence that the README shows is what pytest prints after that change."""
    _change(clone / "example_project" / "refund_desk" / "payout.py", "amount = sold - claimed", "amount = sold")
    run = _run("python -m pytest tests/test_flows.py::test_approved", clone / "example_project")
    assert run.returncode == 1
    assert BLOCKS["divergence"].text.strip() in run.stdout


def test_resume_fork_and_baseline(clone: Path) -> None:
    """The script runs as it stands, and says what would have been."""
    _write("otherwise", clone / "example_project")
    run = _run("python otherwise.py", clone / "example_project")
    assert run.returncode == 0, run.stderr
    assert run.stdout == "declined by jon\n"
    (waiting,) = load_logs(clone / "example_project" / "summit.loom.jsonl")
    assert waiting.state.status == "suspended"
    assert not list(clone.rglob("*.partial"))
    recorded = (clone / "example_project" / "summit.loom.jsonl").read_text().splitlines(keepends=True)
    (clone / "example_project" / "summit.loom.jsonl.partial").write_text("".join(recorded[:2]))
    crash = 'resume(load_log("summit.loom.jsonl.partial"), payout)'
    assert f"`{crash}`" in README
    script = f"from pytest_loom import *; from refund_desk.payout import payout; print({crash}.state.status)"
    run = _run(shlex.join(["python", "-c", script]), clone / "example_project")
    assert run.stdout == "suspended\n", run.stderr


def test_scrubbing_hook(own_project: Path) -> None:
    """The hook takes the address out of the whole recording, and the replay still finds the same."""
    _write("scrub-hook", own_project)
    _change(own_project / "tests" / "test_greeter.py", '(greet, "Ada")', '(greet, "ada@example.org")')
    _change(own_project / "tests" / "test_greeter.py", "Ada!", "<scrubbed:mail>!")
    assert _run(_line("own-record"), own_project).returncode == 0
    golden = (own_project / GOLDEN).read_text()
    assert '"input":"<scrubbed:mail>"' in golden
    assert "example.org" not in golden
    assert _run(_line("own-ci"), own_project).returncode == 0


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_goldens_in_git(own_project: Path) -> None:
    """With the attributes of the README, two recordings of one golden are a conflict that leaves one of them whole."""

    def git(*words: str) -> int:
        identity = ("-c", "user.name=mia", "-c", "user.email=mia@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(["git", *identity, *words], cwd=own_project, capture_output=True, timeout=60).returncode

    _write("git-attributes", own_project)
    golden = own_project / GOLDEN
    old = golden.read_text()
    recorded = {"ours": old.replace("morning", "evening", 1), "theirs": old.replace("true", "false")}
    assert [git("init", "-b", "main"), git("add", "."), git("commit", "-m", "golden")] == [0, 0, 0]
    for branch, text in recorded.items():
        assert git("checkout", "-b", branch, "main") == 0
        golden.write_text(text)
        assert git("commit", "-am", branch) == 0
    assert git("merge", "ours") != 0
    assert golden.read_text() == recorded["theirs"]


def test_rules_and_scores(own_project: Path) -> None:
    """The rules and scorers of the README are taken as written, and judge."""
    _write("diff-rules", own_project)
    _write("scores", own_project)
    run = _run("python -m pytest tests/test_rules.py tests/test_scores.py", own_project)
    assert run.returncode == 0, run.stdout
    assert "3 passed" in run.stdout
    _change(own_project / "greeter.py", "Good morning", "A very good and merry morning to you")
    run = _run("python -m pytest tests/test_scores.py", own_project)
    assert run.returncode == 1
    assert "short: " in run.stdout


def test_without_pytest(own_project: Path) -> None:
    """The functions work in a plain script, which prints what the log says."""
    _write("plain-python", own_project)
    run = _run(_line("plain-command"), own_project)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "completed {'compose': 'Good morning, Ada!', 'send': True}",
        "True []",
    ]


def test_acknowledged_finding(clone: Path) -> None:
    """The acknowledgement of the README takes the weight off one code and leaves the other red."""
    _write("acks", clone / "example_project")
    command = f"{_line('red-command')} -o loom_acks=loom-acks.toml --loom-report=report.json"
    run = _run(command, clone)
    assert run.returncode == 1
    found = json.loads((clone / "report.json").read_bytes())["findings"]
    counting = {each["code"] for each in found if each["severity"] == "breaking" and "acknowledged" not in each}
    assert counting == {"flow-missing"}
    assert "mia@example.org until 2099-12-31: the open ones are finished by hand" in " ".join(run.stdout.split())


def test_accepting(own_project: Path) -> None:
    """The command accepts a changed golden and a changed summary; after it, a plain run is green."""
    _write("snapshot-test", own_project)
    golden = own_project / GOLDEN
    before = golden.read_bytes()
    assert _run(_line("accept"), own_project).returncode == 0
    assert golden.read_bytes() == before, "what did not change is left alone"
    _change(own_project / "greeter.py", "    return text\n", "    return text.upper()\n")
    _change(own_project / "tests" / "test_greeter.py", "Good morning, Ada!", "GOOD MORNING, ADA!")
    assert _run("python -m pytest", own_project).returncode == 1
    assert golden.read_bytes() == before
    run = _run(_line("accept"), own_project)
    assert run.returncode == 0, run.stdout
    assert b"GOOD MORNING, ADA!" in golden.read_bytes()
    (summary,) = own_project.rglob("*.loomrun")
    assert "GOOD MORNING, ADA!" in summary.read_text()
    assert _run("python -m pytest", own_project).returncode == 0


def test_own_check(own_project: Path) -> None:
    """The check of the README's conftest.py speaks up for a waiting run with a long name, and for no other."""
    _write("own-check", own_project)
    log = LogBuilder("greet-9", "greet")
    log.add("EXECUTION_STARTED", {"input": "Wolfgang Amadeus Mozart"}, timestamp=1)
    write_log(log.log(), own_project / "tests" / "logs" / "greet-mozart.loom.jsonl")
    assert _run(f"{_line('own-ci')} --loom-report=report.json", own_project).returncode == 1
    (found,) = json.loads((own_project / "report.json").read_bytes())["findings"]
    assert (found["code"], found["severity"], found["execution_id"]) == ("long-name", "breaking", "greet-9")


def test_own_source(own_project: Path) -> None:
    """The source of the README's conftest.py is asked, and its runs are judged."""
    _write("own-source", own_project)
    order = [{"id": "order-1", "items": ["book"], "at": 1}]
    (own_project / "tests" / "logs" / "day.orders.json").write_text(json.dumps(order))
    command = "python -m pytest --loom-deploy-sim -o loom_logs=tests/logs/*.orders.json --loom-report=report.json"
    assert _run(command, own_project).returncode == 1
    (found,) = json.loads((own_project / "report.json").read_bytes())["findings"]
    assert (found["code"], found["workflow_id"], found["execution_id"]) == ("flow-missing", "order", "order-1")


def test_log_of_ones_own(own_project: Path) -> None:
    """The log that the script writes is judged like a recorded one, and replayed as far as it goes."""
    _write("own-log", own_project)
    assert _run("python journal.py", own_project).returncode == 0
    log = own_project / "tests" / "logs" / "greet-ben.loom.jsonl"
    assert _run(f"{_line('own-ci')} --loom-report=report.json", own_project).returncode == 0
    assert json.loads((own_project / "report.json").read_bytes())["summary"]["runs"] == 2
    script = "import greeter, pytest_loom as pl; print(pl.replay(pl.load_log(%r), greeter.greet).state.status)"
    assert _run(shlex.join(["python", "-c", script % str(log)]), own_project).stdout == "running\n"
    data = re.search(r'`(\{"greet": .*?\})`', README, re.S)
    assert data is not None
    (own_project / "plain.py").write_text(f"flows = {data[1]}\n")
    assert _run(f"{_line('own-ci')} -o loom_flows=plain:flows", own_project).returncode == 0


def test_yesterdays_red_report(clone: Path) -> None:
    """The report about a pending approval is what its command prints, and no wider than a terminal."""
    run = _run(_line("yesterday-command"), clone)
    assert run.returncode == 1
    shown = BLOCKS["yesterday-report"].text
    assert_shows(shown, run.stdout)
    assert max(map(len, shown.splitlines())) <= 80


def test_yesterdays_runs(clone: Path) -> None:
    """The decisions that the README shows are what the script prints."""
    assert _printed("yesterday-decision", clone / "example_project") == BLOCKS["yesterday-output"].text


def test_policy(clone: Path) -> None:
    """The policy of the README is taken as written: it keeps the old worker for the runs of version 1."""
    _write("policy", clone / "example_project")
    options = "-o loom_policy=loom-policy.toml --loom-report=report.json"
    assert _run(f"{_line('yesterday-command')} {options}", clone).returncode == 0
    report = json.loads((clone / "report.json").read_bytes())
    assert {run["verdict"] for run in report["runs"]} == {"pin"}
    _change(clone / "example_project" / "loom-policy.toml", 'version = "1.*"', 'version = "0.*"')
    assert _run(f"{_line('yesterday-command')} {options}", clone).returncode == 1
    report = json.loads((clone / "report.json").read_bytes())
    assert {run["execution_id"]: run["verdict"] for run in report["runs"]} == {
        "release-41": "migrate",
        "release-42": "migrate",
        "release-43": "reapprove",
    }


def test_default_or_migration(clone: Path) -> None:
    """The silent default misreads, the migration carries over or refuses, and the last line proves it."""
    example = clone / "example_project"
    assert _printed("silent-default", example) == BLOCKS["silent-output"].text
    assert _printed("explicit-migration", example) == BLOCKS["explicit-output"].text
    assert _printed("same-state", example) == ""
    _change(example / "releases" / "versions.py", 'FIRST_REGION = "eu-central"', 'FIRST_REGION = "eu-west"')
    assert _run("python same_state.py", example).returncode == 1


def test_meaning_that_changed_under_one_number(tmp_path: Path) -> None:
    """A replay is green and the amount wrong; the fingerprint tells. A unit in the name makes it a refusal."""
    assert _printed("drift", tmp_path) == BLOCKS["drift-output"].text
    named = {"-> int": "-> Cents", "-> float": "-> Euros", "return 4999": "return Cents(4999)"}
    for old, new in named.items():
        _change(tmp_path / "drift.py", old, new)
    types = "import dataclasses\n" + "".join(
        f"@dataclasses.dataclass\nclass {name}:\n    price_{name.lower()}: float\n" for name in ("Cents", "Euros")
    )
    (tmp_path / "drift.py").write_text(types + (tmp_path / "drift.py").read_text())
    run = _run("python drift.py", tmp_path)
    assert run.returncode == 1
    assert "ReplayDivergence" in run.stderr


@pytest.mark.skipif(
    os.environ.get("LOOM_FRESH") != "1",
    reason="installs from the package index and runs all tests again: set LOOM_FRESH=1",
)
def test_set_up_commands(tmp_path: Path) -> None:
    """On a fresh clone the first command runs the main job green, and the second passes all tests."""
    loose = ("PYTEST_", "LOOM_", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(loose)}
    clone = tmp_path / "clone"
    _copy_repository(clone)
    for name, wanted in (("main-job", "pytest-loom: deploy simulation"), ("own-tests", " passed")):
        command = _line(name).replace("python3 ", f"{shlex.quote(sys.executable)} ", 1)
        if not (clone / "pytest_loom").is_dir():  # CI tests the built wheel, in a tree without the package
            environment["LOOM_WHEEL"] = wheel = os.environ["LOOM_WHEEL"]
            command = command.replace("install -q . ", f"install -q {wheel} ").replace('".[test]"', f"'{wheel}[test]'")
        run = subprocess.run(
            command, shell=True, cwd=clone, env=environment, capture_output=True, text=True, timeout=900
        )
        assert run.returncode == 0, f"{command}\n{run.stdout[-4000:]}\n{run.stderr[-4000:]}"
        assert wanted in run.stdout
        assert " failed" not in run.stdout


def _copy_repository(target: Path) -> None:
    """What a clone would hold, uncommitted changes included; all of a copy that has no git."""
    if not (ROOT / ".git").exists():
        shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(".venv*", "__pycache__", ".*_cache"))
        return
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True, timeout=60)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def _first_cells(heading: str, *, of: str = "") -> list[str]:
    """The code words in the first column of a section's tables (of that whose head begins with ``of``)."""
    section = README.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    words: list[str] = []
    for table in re.findall(r"(?:^\|.*\n)+", section, re.M):
        if table.startswith(f"| {of}"):
            for row in table.splitlines()[2:]:
                words += re.findall(r"`([^`]+)`", row.split("|")[1])
    return words


def test_tables_of_the_reference() -> None:
    """Flags, settings, fixtures and hooks: the README names each one that exists, and no other."""
    shown = _run("python -m pytest --help", ROOT).stdout
    assert sorted(_first_cells("Reference", of="flag")) == sorted(set(re.findall(r"^  (--loom-[\w-]+)", shown, re.M)))
    assert sorted(_first_cells("Reference", of="setting")) == sorted(set(re.findall(r"^  (loom_\w+) \(", shown, re.M)))
    fixtures = _run("python -m pytest --fixtures --co -q", ROOT / "example_project").stdout
    assert sorted(_first_cells("Reference", of="fixture")) == sorted(
        set(re.findall(r"^(loom\w*)(?: \[\w+ scope\])? -- .*pytest_loom", fixtures, re.M))
    )
    assert sorted(_first_cells("Reference", of="hook")) == sorted(
        name for name in vars(hookspecs) if name.startswith("pytest_loom_")
    )


def test_tables_of_the_log() -> None:
    """Envelope fields, kernel kinds and the schema version are those of the code."""
    said = set(_first_cells("The log", of="field"))
    assert said == {field.encode_name for field in msgspec.structs.fields(Event)} - {" path", " line"}
    assert set(_first_cells("The log", of="kind")) == PINNED_EVENT_TYPES
    assert f"`{SCHEMA_VERSION}`" in README


def test_tables_of_differences_and_findings() -> None:
    """Kinds of differences are all of the code's, and weights of findings are what the code gives them."""
    assert sorted(_first_cells("What is compared", of="kind")) == sorted(KINDS)
    always = [row for row in README.splitlines() if "| always |" in row]
    assert sorted(word for row in always for word in re.findall(r"`([^`]+)`", row.split("|")[1])) == sorted(DEFAULT)
    codes = _first_cells("What the deploy simulation finds", of="code")
    assert sorted(codes) == sorted({*BREAKING, *WARNING})
    for code in codes:
        weight = "breaking" if code in BREAKING else "warning" if code in WARNING else "unknown"
        assert f"| `{code}` | {weight} |" in README


def test_table_of_model_clients() -> None:
    """The README names each package that has a seam, and no other."""
    files = Path(seams.__path__[0]).glob("[a-z]*.py")
    modules = [import_module(f"{seams.__name__}.{file.stem}") for file in files]
    packages = {module.PACKAGE for module in modules if hasattr(module, "PACKAGE")}
    assert set(_first_cells("Record once, replay for ever", of="package")) == packages


def test_ready_made_scorers_and_the_fixtures_methods_exist() -> None:
    """What the README says of the fixture ``loom`` is what it can do."""
    from pytest_loom.plugin.facade import Loom

    (row,) = (row for row in README.splitlines() if row.startswith("| `loom` |"))
    said = re.findall(r"`([^`]+)`", row.split("|")[2])
    assert sorted(said) == sorted(name for name in vars(Loom) if not name.startswith("_"))


def _shows(name: str, folder: Path, status: int) -> None:
    """The command of a block ends so, and prints what the page shows."""
    done = _run(_line(name), folder)
    assert done.returncode == status, done.stderr
    assert_shows(BLOCKS[f"{name}-output"].text, done.stdout)


def test_showing_a_run(clone: Path) -> None:
    """The timeline and the state that the page shows are what the commands print."""
    for name in ("cli-show", "cli-at"):
        _shows(name, clone / "example_project", 0)


def test_comparing_runs_and_contracts(clone: Path) -> None:
    """The differences that the page shows are those of the example's runs and releases."""
    for name in ("cli-diff", "cli-contract"):
        _shows(name, clone / "example_project", 1)


def test_review(clone: Path) -> None:
    """The page's change leaves the candidate that it shows; once it is accepted, the test is green."""
    project = clone / "example_project"
    _change(project / "refund_desk/shop.py", "> 50_000", "> 95_000")
    assert BLOCKS["cli-review-change"].text.splitlines()[1] in (project / "refund_desk/shop.py").read_text()
    tests = "python -m pytest tests/test_goldens.py"
    assert _run(tests, project).returncode == 1
    _shows("cli-review", project, 1)
    assert _run("pytest-loom review --accept-all", project).returncode == 0
    assert _run(tests, project).returncode == 0
    ignored = BLOCKS["cli-gitignore"].text.splitlines()[1:]
    assert all(line in (ROOT / ".gitignore").read_text().splitlines() for line in ignored)


def test_secrets_in_goldens(clone: Path) -> None:
    """A key that came into a golden is found as the page shows it, and taken out."""
    logs = clone / "example_project/tests/logs"
    text = (logs / "refund-waiting.loom.jsonl").read_text()
    (logs / "leaky.loom.jsonl").write_text(
        text.replace('"input":{', '"input":{"card":{"api_key":"hunter2hunter2"},', 1)
    )
    _shows("cli-scan", clone / "example_project", 1)
    assert _run("pytest-loom scrub tests/logs", clone / "example_project").returncode == 0
    assert _run(_line("cli-scan"), clone / "example_project").returncode == 0


def test_simulations_without_pytest(clone: Path) -> None:
    """The verdict that the page shows is what two processes find; the page's shards make one green report."""
    project = clone / "example_project"
    _shows("cli-simulate", project, 1)
    for command in BLOCKS["cli-shards"].text.splitlines():
        done = _run(command, project)
        assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((project / "whole.json").read_text())["summary"]["runs"] == 12
    assert (project / "whole.md").exists()


def test_doctor(clone: Path) -> None:
    """What the page shows of the example project is what doctor finds there."""
    _shows("cli-doctor", clone / "example_project", 0)


def test_the_table_of_commands() -> None:
    """The page names every command, and no other."""
    from pytest_loom.cli import _COMMANDS

    rows = re.findall(r"^\| `(\w+)` \|", PAGES["docs/command-line.md"], re.M)
    assert rows == list(_COMMANDS)


def test_import(clone: Path) -> None:
    """The page's command makes the goldens that it shows, and they pass the simulation that it shows."""
    run = _run(_line("import-command"), clone)
    assert (run.returncode, run.stdout) == (0, BLOCKS["import-output"].text)
    run = _run(_line("import-simulation"), clone)
    assert run.returncode == 0, run.stdout
    assert "deploy simulation of 6 log files" in run.stdout


def test_imports_of_stores() -> None:
    """The page's commands for stores are understood; where there is a server, other tests run them."""
    for name in ("import-store", "import-temporal"):
        words = shlex.split(_line(name))[1:]
        assert _parser(words).parse_args(words).output == Path("goldens")


def test_a_golden_thread_and_a_trace(tmp_path: Path) -> None:
    """The page's two tests are green on the same run, and name the argument once it has changed."""
    for needed in ("pydantic_ai", "opentelemetry.exporter.otlp.proto.common.trace_encoder"):
        pytest.importorskip(needed, reason="needs pydantic-ai-slim and opentelemetry-exporter-otlp-proto-common")
    for name in ("traces-application", "traces-record", "traces-test"):
        _write(name, tmp_path)
    command = _line("traces-record-command")
    made = _run(command, tmp_path)
    assert made.returncode == 0, made.stderr
    done = _run(_line("traces-command"), tmp_path)
    assert done.returncode == 0, done.stdout
    _change(tmp_path / "desk.py", "CENTS = 4999", "CENTS = 1")
    assert _run(command.removesuffix(" golden"), tmp_path).returncode == 0
    done = _run(_line("traces-command"), tmp_path)
    assert done.returncode == 1
    assert_shows(BLOCKS["traces-report"].text, done.stdout)


def test_two_evaluations(tmp_path: Path) -> None:
    """The page's test is green on the same evaluation, and names the call that a candidate leaves out."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert _line("evals-install") == 'pip install "pytest-loom[inspect]"'
    assert extras.keys() >= {"inspect", "aws-durable"}

    def call(name: str, **args: str) -> dict[str, Any]:
        return {"event": "tool", "timestamp": 1, "id": name, "function": name, "arguments": args, "result": "ok"}

    def evaluated(folder: str, *events: dict[str, Any]) -> None:
        sample = {"id": "s1", "epoch": 1, "input": "pay A-17", "events": events, "output": {"completion": "done"}}
        spec = {"task": "desk", "task_id": "t", "created": "2026-01-05T10:00:00Z"}
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "log.json").write_text(json.dumps({"version": 2, "eval": spec, "samples": [sample]}))

    _write("evals-test", tmp_path)
    for folder in ("baseline", "today"):
        evaluated(folder, call("look", order="A-17"), call("pay", order="A-17"))
    done = _run(_line("evals-command"), tmp_path)
    assert done.returncode == 0, done.stdout
    evaluated("today", call("pay", order="A-17"))
    done = _run(_line("evals-command"), tmp_path)
    assert done.returncode == 1
    assert_shows(BLOCKS["evals-report"].text, done.stdout)


def test_a_durable_function_that_waits(tmp_path: Path) -> None:
    """The page's contract finds the gate and the order that are gone."""
    root = {"Id": "e", "Type": "EXECUTION", "Status": "STARTED", "StartTimestamp": 1}
    names = ("reserve", "charge")
    steps = [{"Id": name, "Type": "STEP", "Status": "SUCCEEDED", "Name": name, "StartTimestamp": 2} for name in names]
    wait = {"Id": "c", "Type": "CALLBACK", "Status": "STARTED", "Name": "approval", "StartTimestamp": 3}
    arn = "arn:aws:lambda:eu-west-1:1:function:orders:7/durable-execution/o-1/e"
    state = {"DurableExecutionArn": arn, "Operations": [root, *steps, wait]}
    (tmp_path / _line("evals-state").rpartition("> ")[2]).write_text(json.dumps(state))
    assert _printed("evals-durable", tmp_path) == BLOCKS["evals-findings"].text
