"""The pages of the engines in docs/ are true: a new user's ten minutes, step by step, with the engine installed.

A block of such a page is called after its page: ``agents-settings`` is the block ``settings`` of ``PAGES["agents"]``.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.pages import BLOCKS, ROOT, assert_shows, change, line, run, write
from tests.pages import PAGES as TEXTS

COMMON = ("install", "application", "save", "save-command", "settings", "command", "report", "capture", "flows")
Edits = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Page:
    """A page: its file, extra, package and the attribute of ``desk.py`` that is the flow; ``more`` blocks than common.

    ``broken`` is the change that it shows; ``changes`` are those of its table, by the first cell; ``strangers`` makes
    two flows that do not know the run; ``flow_id`` is what the flow calls itself.
    """

    file: str
    extra: str
    package: str
    attribute: str
    broken: Edits
    changes: dict[str, Edits]
    strangers: str
    more: tuple[str, ...] = ()
    flow_id: str = "desk"

    @property
    def blocks(self) -> tuple[str, ...]:
        """Its blocks, without the page's prefix."""
        return COMMON + self.more


QUESTION = 'interrupt({"refund": state["order"], "cents": state["cents"]})'
RENAMED: Edits = (("cents: int", "amount: int = 0"), ("{cents}", "{amount}"))
LIMIT = """import pydantic, typing
def at_most_2500(cents):
    if cents > 2500:
        raise ValueError("too much")
    return cents
"""
VALIDATED = ("cents: int", "cents: typing.Annotated[int, pydantic.AfterValidator(at_most_2500)]")

PAGES = {
    "agents": Page(
        "docs/openai-agents.md",
        "openai-agents",
        "agents",
        "agent",
        RENAMED,
        {
            "`amount: int = 0` instead of `cents`": RENAMED,
            "`cents: str`": (("cents: int", "cents: str"),),
            "`cents: Annotated[int, AfterValidator(at_most_2500)]`": (VALIDATED, ("# desk.py\n", LIMIT)),
            '`currency: str = "JPY"` is new': (("cents: int", 'cents: int, currency: str = "JPY"'),),
            "`tools=[]`": (("tools=[refund]", "tools=[]"),),
            '`name="front"` instead of `name="desk"`': (('name="desk"', 'name="front"'),),
            "`memo: str | None = None` is new": (("cents: int", "cents: int, memo: str | None = None"),),
            "other instructions, another docstring": (("what arrived broken", "less"), ("Pay an order back", "Pay")),
            "`needs_approval=False`": (("needs_approval=True", "needs_approval=False"),),
            "another body of `refund`": (("are on their way", "are lost"),),
        },
        'from agents import Agent\nflows = {name: Agent(name=name) for name in ("one", "two")}\n',
        ("replay", "divergence"),
    ),
    "pydantic-ai": Page(
        "docs/pydantic-ai.md",
        "pydantic-ai",
        "pydantic_ai",
        "desk",
        RENAMED,
        {
            "`amount: int = 0` instead of `cents`": RENAMED,
            "`cents: str`": (("cents: int", "cents: str"),),
            "`cents: Annotated[int, AfterValidator(at_most_2500)]`": (VALIDATED, ("# desk.py\n", LIMIT)),
            "`refund_order` instead of `refund`": (("def refund", "def refund_order"),),
            "`prepare=` a function that leaves the tool out": (
                ("requires_approval=True", "requires_approval=True, prepare=nothing"),
                ("desk = ", "async def nothing(ctx, tool): return None\ndesk = "),
            ),
            "`cents: float`": (("cents: int", "cents: float"),),
            '`currency: str = "JPY"` is new': (("cents: int", 'cents: int, currency: str = "JPY"'),),
            "`memo: str | None = None` is new": (("cents: int", "cents: int, memo: str | None = None"),),
            '`name="front"`, other instructions': (('name="desk"', 'name="front"'), ("what arrived broken", "less")),
            "`requires_approval=False`": (("requires_approval=True", "requires_approval=False"),),
            "another body of `refund`": (("are on their way", "are lost"),),
        },
        'from pydantic_ai import Agent\nflows = {name: Agent(name=name) for name in ("one", "two")}\n',
    ),
    "langgraph": Page(
        "docs/langgraph.md",
        "langgraph",
        "langgraph",
        "graph",
        (("def ask(", "def ask_human("), ("(assess, ask, pay)", "(assess, ask_human, pay)"), ('"ask"', '"ask_human"')),
        {
            "the node `ask_human` instead of `ask`": (
                ("def ask(", "def ask_human("),
                ("(assess, ask, pay)", "(assess, ask_human, pay)"),
                ('"ask"', '"ask_human"'),
            ),
            "`True` instead of the interrupt": ((QUESTION, "True"),),
            "another `interrupt()` before the one that is open": (
                ('    return {"approved"', '    interrupt("sure?")\n    return {"approved"'),
            ),
            "the key `amount` instead of `cents`": (
                ("cents: int", "amount: int"),
                ('{"cents"', '{"amount"'),
                ('state["cents"]', 'state["amount"]'),
                ("state['cents']", "state['amount']"),
            ),
            "`cents: str`": (("cents: int", "cents: str"),),
            "`notes: list[str]` without its reducer": (("Annotated[list[str], operator.add]", "list[str]"),),
            "other words in the question": (('{"refund": state', '{"pay back": state'),),
            "a node that asks before `ask`": (
                (
                    'builder.add_edge("assess", "ask")',
                    'builder.add_node("gate", lambda state: {"approved": interrupt("gate?")})\n'
                    'builder.add_edge("assess", "gate")\nbuilder.add_edge("gate", "ask")',
                ),
            ),
            "another name for `assess`, which is done": (
                ("def assess", "def inspect"),
                ("(assess, ", "(inspect, "),
                ('"assess"', '"inspect"'),
            ),
            "another name for `pay`, which comes later": (
                ("def pay", "def pay_out"),
                (", pay)", ", pay_out)"),
                ('"pay"', '"pay_out"'),
            ),
            "a new key, a new node after `ask`": (
                ("    cents: int", "    cents: int\n    memo: str"),
                (
                    'builder.add_edge("ask", "pay")',
                    'builder.add_node("note", lambda state: {"memo": "x"})\n'
                    'builder.add_edge("ask", "note")\nbuilder.add_edge("note", "pay")',
                ),
            ),
            '`if not state["approved"]` in `pay`': (('if state["approved"]', 'if not state["approved"]'),),
        },
        "from langgraph.graph import START, StateGraph\n"
        "def flow(name): return StateGraph(dict).add_node(name, lambda s: s).add_edge(START, name).compile()\n"
        "flows = {name: flow(name) for name in ('one', 'two')}\n",
        ("postgres",),
        "LangGraph",
    ),
}
"""The pages, by the prefix of their blocks."""

