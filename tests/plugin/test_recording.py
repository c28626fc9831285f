"""``loom.record`` and ``loom.replay``: a golden is made once, replayed from then on, and made anew only when asked."""

from __future__ import annotations

import json
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.plugin.conftest import Desk

PASSED, FAILED = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED
UPDATE = "--loom-update"
GOLDEN = "logs/test_it/test_it.loom.jsonl"

FLOW = """
import pathlib
from dataclasses import dataclass
from pytest_loom import Context, flow, step

EFFECTS = pathlib.Path(__file__).parent / "effects.txt"

def note(what):
    with EFFECTS.open("a") as stream:
        stream.write(what + "\\n")

@dataclass
class Case:
    id: str
    cents: int

@step
async def assess(case: Case) -> str:
    note("assess")
    return "low" if case.cents < 9000 else "high"

@step
async def pay(cents: int) -> dict[str, int]:
    note(f"pay {cents}")
    return {"paid": cents}

@flow(id="refund", version="1.0.0", steps=[assess, pay], gates={"Approved": bool})
async def refund(ctx: Context, case: Case) -> str:
    risk = await ctx.run(assess, case)
    ctx.uuid(), ctx.now()
    if risk == "high" and not await ctx.suspend("Approved", correlation_key=case.id):
        return "declined"
    return f"paid {(await ctx.run(pay, case.cents))['paid']}"
"""
TEST = """
def test_it(loom, tmp_path):
    run = loom.record(desk.refund, desk.Case("c-1", {cents}){more})
    assert run.state.variables["_output"] == {output!r}
"""
HEAD = "import asyncio, pytest, desk\nfrom pytest_loom import diff_runs\n"


@pytest.fixture
def app(desk: Desk) -> Desk:
    """A project with a flow in the module ``desk``, which writes down each live effect."""
    desk.write("desk.py", FLOW)
    desk.write("pytest.ini", "[pytest]\npythonpath = .\n")
    return desk


OPENED = FLOW.replace("def note(what):", "def note(what):\n    from pytest_loom.flow.guard import opened").replace(
    "    with EFFECTS", "    with opened(), EFFECTS"
)


def allow_effects(app: Desk) -> None:
    """Let the flow's steps write their file while they are recorded, whatever the guard says."""
    app.write("desk.py", OPENED)


def write_test(app: Desk, *, cents: int = 500, output: str = "paid 500", more: str = "") -> None:
    """A test that records or replays the flow."""
    app.write("test_it.py", HEAD + TEST.format(cents=cents, output=output, more=more))


def effects(app: Desk) -> list[str]:
    """The live effects since the last look."""
    path = app.path / "effects.txt"
    found = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def change(app: Desk, old: str, new: str) -> None:
    """Edit the application."""
    text = (app.path / "desk.py").read_text()
    assert old in text
    app.write("desk.py", text.replace(old, new))


@pytest.fixture
def golden(app: Desk) -> Desk:
    """The project with its first golden made."""
    allow_effects(app)
    write_test(app)
    assert app(UPDATE) == PASSED
    assert effects(app) == ["assess", "pay 500"]
    return app


