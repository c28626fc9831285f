"""Policies as data: which verdict is allowed for which flow, tool or risk class; high risk fails closed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import Contract, Log, LogBuilder, LoomError, check_resume, migration, simulate_deploy
from pytest_loom.deploy.decide import ResumeDecision
from pytest_loom.log.migrations import isolated_migrations
from pytest_loom.resume.policy import FINE, Policy, load_policy

SCHEMA = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}
EXPRESS = {
    **SCHEMA,
    "properties": {"cents": {"type": "integer"}, "express": {"type": "boolean", "default": True}},
}
SHOWN = {"callId": "c", "name": "pay", "args": {"cents": 1}, "toolSchema": SCHEMA, "permissions": ["payments.out"]}
HIGH: dict[str, Any] = {"risk": {"high": ["pay*"]}}


@pytest.fixture(autouse=True)
def own_migrations() -> Iterator[None]:
    """Each test registers its own."""
    with isolated_migrations():
        yield


def contract(schema: Any = SCHEMA, **parts: Any) -> Contract:
    """Today's contract."""
    tools = {"pay": {"schema": schema, "permissions": ["payments.out"]}}
    return Contract.model_validate({"workflowId": "refund", "gates": {"A": {}}, "tools": tools, **parts})


def waiting(pending: Any = SHOWN, *, state: int | None = None, manifest: dict[str, Any] | None = None) -> Log:
    """A run that waits."""
    made = LogBuilder("r-1", "refund")
    made.add("EXECUTION_STARTED", {"manifest": manifest or {}}, timestamp=1)
    if state is not None:
        made.add("STATE_SNAPSHOT", {"stateSchemaVersion": state, "state": {"a": 1}}, timestamp=1)
    made.add("EXECUTION_SUSPENDED", {"on": "A", "kind": "approval", "pending": pending}, timestamp=1)
    return made.log()


def severities(decision: ResumeDecision) -> dict[str, str]:
    """The findings by code."""
    return {found.code: found.severity for found in decision.findings if found.code != "suspended-carryover"}


class TestHighRisk:
    @pytest.mark.parametrize("patterns", [["pay"], ["p*y"], ["permission:payments.*"], ["other", "pay"]])
    def test_a_warning_about_its_call_is_breaking(self, patterns: list[str]) -> None:
        """A default that nobody was shown is a warning, and of high risk it is asked again."""
        assert check_resume(waiting(), contract(EXPRESS)).verdict == "resume"
        decision = check_resume(waiting(), contract(EXPRESS), policy={"risk": {"high": patterns}})
        assert (decision.verdict, severities(decision)) == ("reapprove", {"tool-args": "breaking"})
        assert "The policy calls pay high risk." in decision.reasons[0]

    def test_another_tools_call_is_not(self) -> None:
        """A class is of the tools that it names."""
        assert check_resume(waiting(), contract(EXPRESS), policy={"risk": {"high": ["mail"]}}).verdict == "resume"
        assert check_resume(waiting(), contract(EXPRESS), policy={"risk": {"low": ["pay"]}}).verdict == "resume"

    def test_migrations_are_not_allowed(self) -> None:
        """A run with such a call goes on as it is, or not at all."""
        migration("state", from_version=1)(lambda state: state)
        log, today = waiting(state=1), contract(versions={"state": 2})
        assert check_resume(log, today).verdict == "migrate"
        decision = check_resume(log, today, policy=HIGH)
        assert (decision.verdict, severities(decision)) == ("reject", {"migration-missing": "breaking"})
        assert "the policy does not allow that for refund with a pending pay" in decision.reasons[0]
        assert check_resume(waiting("?", state=1), today, policy=HIGH).verdict == "migrate"

    def test_a_rule_for_it_says_otherwise(self) -> None:
        """Who names the class in a rule has said what is allowed for it."""
        migration("state", from_version=1)(lambda state: state)
        policy = {**HIGH, "rule": [{"risk": "high", "allow": ["resume", "migrate"]}]}
        assert check_resume(waiting(state=1), contract(versions={"state": 2}), policy=policy).verdict == "migrate"

    def test_what_was_shown_exactly_goes_on(self) -> None:
        """Failing closed is not failing always."""
        assert check_resume(waiting(), contract(), policy=HIGH).verdict == "resume"


