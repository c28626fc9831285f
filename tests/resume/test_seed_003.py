"""Seed 003's table of fixtures, row by row: runs that last week's code recorded, read by today's (its own story)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pytest_loom
from pytest_loom import (
    ApprovalError,
    Context,
    Flow,
    Log,
    LoomError,
    StateMigrationError,
    Unsupported,
    UpcastError,
    check_resume,
    flow,
    load_log,
    migrate,
    migration,
    record,
    resume,
    step,
    tool,
    upcaster,
)
from pytest_loom.log.migrations import isolated_migrations
from pytest_loom.log.upcast import isolated_upcasters
from pytest_loom.resume.helpers import add, compose, rename

DEPLOYED: list[dict[str, Any]] = []
"""What today's tool was really called with."""
STAGING = {"environment": "staging", "region": "eu", "change_ticket": None}
PROD = {"environment": "prod", "region": "eu", "change_ticket": "CHG-1"}


@pytest.fixture(scope="module")
def yesterday(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what last week's code recorded, in a process of its own."""
    folder = tmp_path_factory.mktemp("yesterday")
    script = Path(__file__).with_name("releases_v1.py")
    subprocess.run([sys.executable, str(script), str(folder)], check=True, timeout=60)
    return folder


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    """Today's migration and upcaster, for this test alone."""
    DEPLOYED.clear()
    with isolated_migrations(), isolated_upcasters():
        migration("state", from_version=2)(compose(rename("env", "environment"), add("region", "eu")))
        upcaster("TOOL_REQUESTED", from_version=1)(deploys_of_version_2)
        yield


def deploys_of_version_2(payload: dict[str, Any]) -> dict[str, Any]:
    """A deploy that was done went to the one region there was, without a ticket."""
    return {**payload, "args": {"environment": payload["args"]["env"], "region": "eu", "change_ticket": None}}


@step
async def build(commit: str) -> str:
    """Build an image."""
    return f"image-{commit}"


@tool(name="deploy", version=2, approval=True, permissions=["cluster:write", "tickets:write"])
def deploy(environment: str, region: str, change_ticket: str | None) -> str:
    """Roll out to one region, and note it in the ticket."""
    DEPLOYED.append({"environment": environment, "region": region, "change_ticket": change_ticket})
    return f"deployed to {environment}"


def release_with(deploy: Any, args: Iterable[str] = ("environment", "region", "change_ticket")) -> Flow[..., Any]:
    """Today's flow with a tool ``deploy`` that takes ``args``."""

    @flow(
        id="release",
        version="2",
        versions={"state": 3},
        steps=[build],
        tools=[deploy],
        gates={"Opened": None, "Approved": bool, "Checked": None},
    )
    async def release(ctx: Context, commit: str) -> str:
        image = await ctx.run(build, commit)
        ctx.snapshot({"image": image, "environment": "staging", "region": "eu"})
        await ctx.suspend("Opened")
        for environment in ("staging", "prod"):
            ctx.snapshot({"image": image, "environment": environment, "region": "eu"})
            state = {**ctx.state, "env": environment, "change_ticket": "CHG-1" if environment == "prod" else None}
            call = {name: state[name] for name in args}
            pending = {"callId": f"deploy-{environment}", "name": "deploy", "args": call}
            await ctx.suspend("Approved", correlation_key=environment, kind="approval", pending=pending)
            await ctx.call(deploy, **call)
            await ctx.suspend("Checked", correlation_key=environment)
        return f"{image} is live in {ctx.state['region']}"

    return release


release = release_with(deploy)


def taken_over(run: Log, today: Flow[..., Any] = release) -> Log:
    """What somebody gets who types the line that the refusal shows."""
    with pytest.raises(ApprovalError) as refused:
        resume(run, today, event="Approved", payload=True)
    (line,) = (line for line in str(refused.value).splitlines() if "resume(" in line)
    names: dict[str, Any] = {**{name: getattr(pytest_loom, name) for name in ("fork", "resume")}}
    names.update(log=run, flow=today)
    exec(line.strip(), names)
    asked = names["asked"]
    assert isinstance(asked, Log)
    return asked


class TestCheckpointOfVersion2:
    """Row 1: a v2 checkpoint that can be migrated without loss; after the migration the state is the same."""

    def test_is_migrated_to_the_state_that_todays_code_saves(self, yesterday: Path) -> None:
        """Carried to version 3 the saved state equals what today's code saves at that point, and comes back whole."""
        run = load_log(yesterday / "window.loom.jsonl")
        assert (run.state.state, run.state.state_schema_version) == ({"image": "image-9f2c", "env": "staging"}, 2)
        today = migrate("state", run.state.state, 2, 3)
        assert today == record(release, "9f2c").state.state
        assert migrate("state", today, 3, 2) == run.state.state
        decision = check_resume(run, release)
        assert (decision.verdict, decision.ok) == ("migrate", True)
        assert "the state is carried from version 2 to 3" in decision.reasons

    def test_is_what_the_resumed_code_reads(self, yesterday: Path) -> None:
        """``ctx.state`` is of version 3, the history keeps version 2, and the file is not touched."""
        path = yesterday / "deployed.loom.jsonl"
        before = path.read_bytes()
        run = load_log(path)
        for event, payload in (("Checked", None), ("Approved", True), ("Checked", None)):
            run = resume(run, release, event=event, payload=payload)
        assert run.state.variables["_output"] == "image-9f2c is live in eu"
        saved = [event.payload for event in run.events if event.event_type == "STATE_SNAPSHOT"]
        assert [one["stateSchemaVersion"] for one in saved] == [2, 2, 3]
        assert path.read_bytes() == before

    def test_is_refused_without_a_migration(self, yesterday: Path) -> None:
        """No default stands in for the migration: neither the decision nor a resume lets the run go on."""
        run = load_log(yesterday / "window.loom.jsonl")
        with isolated_migrations():
            decision = check_resume(run, release)
            assert (decision.verdict, [one.code for one in decision.findings if one.severity == "breaking"]) == (
                "reject",
                ["migration-missing"],
            )
            with pytest.raises(StateMigrationError, match="from version 2 to 3"):
                resume(run, release, event="Opened")


class TestEventOfVersion1:
    """Row 2: a v1 event that can be upcast; the reducer comes to the expected state."""

    def test_is_reduced_to_todays_state(self, yesterday: Path) -> None:
        """The deploy of last week is folded as today's call, while the file says what it always said."""
        path = yesterday / "deployed.loom.jsonl"
        run = load_log(path)
        (call,) = run.state.calls
        assert (call.name, call.args, call.status) == ("deploy", STAGING, "completed")
        assert b'"args":{"env":"staging"}' in path.read_bytes()
        (event,) = (event for event in run.events if event.event_type == "TOOL_REQUESTED")
        assert (event.event_version, event.payload["args"]) == (1, {"env": "staging"})

    def test_is_not_done_again(self, yesterday: Path) -> None:
        """The run goes on behind the old deploy and asks for the next one."""
        run = load_log(yesterday / "deployed.loom.jsonl")
        decision = check_resume(run, release)
        assert decision.ok
        assert "TOOL_REQUESTED is read in version 2, upcast from 1" in decision.reasons
        asked = resume(run, release, event="Checked")
        assert DEPLOYED == []
        assert asked.state.suspensions[0].pending["args"] == PROD

    def test_is_refused_where_nothing_maps_it_without_loss(self, yesterday: Path) -> None:
        """An upcaster that says Unsupported is believed: the run is rejected, and says why."""

        def lossy(payload: dict[str, Any]) -> dict[str, Any]:
            raise Unsupported("nobody knows who approved it")

        run_path = yesterday / "deployed.loom.jsonl"
        with isolated_upcasters():
            upcaster("TOOL_REQUESTED", from_version=1)(lossy)
            decision = check_resume(load_log(run_path), release)
            assert (decision.verdict, decision.findings[0].code) == ("reject", "upcast-missing")
            assert "nobody knows who approved it" in decision.findings[0].message
            with pytest.raises(UpcastError, match="nobody knows who approved it"):
                resume(load_log(run_path), release, event="Checked")


class TestWiderTool:
    """Row 3: the tool's schema or permissions were widened; the resume is refused, the approval is asked for again."""

    def test_is_asked_for_again(self, yesterday: Path) -> None:
        """Environment, region and ticket were never shown: nothing runs until somebody agrees to just that call."""
        run = load_log(yesterday / "approval.loom.jsonl")
        decision = check_resume(run, release)
        assert (decision.verdict, decision.ok) == ("reapprove", False)
        assert {one.code for one in decision.findings if one.severity == "breaking"} == {"tool-args", "approval-stale"}
        asked = taken_over(run)
        (wait,) = asked.state.suspensions
        assert (wait.kind, wait.pending["args"], wait.pending["toolSchemaVersion"]) == ("approval", PROD, 2)
        assert check_resume(asked, release).ok
        assert DEPLOYED == []
        resume(asked, release, event="Approved", payload=True)
        assert DEPLOYED == [PROD]

    @pytest.mark.parametrize(
        ("declared", "said"),
        [
            ({"version": 1, "permissions": ["cluster:write", "dns:write"]}, "it may now also use dns:write"),
            ({"version": 2, "permissions": ["cluster:write"]}, "its version was 1 and is 2"),
        ],
        ids=["permission", "meaning"],
    )
    def test_with_the_same_arguments(self, yesterday: Path, declared: dict[str, Any], said: str) -> None:
        """One more permission, or another meaning under the same name, is another call: asked for again."""

        @tool(name="deploy", approval=True, **declared)
        def wider(env: str) -> str:
            DEPLOYED.append({"env": env})
            return f"deployed to {env}"

        today = release_with(wider, ["env"])
        with isolated_upcasters():
            run = load_log(yesterday / "approval.loom.jsonl")
            decision = check_resume(run, today)
            assert decision.verdict == "reapprove"
            assert said in decision.findings[0].message
            asked = taken_over(run, today)
            assert DEPLOYED == []
            resume(asked, today, event="Approved", payload=True)
            assert DEPLOYED == [{"env": "prod"}]

    def test_no_migration_of_its_arguments_helps(self, yesterday: Path) -> None:
        """A migration may carry arguments, never an approval: who agreed to {"env": "prod"} is asked all the same."""
        migration("tool:deploy", from_version=1)(
            compose(rename("env", "environment"), add("region", "eu"), add("change_ticket", "CHG-1"))
        )
        run = load_log(yesterday / "approval.loom.jsonl")
        assert check_resume(run, release).verdict == "reapprove"
        with pytest.raises(ApprovalError):
            resume(run, release, event="Approved", payload=True)

    def test_the_same_tool_is_not_asked_for_again(self, yesterday: Path) -> None:
        """With the tool as it was, words aside, the approval that is asked for holds."""

        @tool(name="deploy", version=1, approval=True, permissions=["cluster:write"])
        def same(env: str) -> str:
            """Other words."""
            DEPLOYED.append({"env": env})
            return f"deployed to {env}"

        today = release_with(same, ["env"])
        with isolated_upcasters():
            run = load_log(yesterday / "approval.loom.jsonl")
            assert check_resume(run, today).verdict == "migrate"
            resume(run, today, event="Approved", payload=True)
        assert DEPLOYED == [{"env": "prod"}]


class TestUnknownVersion:
    """Row 4: a schema version that nobody knows; fail closed, and fill in nothing."""

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ('"stateSchemaVersion":2', '"stateSchemaVersion":9'),
            ('"stateSchemaVersion":2', '"stateSchemaVersion":{"v":2}'),
            ('"stateSchemaVersion":2,', ""),
            ('"eventType":"STEP_COMPLETED"', '"eventType":"STEP_COMPLETED","eventVersion":9'),
            ('"eventType":"STATE_SNAPSHOT"', '"eventType":"STATE_MEMENTO"'),
            ('"schemaVersion":"1.15.0"', '"schemaVersion":"2.0.0"'),
        ],
        ids=["newer state", "no number", "no version", "newer event", "unknown kind", "newer schema"],
    )
    def test_is_rejected(self, yesterday: Path, tmp_path: Path, old: str, new: str) -> None:
        """Neither the decision nor a resume reads it, and what can be folded is as it was recorded."""
        text = (yesterday / "window.loom.jsonl").read_text(encoding="utf-8")
        assert old in text
        path = tmp_path / "unknown.loom.jsonl"
        path.write_text(text.replace(old, new), encoding="utf-8")
        report = pytest_loom.simulate_deploy(path, release)
        assert not report.ok
        assert {found.code for found in report.findings if found.severity == "breaking"} == {"schema-unknown"}
        assert [one.verdict for one in report.runs] == ["reject"]
        with pytest.raises(LoomError, match=r"(?s)(unknown\.loom\.jsonl).*guessed|knows this kind"):
            resume(load_log(path), release, event="Opened")
        assert path.read_text(encoding="utf-8") == text.replace(old, new)

    def test_nothing_is_filled_in(self, yesterday: Path, tmp_path: Path) -> None:
        """The fold of a state of an unknown version has what was recorded: no region, no new key."""
        text = (yesterday / "window.loom.jsonl").read_text(encoding="utf-8")
        path = tmp_path / "unknown.loom.jsonl"
        path.write_text(text.replace('"stateSchemaVersion":2', '"stateSchemaVersion":9'), encoding="utf-8")
        run = load_log(path)
        assert check_resume(run, release).verdict == "reject"
        assert run.state.state == {"image": "image-9f2c", "env": "staging"}