class TestFirst:
    @pytest.mark.parametrize("ci", [True, False])
    def test_a_missing_golden_fails_with_the_command_that_makes_it(
        self, app: Desk, monkeypatch: pytest.MonkeyPatch, ci: bool
    ) -> None:
        """In CI and elsewhere: a golden that makes itself would make any build green."""
        if ci:
            monkeypatch.setenv("CI", "true")
        allow_effects(app)
        write_test(app)
        assert app() == FAILED
        app.result.stdout.fnmatch_lines(
            [f"golden log {GOLDEN} does not exist.", "  Make it: pytest test_it.py::test_it --loom-update"]
        )
        assert effects(app) == []
        assert not (app.path / "logs").exists()

    def test_it_is_made_under_the_flag_and_replayed_from_then_on(self, golden: Desk) -> None:
        """One line an event, and later runs call no step's body."""
        assert golden.section[1:] == [
            "accepted 1 golden log; look at the change before you commit it:",
            f"  {GOLDEN} (new)",
        ]
        kinds = [json.loads(line)["eventType"] for line in (golden.path / GOLDEN).read_text().splitlines()]
        assert (kinds[0], kinds[-1], len(kinds)) == ("EXECUTION_STARTED", "EXECUTION_COMPLETED", 8)
        assert golden() == PASSED
        assert effects(golden) == []

    def test_recording_anew_what_did_not_change_leaves_the_bytes(self, golden: Desk) -> None:
        """Ids and times differ from recording to recording; they are no change."""
        before = (golden.path / GOLDEN).read_bytes()
        assert golden(UPDATE) == PASSED
        assert effects(golden) == ["assess", "pay 500"]
        assert (golden.path / GOLDEN).read_bytes() == before
        assert golden.section == []

    def test_a_recording_of_a_failed_test_is_not_kept(self, app: Desk) -> None:
        """What the test found wrong is no golden."""
        allow_effects(app)
        write_test(app, output="something else")
        assert app(UPDATE) == FAILED
        assert effects(app) == ["assess", "pay 500"]
        assert not (app.path / "logs").exists()

    def test_a_flow_that_does_not_replay_is_not_kept(self, app: Desk) -> None:
        """The baseline: a recording that its own code contradicts would be red for ever."""
        allow_effects(app)
        change(
            app,
            "return f\"paid {(await ctx.run(pay, case.cents))['paid']}\"",
            "import uuid\n    return uuid.uuid4().hex",
        )
        app.write("test_it.py", HEAD + "def test_it(loom):\n    loom.record(desk.refund, desk.Case('c-1', 500))\n")
        assert app(UPDATE) == FAILED
        app.result.stdout.fnmatch_lines(["*the recording does not replay on the code that made it, so it is not kept*"])
        assert not (app.path / "logs").exists()

    def test_gates_are_answered_while_recording(self, app: Desk) -> None:
        """``events`` answer the run's waits; the golden holds them, and is replayed as a whole."""
        allow_effects(app)
        write_test(app, cents=90000, output="paid 90000", more=", events=[('Approved', True)]")
        assert app(UPDATE) == PASSED
        assert effects(app) == ["assess", "pay 90000"]
        assert app() == PASSED
        assert effects(app) == []
        write_test(app, cents=90000, output="declined", more=", events=[('Approved', False)]")
        assert app() == FAILED
        app.result.stdout.fnmatch_lines(
            [
                f"the test does not answer as golden log {GOLDEN} was answered",
                "  recorded: Approved true",
                "  today:    Approved false",
                "  To record the test's: pytest test_it.py::test_it --loom-update",
            ]
        )
        assert effects(app) == []

    def test_a_failed_run_is_told_when_it_becomes_a_golden(self, app: Desk) -> None:
        """It may be what was meant; whoever commits it should know."""
        allow_effects(app)
        change(app, '"low" if', 'int("x") if')
        app.write("test_it.py", HEAD + "def test_it(loom):\n    loom.record(desk.refund, desk.Case('c', 1))\n")
        assert app(UPDATE) == PASSED
        assert app.section[2].startswith(f"  {GOLDEN} (new; the run failed: ValueError: invalid literal for int()")
        assert app() == PASSED