class TestRules:
    @pytest.mark.parametrize(
        ("rule", "verdict"),
        [
            ({"flow": "refund", "allow": ["pin"]}, "reapprove"),
            ({"flow": "ref*", "allow": ["pin"]}, "reapprove"),
            ({"flow": "other", "allow": ["pin"]}, "resume"),
            ({"tool": "pay", "allow": ["pin"]}, "reapprove"),
            ({"tool": "mail", "allow": ["pin"]}, "resume"),
            ({"tool": "pay", "flow": "other", "allow": ["pin"]}, "resume"),
            ({"risk": "money", "allow": []}, "reapprove"),
            ({"risk": "none", "allow": []}, "resume"),
            ({"allow": ["resume"]}, "resume"),
        ],
    )
    def test_what_matches(self, rule: dict[str, Any], verdict: str) -> None:
        """All that a rule says has to match; then a verdict that it leaves out is a breaking finding."""
        policy = {"risk": {"money": ["permission:payments.*"]}, "rule": [rule]}
        decision = check_resume(waiting(), contract(), policy=policy)
        assert decision.verdict == verdict
        assert decision.ok == (verdict == "resume")
        if not decision.ok:
            assert 'allow = [… "resume"]' in decision.next_step

    def test_several_rules(self) -> None:
        """Only what all of them allow."""
        rules = [{"flow": "refund", "allow": ["resume", "pin"]}, {"tool": "pay", "allow": ["pin"]}]
        assert check_resume(waiting(), contract(), policy={"rule": rules}).verdict == "reapprove"

    def test_a_breaking_verdict_that_is_allowed(self) -> None:
        """It stays the verdict, and its findings are warnings that say so: the simulation is green."""
        policy = {"rule": [{"flow": "refund", "allow": ["resume", "manual"]}]}
        today = contract(gates={})
        decision = check_resume(waiting(), today, policy=policy)
        assert (decision.verdict, severities(decision)) == ("manual", {"gate-removed": "warning"})
        assert "The policy allows manual for it." in decision.reasons[0]
        assert simulate_deploy([waiting()], today, policy=policy).ok
        assert not simulate_deploy([waiting()], today).ok

    def test_without_rules(self) -> None:
        """What is fine by itself is allowed."""
        assert Policy().allowed("refund", []) == FINE


class TestWorkers:
    @pytest.mark.parametrize(
        ("worker", "pinned"),
        [
            ({"flow": "refund", "version": "1.*"}, True),
            ({"flow": "*", "build": "b-7"}, True),
            ({"flow": "refund", "version": "1.*", "build": "b-8"}, False),
            ({"flow": "refund", "version": "2.*"}, False),
            ({"flow": "other", "version": "1.*"}, False),
            ({"flow": "refund", "fingerprint": "*"}, False),
        ],
    )
    def test_which_runs_are_its_own(self, worker: dict[str, str], pinned: bool) -> None:
        """All that it asks for has to be said by the run's manifest."""
        log = waiting(manifest={"flowVersion": "1.2", "runtimeBuild": "b-7"})
        decision = check_resume(log, contract(gates={}), policy={"worker": [worker]})
        assert (decision.verdict == "pin") == pinned
        assert decision.ok == pinned

    def test_a_worker_that_may_not_be_used(self) -> None:
        """A rule may leave pinning out."""
        policy = {"worker": [{"flow": "refund", "version": "1"}], "rule": [{"allow": ["resume"]}]}
        log = waiting(manifest={"flowVersion": "1"})
        assert check_resume(log, contract(gates={}), policy=policy).verdict == "manual"


class TestFiles:
    def test_a_whole_one(self, tmp_path: Path) -> None:
        """What the docs say is what is read."""
        path = tmp_path / "policy.toml"
        path.write_text(
            'window = 2\n[risk]\nhigh = ["pay*"]\n[[rule]]\nrisk = "high"\nallow = ["resume", "pin"]\n'
            '[[worker]]\nflow = "refund"\nversion = "1.*"\n'
        )
        policy = load_policy(path)
        assert (policy.window, policy.risk, len(policy.rule), policy.worker[0].version) == (
            2,
            {"high": ["pay*"]},
            1,
            "1.*",
        )
        assert load_policy(policy) is policy
        assert load_policy(str(path)) == policy

    @pytest.mark.parametrize(
        "text",
        [
            "[[rules]]\nallow = []",
            "[[rule]]\nflow = 'x'",
            "[[rule]]\nallow = ['resumed']",
            "[[rule]]\nallow = ['resume']\ntols = 'x'",
            "[[rule]]\nallow = 'resume'",
            "[[rule]]\nallow = []\nflow = ' '",
            "[risk]\nhigh = 'pay'",
            "[risk]\nhigh = [5]",
            "[[worker]]\nflow = 'refund'",
            "[[worker]]\nversion = '1'",
            "window = -1",
            "window = 'two'",
            "not toml",
            "\x00",
        ],
    )
    def test_a_wrong_one_is_refused_by_name(self, tmp_path: Path, text: str) -> None:
        """A misspelt rule would be one that is never applied."""
        path = tmp_path / "policy.toml"
        path.write_text(text)
        with pytest.raises(LoomError) as refused:
            load_policy(path)
        assert str(path) in str(refused.value)

    @pytest.mark.parametrize("content", [b"\xff\xfe", None])
    def test_one_that_cannot_be_read(self, tmp_path: Path, content: bytes | None) -> None:
        """No file, or no text: refused by name too."""
        path = tmp_path / "policy.toml"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(LoomError, match="policy"):
            load_policy(path)

    @pytest.mark.parametrize("source", [5, ["x"], b"x"])
    def test_what_is_no_policy_at_all(self, source: Any) -> None:
        """Something else than data, a path or a policy is an error of that kind, not a crash."""
        with pytest.raises((LoomError, TypeError)):
            load_policy(source)
