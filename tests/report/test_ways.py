"""The ways out of a finding: what each says to paste has to be right for that engine, and safe to show."""

from __future__ import annotations

import ast
import tomllib
from datetime import date
from pathlib import Path

import pytest

from pytest_loom.deploy.acks import load_acks
from pytest_loom.deploy.report import BREAKING, WARNING
from pytest_loom.report.ways import _TABLE, ON_RESUME, acceptance, toml, ways_of
from pytest_loom.resume.policy import load_policy
from tests.report.conftest import HOSTILE, found

ENGINES = ("native", "loom", "temporal", "dbos", "langgraph", "openai-agents", "pydantic_ai", "aws-durable", None)


def names(*arguments: object, **other: object) -> list[str]:
    """The names of the ways out of such a finding."""
    return [way.name for way in ways_of([found(*arguments, **other)])]  # type: ignore[arg-type]


@pytest.mark.parametrize("code", sorted(BREAKING))
def test_every_breaking_code(code: str) -> None:
    """What would happen on resume is said, and each engine has a way that can be pasted: at least to accept it."""
    assert ON_RESUME[code].endswith(".")
    for engine in ENGINES:
        ways = ways_of([found(1, code, engine=engine)])
        assert ways[-1].name == "accept"
        assert all(way.code and way.what.endswith(":") for way in ways)
        assert all(line == line.rstrip() for way in ways for line in way.code.splitlines())


def test_the_table_names_codes_that_there_are() -> None:
    """No row is for a code or an engine that does not exist."""
    assert set(_TABLE) <= {*BREAKING, *WARNING}
    assert {engine for rows in _TABLE.values() for engine in rows} <= {*ENGINES, ""}


def test_by_engine() -> None:
    """The same code is mended otherwise in each engine."""
    lines = {engine: ways_of([found(engine=engine)])[0].code for engine in ("native", "loom", "temporal", "langgraph")}
    assert lines == {
        "native": '@step(id="assess")',
        "loom": '"steps": {"assess": {}, …}  # of "refund"',
        "temporal": '@activity.defn(name="assess")',
        "langgraph": acceptance("step-removed", "refund", "assess").code,  # type: ignore[union-attr]
    }


def test_several_engines() -> None:
    """A cause of runs of two engines has the ways of both, each told by its name; how it is accepted is told once."""
    ways = ways_of([found(engine="temporal"), found(2, engine="native")])
    assert [(way.name, way.what.partition(": ")[0]) for way in ways[:2]] == [("patch", "temporal"), ("patch", "native")]
    assert [way.name for way in ways[2:]] == ["accept"]


def test_what_is_accepted_is_just_this(tmp_path: Path) -> None:
    """Once somebody gave a date, the lines are an acknowledgement that covers the cause and no other."""
    one = found(workflow_id='re"fund\\\n', step="as\u202esess")
    way = ways_of([one])[-1]
    (tmp_path / "acks.toml").write_text(way.code.replace("YYYY-MM-DD", "2099-12-31"), encoding="utf-8")
    (ack,) = load_acks(tmp_path / "acks.toml")
    assert (ack.covers(one), ack.covers(found()), ack.expires) == (True, False, date(2099, 12, 31))


def test_a_worker_is_kept_where_the_run_says_its_version() -> None:
    """The lines are a policy; a run that names no version cannot be told by one."""
    (pin,) = [way for way in ways_of([found(version="1.2.0")]) if way.name == "pin"]
    policy = load_policy(tomllib.loads(pin.code))
    assert policy.keeps("refund", {"flowVersion": "1.2.0"}) is not None
    assert policy.keeps("refund", {"flowVersion": "1.3.0"}) is None
    assert "pin" not in names()


def test_a_version_that_did_not_move_keeps_no_worker_apart() -> None:
    """Where today's code has the version of these runs, it is to be raised first: the policy could not tell them."""
    today = "refund {} (contract 12345678) has no step assess"
    for version, is_first in (("1.2.0", True), ("1.2", False), ("1.3.0", False)):
        (pin,) = [way for way in ways_of([found(version="1.2.0", today=today.format(version))]) if way.name == "pin"]
        assert pin.what.startswith("Raise today's version first") is is_first


def test_what_the_hint_types_for_this_run() -> None:
    """It knows the place in the log, so it goes before the general lines of the same name, and is not said twice."""
    hint = "Keep it. Or ask anew:\n  asked = resume(fork(log, 17), flow)"
    ways = ways_of([found(1, "approval-stale", engine="openai-agents", hint=hint)])
    assert [(way.name, way.said) for way in ways] == [("re-approve", True), ("accept", False)]
    assert ways[0].code == "asked = resume(fork(log, 17), flow)"
    assert names(1, "replay-diverged", hint=hint)[0] == "fork"


def test_a_sentence_before_the_lines_is_no_code() -> None:
    """What a hint sets in may begin with a sentence; only the lines after it are pasted."""
    hint = "Say it:\n  Say what the input is today, such as:\n\n      def to_today(old):\n          return old"
    (way, *_) = ways_of([found(1, "input-contract", engine="native", hint=hint)])
    assert (way.name, way.code) == ("migrate", "def to_today(old):\n    return old")


def test_warnings() -> None:
    """Nobody has to accept a warning; a missing contract says how contracts are kept."""
    assert names(1, "suspended-carryover", "warning") == []
    (way,) = ways_of([found(1, "contract-unknown", "warning")])
    assert way.code == "python -m pytest --loom-deploy-sim --snapshot-update -k deploy-sim"


def test_names_from_logs() -> None:
    """A name is pasted as a string that is that name, or left out where it is endless; no line is forged."""
    name = "a'b\"\\\n\u2028</script>"
    (patch, *_) = ways_of([found(engine="native", step=name)])
    assert patch.code.isprintable()
    assert ast.literal_eval(patch.code.removeprefix("@step(id=").removesuffix(")")) == name
    assert ways_of([found(engine="native", step=HOSTILE, workflow_id=HOSTILE)]) == ()
    assert tomllib.loads(f"name = {toml(name)}")["name"] == name


def test_a_hint_with_several_ways() -> None:
    """Each of its pieces is a way of its own, with the sentence before it; an ``if`` begins lines, no sentence."""
    hint = (
        'Keep it. If it is new, do it only later:\n  if DBOS.patch("it"):\n      it(…)\n'
        'Or wait. Or begin anew from there:\n  DBOS.fork_workflow("r-1", 2)'
    )
    patch, fork, *_ = ways_of([found(1, "replay-diverged", engine="dbos", hint=hint)])
    assert (patch.name, patch.what) == ("patch", "If it is new, do it only later:")
    assert patch.code == 'if DBOS.patch("it"):\n    it(…)'
    assert (fork.name, fork.what, fork.code) == ("fork", "Begin anew from there:", 'DBOS.fork_workflow("r-1", 2)')