class TestChanges:
    def test_a_divergence_names_the_difference_and_the_command(self, golden: Desk) -> None:
        """What was recorded, what today's code asks, and what to type."""
        change(golden, "ctx.run(pay, case.cents)", "ctx.run(pay, case.cents * 100)")
        assert golden("--tb=short") == FAILED
        golden.result.stdout.fnmatch_lines(
            [
                "E   *ReplayDivergence: Step pay is asked something else than in the golden run",
                f"E *  in {GOLDEN}:6, execution test_it-test_it, step pay",
                "E *  input: recorded 500, today 50000",
                "E *pytest test_it.py::test_it --loom-update*",
            ]
        )
        assert [line for line in golden.result.outlines if "/pytest_loom/" in line] == []
        assert effects(golden) == []

    def test_accepting_it_records_anew(self, golden: Desk) -> None:
        """Under the flag the flow runs live again, and the golden keeps its execution id."""
        first = json.loads((golden.path / GOLDEN).read_text().splitlines()[0])
        change(golden, "ctx.run(pay, case.cents)", "ctx.run(pay, case.cents * 100)")
        write_test(golden, output="paid 50000")
        assert golden(UPDATE) == PASSED
        assert effects(golden) == ["assess", "pay 50000"]
        assert json.loads((golden.path / GOLDEN).read_text().splitlines()[0])["executionId"] == first["executionId"]
        assert golden() == PASSED

    def test_only_what_changed_is_another_line(self, golden: Desk) -> None:
        """Whoever reviews an accepted golden sees the change: times and ids of the rest are the old recording's."""
        before = (golden.path / GOLDEN).read_text().splitlines()
        change(golden, 'return {"paid": cents}', 'return {"paid": cents * 2}')
        write_test(golden, output="paid 1000")
        assert golden(UPDATE) == PASSED
        after = (golden.path / GOLDEN).read_text().splitlines()
        assert len(after) == len(before) == 8
        differing = [json.loads(new)["eventType"] for old, new in zip(before, after, strict=True) if old != new]
        assert differing == ["STEP_COMPLETED", "EXECUTION_COMPLETED"]
        assert golden() == PASSED

    def test_another_output_alone_fails(self, golden: Desk) -> None:
        """Every effect as before, and yet the run comes to something else."""
        change(golden, 'f"paid {', 'f"payed {')
        golden.write("test_it.py", HEAD + "def test_it(loom):\n    loom.record(desk.refund, desk.Case('c-1', 500))\n")
        assert golden() == FAILED
        golden.result.stdout.fnmatch_lines(
            ["*1 difference from the golden run*", "to accept the new run: pytest test_it.py::test_it --loom-update",
             '*output*"paid 500" -> "payed 500"*']
        )  # fmt: skip

    def test_another_input_of_the_test_fails(self, golden: Desk) -> None:
        """The golden answers one question; asked another it would prove nothing."""
        write_test(golden, cents=501, output="paid 501")
        assert golden() == FAILED
        golden.result.stdout.fnmatch_lines(
            [
                f"the test's input is not the one that golden log {GOLDEN} was recorded with",
                '*"cents":500*',
                '*"cents":501*',
            ]
        )

    def test_swallowing_the_divergence_does_not_help(self, golden: Desk) -> None:
        """``except Exception`` around an effect catches neither the divergence nor the failure of the test."""
        change(
            golden,
            "    return f\"paid {(await ctx.run(pay, case.cents))['paid']}\"",
            "    try:\n        await ctx.run(pay, 1)\n    except Exception:\n        pass\n    return 'paid 500'",
        )
        assert golden() == FAILED
        golden.result.stdout.fnmatch_lines(["*ReplayDivergence*"])

    def test_an_exception_of_todays_code_is_named_with_its_line(self, golden: Desk) -> None:
        """Not what the code did not come to, but why: the effects left over are only what follows."""
        change(golden, "    ctx.uuid(), ctx.now()\n", "    ctx.uuid(), ctx.now()\n    {}['name']\n")
        assert golden("--tb=short") == FAILED
        golden.result.stdout.fnmatch_lines(
            ["E *ReplayDivergence: today's code raised KeyError: 'name' (desk.py:*, in refund), and so did not come*"]
        )

    def test_a_failed_run_is_shown_beside_the_failed_assertion(self, app: Desk) -> None:
        """A missing output is what a test sees first of a run that failed; the report says why there is none."""
        allow_effects(app)
        change(app, '"low" if', 'int("x") if')
        write_test(app)
        assert app(UPDATE) == FAILED
        app.result.stdout.fnmatch_lines(
            ["*KeyError: '_output'*", "*pytest-loom*", "the run failed: ValueError: invalid literal for int()*",
             "today's code raised ValueError: invalid literal*(desk.py:*, in assess)"]
        )  # fmt: skip

    def test_a_renamed_gate_is_told_by_the_replay(self, app: Desk) -> None:
        """It is today's code that differs from the golden, not the test's answer."""
        allow_effects(app)
        write_test(app, cents=90000, output="paid 90000", more=", events=[('Approved', True)]")
        assert app(UPDATE) == PASSED
        change(app, '"Approved"', '"Granted"')
        assert app() == FAILED
        app.result.stdout.fnmatch_lines(
            ["*ReplayDivergence: today's code waits for Granted where the golden run had *"]
        )

    def test_an_ignored_input_may_differ(self, golden: Desk) -> None:
        """A path of the test's own folder is another one in every run."""
        write_test(golden, cents=501, output="paid 500", more=", ignore=['input.cents']")
        assert golden() == PASSED