ASK = """
import importlib, json, sys, tomllib
from pytest_loom import simulate_deploy

with open("pyproject.toml", "rb") as file:
    (logs,) = tomllib.load(file)["tool"]["pytest"]["ini_options"]["loom_logs"]
said = {}
for name in sys.argv[3:]:
    flow = getattr(importlib.import_module(name), sys.argv[1])
    for contract in (None, "loom-contracts"):
        found = simulate_deploy(logs, {sys.argv[2]: flow}, contract=contract).findings
        told = {one.code: one.severity for one in found if one.code != "suspended-carryover"}
        said.setdefault(name, []).append(told)
print(json.dumps(said))
"""


@pytest.fixture(params=PAGES)
def prefix(request: pytest.FixtureRequest) -> str:
    """The prefix of each page whose engine is installed."""
    page = PAGES[request.param]
    if importlib.util.find_spec(page.package) is None:
        pytest.skip(f"{page.file} needs its engine: pip install pytest-loom[{page.extra}]")
    name: str = request.param
    return name


@pytest.fixture
def project(prefix: str, tmp_path: Path) -> Path:
    """The project of a page, with its waiting run saved."""
    return made(prefix, tmp_path)


def made(prefix: str, folder: Path) -> Path:
    """Write a page's files and save its run."""
    for name in ("application", "save", "settings"):
        write(f"{prefix}-{name}", folder)
    saved = run(line(f"{prefix}-save-command"), folder)
    assert saved.returncode == 0, saved.stderr
    return folder


def simulated(project: Path, prefix: str, *options: str) -> tuple[int, str, dict[str, Any]]:
    """Exit status, output and report of a page's command."""
    command = shlex.join([*shlex.split(line(f"{prefix}-command")), "--loom-report=report.json", *options])
    done = run(command, project)
    return done.returncode, done.stdout, json.loads((project / "report.json").read_bytes())


def edit(file: Path, edits: Edits) -> None:
    """Change an application."""
    for old, new in edits:
        change(file, old, new)


def test_from_nothing_to_the_first_true_finding(project: Path, prefix: str) -> None:
    """The page's own steps: green with one run that waits; after its change, red with the report that it shows."""
    status, output, report = simulated(project, prefix)
    assert (status, report["summary"]["in_flight"]) == (0, 1), output
    assert {found["severity"] for found in report["findings"]} == {"warning"}
    edit(project / "desk.py", PAGES[prefix].broken)
    status, output, _ = simulated(project, prefix)
    assert status == 1
    shown = BLOCKS[f"{prefix}-report"].text
    assert_shows(shown, output)
    assert max(map(len, shown.splitlines())) <= 80