class TestMarkerStyle:
    BODY = """
@pytest.mark.loom("logs/test_it/test_it.loom.jsonl")
def test_it(loom, loom_golden):
    candidate = loom.replay(loom_golden, desk.refund)
    assert diff_runs(loom_golden, candidate) == []
"""

    def test_replay_and_accept(self, golden: Desk) -> None:
        """``loom.replay`` gives the candidate; under the flag a changed flow is recorded from the golden's input."""
        golden.write("test_it.py", HEAD + self.BODY)
        assert golden() == PASSED
        change(golden, "ctx.run(pay, case.cents)", "ctx.run(pay, case.cents + 1)")
        assert golden() == FAILED
        assert effects(golden) == []
        assert golden(UPDATE) == PASSED
        assert effects(golden) == ["assess", "pay 501"]
        assert golden() == PASSED

    def test_a_golden_to_be_made_says_how(self, app: Desk) -> None:
        """There is no input to record it with, so the test has to give one."""
        app.write("test_it.py", HEAD + self.BODY)
        assert app(UPDATE) == FAILED
        app.result.stdout.fnmatch_lines(["*does not exist yet, so it has no _input*", "*loom.record(flow, input)*"])

    def test_the_markers_ignore_rules_count_for_arguments(self, golden: Desk) -> None:
        """What varies may vary, in ``loom.replay`` as in ``diff_runs``."""
        body = self.BODY.replace('.jsonl")', '.jsonl", ignore=["pay.input"])', 1)
        golden.write("test_it.py", HEAD + body)
        change(golden, "ctx.run(pay, case.cents)", "ctx.run(pay, case.cents + 1)")
        assert golden() == PASSED

    def test_a_fork_never_becomes_the_golden(self, golden: Desk) -> None:
        """ "What if" is a question; accepting its answer would replace what was recorded."""
        golden.write(
            "test_it.py",
            HEAD + "@pytest.mark.loom('logs/test_it/test_it.loom.jsonl')\ndef test_it(loom, loom_golden):\n"
            "    other = loom.resume(loom.fork(loom_golden, 3, answer='high'), desk.refund)\n"
            "    assert loom.diff(loom_golden, other) != []\n",
        )
        before = (golden.path / GOLDEN).read_bytes()
        assert golden(UPDATE) == PASSED
        assert (golden.path / GOLDEN).read_bytes() == before

    def test_two_tests_cannot_accept_one_golden_as_two_runs(self, golden: Desk) -> None:
        """The last one would win, and the first would be red from then on."""
        body = "def {}(loom):\n    loom.record(desk.refund, desk.Case('c-1', {}), path='logs/one.loom.jsonl')\n"
        golden.write("test_it.py", HEAD + body.format("test_a", 1) + body.format("test_b", 2))
        assert golden(UPDATE) == FAILED
        golden.result.stdout.fnmatch_lines(["*golden log logs/one.loom.jsonl was accepted as another run by *test_a*"])


class TestAsync:
    BODY = """
@pytest.mark.{marker}
async def test_it(loom):
    run = await loom.arecord(desk.refund, desk.Case("c-1", 90000), events=[("Approved", True)])
    assert run.state.variables["_output"] == "paid 90000"
    again = await loom.areplay(run, desk.refund)
    assert diff_runs(run, again, compare="all") == []
    more = await loom.aresume(await loom.afork(run, 5), desk.refund)
    assert more.state.status == "suspended"
"""

    @pytest.mark.parametrize(
        ("marker", "plugins"),
        [("asyncio", ("pytest_asyncio.plugin",)), ("anyio", ("anyio.pytest_plugin",))],
        ids=["pytest-asyncio", "anyio"],
    )
    def test_in_async_tests(self, app: Desk, marker: str, plugins: tuple[str, ...]) -> None:
        """The coroutine forms do the same on the test's own loop."""
        allow_effects(app)
        fixture = "\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n" if marker == "anyio" else ""
        app.write("test_it.py", HEAD + fixture + self.BODY.format(marker=marker))
        if marker == "asyncio":
            app.write("pytest.ini", "[pytest]\npythonpath = .\nasyncio_default_fixture_loop_scope = function\n")
        strict = ("-W", "error", "-W", "ignore:Unknown config option")  # older ones of pytest-asyncio
        assert app.apart(UPDATE, *strict, plugins=plugins) == PASSED
        assert effects(app) == ["assess", "pay 90000"]
        assert app.apart(*strict, plugins=plugins) == PASSED
        assert effects(app) == []


@pytest.fixture
def server() -> Iterator[int]:
    """A local service that says "hello" to whoever connects; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    peer.sendall(b"hello")

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


class TestLive:
    CALL = """
import socket
from pytest_loom import flow, step, Context

def ask():
    with socket.create_connection(("127.0.0.1", {port}), timeout=5) as peer:
        return peer.recv(100).decode()

@step
def greet() -> str:
    return ask()

@flow(id="greeting", steps=[greet])
async def greeting(ctx: Context) -> str:
    {body}
"""
    TEST = "def test_it(loom):\n    assert loom.record(desk.greeting).state.variables['_output'] == 'hello'\n"

    def test_recording_calls_out_only_with_the_flag(self, app: Desk, server: int) -> None:
        """Without --loom-live the recording is refused and nothing kept; replay needs no server."""
        app.write("desk.py", self.CALL.format(port=server, body="return await ctx.run(greet)"))
        app.write("test_it.py", HEAD + self.TEST)
        assert app(UPDATE) == FAILED
        app.result.stdout.fnmatch_lines(["*LiveCallError*127.0.0.1*", "*--loom-live*"])
        assert not (app.path / "logs").exists()
        assert app(UPDATE, "--loom-live") == PASSED
        change(app, f"{server}", "9")
        assert app() == PASSED

    def test_an_allowed_service_may_be_called(self, app: Desk, server: int) -> None:
        """loom_allow opens the guard for a local service."""
        app.write("pytest.ini", f"[pytest]\npythonpath = .\nloom_allow = 127.0.0.1:{server}\n")
        app.write("desk.py", self.CALL.format(port=server, body="return await ctx.run(greet)"))
        app.write("test_it.py", HEAD + self.TEST)
        assert app(UPDATE) == PASSED

    def test_what_is_no_effect_is_told_when_it_is_recorded(self, app: Desk, server: int) -> None:
        """Recorded with --loom-live it would call out in every replay: it is not kept, and the message says why."""
        body = "ask()\n    return await ctx.run(greet)"
        app.write("desk.py", self.CALL.format(port=server, body=body))
        app.write("test_it.py", HEAD + self.TEST)
        assert app(UPDATE, "--loom-live") == FAILED
        app.result.stdout.fnmatch_lines(
            ["the recording does not replay on the code that made it, so it is not kept*", "*ask tried to connect to *",
             "*Name it in loom_effects*"]
        )  # fmt: skip
        assert not (app.path / "logs").exists()

    def test_a_live_call_of_replay_is_noticed_though_it_is_swallowed(self, app: Desk, server: int) -> None:
        """Even with --loom-live: replay never calls out, and ``except Exception`` hides nothing."""
        body = "try:\n        ask()\n    except Exception:\n        pass\n    return await ctx.run(greet)"
        app.write("desk.py", self.CALL.format(port=server, body="return await ctx.run(greet)"))
        app.write("test_it.py", HEAD + self.TEST)
        assert app(UPDATE, "--loom-live") == PASSED
        app.write("desk.py", self.CALL.format(port=server, body=body))
        assert app("--loom-live") == FAILED
        app.result.stdout.fnmatch_lines(["*LiveCallError*127.0.0.1*"])


class TestNamedEffects:
    AGENT = """
import pathlib
from tools import search
EFFECTS = pathlib.Path(__file__).parent / "effects.txt"

def complete(prompt: str) -> str:
    from pytest_loom.flow.guard import opened
    with opened(), EFFECTS.open("a") as stream:
        stream.write("complete\\n")
    return f"answer to {prompt}"