def test_table_of_what_is_told(project: Path, prefix: str) -> None:
    """Each change of the table is told as its row says: with a captured contract or without, or not at all."""
    page = PAGES[prefix]
    captured = run(line(f"{prefix}-capture"), project)
    assert captured.returncode == 0, captured.stdout
    assert "captured 1 contract" in captured.stdout
    rows = dict(re.findall(r"^\| (.+?) (?<!\\)\| (.+) \|$", TEXTS[page.file].split("| --- | --- |\n")[-1], re.M))
    rows = {cell.replace("\\|", "|"): told for cell, told in rows.items()}
    assert rows.keys() == page.changes.keys()
    names = {f"changed_{number}": cell for number, cell in enumerate(page.changes)}
    for name, cell in names.items():
        shutil.copy(project / "desk.py", project / f"{name}.py")
        edit(project / f"{name}.py", page.changes[cell])
    (project / "ask.py").write_text(ASK)
    asked = run(shlex.join(["python", "ask.py", page.attribute, page.flow_id, *names]), project)
    assert asked.returncode == 0, asked.stderr
    for name, (alone, beside_contract) in json.loads(asked.stdout).items():
        told = rows[names[name]]
        code = re.match(r"`([\w-]+)`, (breaking|a warning)", told)
        wanted = {code[1]: code[2].removeprefix("a ")} if code else {}
        assert wanted or told.startswith("nothing"), told
        assert beside_contract == wanted, names[name]
        assert alone == ({} if "with a captured contract" in told else wanted), names[name]


def test_which_flow_a_run_belongs_to(project: Path, prefix: str) -> None:
    """The page's mapping finds the flow; where none knows the run it is ambiguous, until a line says which it is."""
    write(f"{prefix}-flows", project)
    status, output, report = simulated(project, prefix, "-o", "loom_flows=flows:flows")
    assert (status, {found["code"] for found in report["findings"]}) == (0, {"suspended-carryover"}), output
    assert {one["workflow_id"] for one in report["findings"]} == {"refunds"}
    (project / "strangers.py").write_text(PAGES[prefix].strangers)
    _, _, report = simulated(project, prefix, "-o", "loom_flows=strangers:flows")
    assert "flow-ambiguous" in {found["code"] for found in report["findings"]}
    text = " ".join(TEXTS[PAGES[prefix].file].split())
    said = re.search(r"`(\S+ = desk:\w+)`", text)
    assert said is not None
    status, output, report = simulated(project, prefix, "-o", f"loom_flows={said[1]}")
    assert (status, {found["code"] for found in report["findings"]}) == (0, {"suspended-carryover"}), output


@pytest.mark.parametrize("prefix", PAGES)
def test_the_extra_is_one(prefix: str) -> None:
    """What the page installs is an extra of the package."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    said = re.fullmatch(r'python -m pip install "\./pytest-loom\[([\w,-]+)\]"', line(f"{prefix}-install"))
    assert said is not None
    assert set(said[1].split(",")) <= extras.keys()
    assert PAGES[prefix].extra in said[1].split(",")


@pytest.mark.skipif(importlib.util.find_spec("agents") is None, reason="needs the extra openai-agents")
def test_replay_of_agents(tmp_path: Path) -> None:
    """The page's test is green on today's agent and on a harmless change, and stops where a refund would be paid."""
    made("agents", tmp_path)
    write("agents-replay", tmp_path)
    edit(tmp_path / "desk.py", PAGES["agents"].changes["`memo: str | None = None` is new"])
    done = run("python -m pytest", tmp_path)
    assert done.returncode == 0, done.stdout
    edit(tmp_path / "desk.py", PAGES["agents"].changes["`needs_approval=False`"])
    done = run("python -m pytest", tmp_path)
    assert done.returncode == 1
    assert_shows(BLOCKS["agents-divergence"].text, done.stdout)


def test_runs_without_a_name_can_be_given_one(project: Path, prefix: str) -> None:
    """The key ``unknown`` of a mapping takes the runs that name no flow, where the page says so."""
    page = PAGES[prefix]
    if "`unknown`" not in TEXTS[page.file]:
        return
    said = f'{page.strangers}from desk import {page.attribute} as mine\nflows["unknown"] = mine\n'
    (project / "flows.py").write_text(said)
    status, output, report = simulated(project, prefix, "-o", "loom_flows=flows:flows")
    assert (status, {found["code"] for found in report["findings"]}) == (0, {"suspended-carryover"}), output