def agent(question: str) -> str:
    return complete(f"{question}: {search(question)}")
"""

    def test_unmodified_code_is_recorded_by_name(self, app: Desk) -> None:
        """loom_effects names the functions; the agent itself knows nothing of pytest-loom."""
        app.write("pytest.ini", "[pytest]\npythonpath = .\nloom_effects =\n    desk:complete\n    tools:*\n")
        app.write("tools.py", "def search(query: str) -> list[str]:\n    return [query.upper()]\n")
        app.write("desk.py", self.AGENT)
        app.write("test_it.py", HEAD + "def test_it(loom):\n    loom.record(desk.agent, 'why')\n")
        assert app(UPDATE) == PASSED
        assert effects(app) == ["complete"]
        steps = [json.loads(line)["payload"].get("stepId") for line in (app.path / GOLDEN).read_text().splitlines()]
        assert steps == [None, "tools:search", "tools:search", "desk:complete", "desk:complete", None]
        assert app() == PASSED
        assert effects(app) == []
        change(app, "{question}: {", "{question}! {")
        assert app() == FAILED
        app.result.stdout.fnmatch_lines(["*ReplayDivergence*desk:complete*"])


class TestScrubbing:
    def test_defaults_setting_and_hook(self, app: Desk) -> None:
        """A key, a configured name and what a hook finds: none of them reaches the file, and replay matches still."""
        secret = "sk-" + "proj-" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6"
        app.write("pytest.ini", "[pytest]\npythonpath = .\nloom_scrub =\n    internal_ref\n    re:PIN-\\d+\n")
        app.write(
            "conftest.py",
            "def names(path, value):\n    return '<scrubbed:name>' if value == 'Ada Lovelace' else value\n\n"
            "def pytest_loom_scrub(config):\n    return [names]\n",
        )
        app.write(
            "desk.py",
            "from typing import Any\nfrom pytest_loom import flow, step, Context\n"
            "@step\ndef ask(question: dict[str, Any]) -> str:\n    return 'told ' + question['text']\n"
            "@flow(id='f', steps=[ask])\nasync def f(ctx: Context, key: str) -> str:\n"
            "    await ctx.run(ask, {'text': f'use {key} PIN-1234', 'internal_ref': 'x-77-y', 'who': 'Ada Lovelace'})\n"
            "    return 'done'\n",
        )
        app.write("test_it.py", HEAD + f"def test_it(loom):\n    loom.record(desk.f, {secret!r})\n")
        assert app(UPDATE) == PASSED
        text = (app.path / GOLDEN).read_text()
        assert [part for part in (secret, "PIN-1234", "x-77-y", "Ada Lovelace") if part in text] == []
        assert app() == PASSED


class TestHousekeeping:
    def test_unused_recordings_are_listed(self, golden: Desk) -> None:
        """A recording beside used ones that no test made is told, never deleted."""
        extra = golden.path / "logs/test_it/test_gone.loom.jsonl"
        extra.write_bytes((golden.path / GOLDEN).read_bytes())
        assert golden() == PASSED
        assert golden.section[1:] == [
            "1 golden log is used by no test (pytest-loom never deletes one):",
            "  logs/test_it/test_gone.loom.jsonl",
        ]
        assert extra.exists()

    def test_two_recordings_of_one_test_and_parameters(self, app: Desk) -> None:
        """Each call of a test, and each of its parameters, has a file of its own."""
        allow_effects(app)
        app.write(
            "test_it.py",
            HEAD + "@pytest.mark.parametrize('cents', [1, 2])\ndef test_it(loom, cents):\n"
            "    for extra in (0, 10):\n        loom.record(desk.refund, desk.Case('c', cents + extra))\n",
        )
        assert app(UPDATE) == PASSED
        assert [name for name in app.files() if name.startswith("logs/")] == [
            "logs/test_it/test_it-1-2.loom.jsonl",
            "logs/test_it/test_it-1.loom.jsonl",
            "logs/test_it/test_it-2-2.loom.jsonl",
            "logs/test_it/test_it-2.loom.jsonl",
        ]
        assert app() == PASSED

    def test_classes_do_not_share_a_file(self, app: Desk) -> None:
        """Two tests of one name in two classes are two tests."""
        allow_effects(app)
        body = "    def test_it(self, loom):\n        loom.record(desk.refund, desk.Case('c', {}))\n"
        app.write("test_it.py", f"{HEAD}class TestA:\n{body.format(1)}\nclass TestB:\n{body.format(2)}")
        assert app(UPDATE) == PASSED
        assert [name for name in app.files() if name.startswith("logs/")] == [
            "logs/test_it/TestA.test_it.loom.jsonl",
            "logs/test_it/TestB.test_it.loom.jsonl",
        ]
        assert app() == PASSED

    def test_a_recording_of_a_test_that_was_skipped_is_not_unused(self, golden: Desk) -> None:
        """A test that does not come to its recording today still has it."""
        golden.write("test_it.py", HEAD + "def test_it(loom):\n    pytest.skip('not today')\n")
        assert golden() == PASSED
        assert golden.section == []

    def test_a_golden_never_lies_among_snapshots(self, app: Desk) -> None:
        """syrupy deletes there what it does not know."""
        write_test(app, more=", path='__snapshots__/a.loom.jsonl'")
        assert app(UPDATE) == FAILED
        app.result.stdout.fnmatch_lines(["*lies in __snapshots__*"])

    @pytest.mark.parametrize("plugins", [("syrupy",), ("xdist.plugin",)], ids=["syrupy", "xdist"])
    def test_with_other_plugins_and_errors_for_warnings(self, app: Desk, plugins: tuple[str, ...]) -> None:
        """Recording and replay under syrupy's own flag, in workers, and with every warning an error."""
        allow_effects(app)
        write_test(app)
        flag = "--snapshot-update" if "syrupy" in plugins else UPDATE
        workers = ("-n", "2") if "xdist.plugin" in plugins else ()
        assert app.apart(flag, "-W", "error", *workers, plugins=plugins) == PASSED
        assert effects(app) == ["assess", "pay 500"]
        assert app.apart("-W", "error", *workers, plugins=plugins) == PASSED
        assert effects(app) == []

    def test_workers_record_what_one_process_records(self, app: Desk) -> None:
        """With ``-n 2`` and without, the goldens say the same but for ids and times."""
        from pytest_loom import load_log
        from pytest_loom.flow.normal import same_recording

        allow_effects(app)
        app.write(
            "test_it.py",
            HEAD + "@pytest.mark.parametrize('cents', [1, 2, 3, 4])\ndef test_it(loom, cents):\n"
            "    loom.record(desk.refund, desk.Case('c', cents))\n",
        )
        found: list[Any] = []
        for options, plugins in (((), ()), (("-n", "2"), ("xdist.plugin",))):
            assert app.apart(UPDATE, *options, plugins=plugins) == PASSED
            files = sorted((app.path / "logs").rglob("*.jsonl"))
            found.append([(path.name, load_log(path)) for path in files])
            for path in files:
                path.unlink()
        assert [name for name, _ in found[0]] == [name for name, _ in found[1]]
        assert len(found[0]) == 4
        assert all(same_recording(one, other) for (_, one), (_, other) in zip(*found, strict=True))


def test_resume_runs_live_under_the_guard(golden: Desk) -> None:
    """``loom.resume`` goes on from a recorded wait, ``loom.fork`` asks what another answer would have led to."""
    golden.write(
        "test_it.py",
        HEAD + "from pytest_loom import record\n"
        "def test_it(loom):\n"
        "    waiting = record(desk.refund, desk.Case('c', 90000))\n"
        "    assert waiting.state.status == 'suspended'\n"
        "    assert loom.resume(waiting, desk.refund, event='Approved', payload=True).state.status == 'completed'\n"
        "    paid = loom.resume(waiting, desk.refund, event='Approved', payload=True)\n"
        "    resumed = next(e.sequence for e in paid if e.event_type == 'EXECUTION_RESUMED')\n"
        "    declined = loom.resume(loom.fork(paid, resumed, answer=False), desk.refund)\n"
        "    assert declined.state.variables['_output'] == 'declined'\n",
    )
    assert golden() == PASSED
