"""``loom.record`` and ``loom.replay``: record once, replay from then on, and re-record only when asked to.

A recording is made under ``--snapshot-update`` alone, with live calls under ``--loom-live`` alone, and kept only if it
replays on the code that made it and the test that made it passed.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_loom.errors import LiveCallError, LoomError, ReplayDivergence, printable
from pytest_loom.evals.values import MISSING
from pytest_loom.plugin.goldens import (
    USED,
    GoldenRef,
    NotThereYet,
    default_folder,
    default_name,
    diff_rules,
    keep_log,
    load_golden,
    marker_refs,
)
from pytest_loom.plugin.options import SETTINGS, accept_command, accepting, failing, shown

if TYPE_CHECKING:
    from pytest_loom.evals.difference import Differences
    from pytest_loom.flow.definition import Flow
    from pytest_loom.flow.recorder import Scrubs
    from pytest_loom.log.event import Log
    from pytest_loom.plugin.pending import Pending

_SCRUB = pytest.StashKey[Any]()
COUNT = pytest.StashKey[int]()


class Recording:
    """One call of ``loom.record``: whether it replays a golden or makes one, and what becomes of the result."""

    def __init__(
        self,
        request: pytest.FixtureRequest,
        flow: Any,
        input: Any,
        path: str | os.PathLike[str] | None,
        events: Iterable[tuple[str, Any]],
        ignore: Iterable[str],
    ) -> None:
        from pytest_loom.flow.definition import flow_of

        self.request = request
        self.config = request.config
        self.flow: Flow[..., Any] = flow_of(flow)
        self.input = input
        self.events = list(events)
        self.marker = request.node.get_closest_marker("loom")
        self.rules = {"compare": "all", **(diff_rules(self.marker) if self.marker is not None else {})}
        self.ignore = [*self.rules.get("ignore", ()), *ignore]
        self.ref = _golden_ref(request, self.marker, path)
        self.name = shown(self.ref.path, self.config.invocation_params.dir)
        self.config.stash.setdefault(USED, set()).add(self.ref.path)
        self.update = accepting(self.config, self.ref.path)
        self.golden: Log | None = None
        self.pending: Pending | None = None
        if self.ref.path.exists() or not self.update:
            rules = {**self.rules, "ignore": self.ignore}
            self.golden = load_golden(request, self.ref, update=False, rules=rules)
        self.accept = _accept(request, self.golden)

    def to_replay(self) -> Log | None:
        """The golden to replay; None where one is to be made.

        Fails where the test asks something else than what the golden was asked.
        """
        if self.golden is None or self.update:
            return None
        from pytest_loom.plugin.pending import Pending

        self.pending = Pending(self.request, self.ref, self.golden)
        self._check_question()
        return self.golden

    def _check_question(self) -> None:
        from pytest_loom.flow.api import gate_data
        from pytest_loom.flow.history import History
        from pytest_loom.flow.inputs import given
        from pytest_loom.flow.recorder import without_secrets

        assert self.golden is not None
        recorded = History(self.golden).raw_input
        today = without_secrets(scrubber(self.config), given(self.flow, self.input)[2], "input")
        if not _same_json(recorded, today) and not self._input_is_ignored(recorded, today):
            pytest.fail(
                f"the test's input is not the one that golden log {self.name} was recorded with\n"
                f"  recorded: {printable(recorded.decode(), 300)}\n  today:    {printable(today.decode(), 300)}\n"
                f"  To record the test's: {self.accept}",
                pytrace=False,
            )
        answers = answers_of(self.golden)
        try:
            given_answers = [
                (event, {"on": None} if event == "TIMEOUT" else gate_data(self.flow, event, payload))
                for event, payload in self.events
            ]
        except LoomError:  # a gate that today's flow does not have: replay will say more
            return
        if self.events and not _same_answers(answers, given_answers, scrubber(self.config)):
            pytest.fail(
                f"the test does not answer as golden log {self.name} was answered\n"
                f"  recorded: {_said(answers)}\n  today:    {_said(given_answers)}\n"
                f"  To record the test's: {self.accept}",
                pytrace=False,
            )

    def _input_is_ignored(self, recorded: bytes, today: bytes) -> bool:
        """Whether the two differ only in what ignore=["input…"] leaves out."""
        from pytest_loom.evals.paths import Rules
        from pytest_loom.evals.values import agree

        rules = Rules(self.ignore)
        node = rules.start.next("input") if rules.start is not None else None
        if node is None or not recorded or not today:
            return False
        return node.ignored or agree(msgspec.json.decode(recorded), msgspec.json.decode(today), rules, node)

    def replayed(self, candidate: Log) -> Log:
        """The golden was replayed: fail where the run came out differently."""
        assert self.golden is not None
        tell_failure(self.request, candidate)
        differences = self.differences(self.golden, candidate)
        if differences:
            from pytest_loom.evals.explain import explain

            if self.pending is not None:
                self.pending.differs(candidate, {**self.rules, "ignore": self.ignore})
            raise failing("\n".join(explain(differences, accept=self.accept)))
        return candidate

    @contextlib.contextmanager
    def baseline(self) -> Iterator[None]:
        """Replay a new recording on the code that made it: where that fails, it is not kept, and this says why."""
        try:
            yield
        except (ReplayDivergence, LiveCallError) as error:
            if isinstance(error, LiveCallError):
                error.what = error.what.replace(
                    "during replay", "and is not recorded, so that a replay would do it too"
                )
                error.hint = "Name it in loom_effects (module:function), or make it a @step of a @flow."
            else:
                error.hint = error.hint.partition("If it differs on every run")[2].join(
                    ["If it differs on every run", ""]
                )
            raise failing(
                f"the recording does not replay on the code that made it, so it is not kept.\n{error}"
            ) from None

    def recorded(self, log: Log, again: Log) -> Log:
        """A new recording was made, and replayed on the code that made it: keep it when the test passes."""
        tell_failure(self.request, log)
        from pytest_loom.evals.diff import diff_runs
        from pytest_loom.flow.normal import same_recording

        harness = diff_runs(log, again, compare="all", ignore=self.ignore)
        if harness:
            from pytest_loom.evals.explain import explain

            lines = "\n".join(explain(harness))
            raise failing(
                "the recording does not replay on the code that made it, so it is not kept: the flow does something"
                f" from outside that does not go through its Context, or is no effect.\n{lines}"
            )
        if self.golden is None or not same_recording(self.golden, log):
            name = f"{self.ref.path.parent.name}-{self.ref.path.name.partition('.')[0]}"
            self.request.addfinalizer(lambda: keep_log(self.request, self.ref, self.golden, log, name))
        return log

    def differences(self, golden: Log, candidate: Log) -> Differences:
        """What the candidate does differently, under the marker's rules."""
        from pytest_loom.evals.diff import diff_runs

        return diff_runs(golden, candidate, **{**self.rules, "ignore": self.ignore})


@contextlib.contextmanager
def telling(request: pytest.FixtureRequest, golden: Log | None = None) -> Iterator[None]:
    """Let a divergence name the command that accepts today's behaviour."""
    try:
        yield
    except ReplayDivergence as error:
        error.hint = error.hint.replace("pytest --snapshot-update", _accept(request, golden))
        raise


def _accept(request: pytest.FixtureRequest, golden: Log | None) -> str:
    """The command that accepts; it has to let a model be asked where the golden holds answers of one."""
    live = golden is not None and any(event.event_type == "MODEL_REQUESTED" for event in golden.events)
    return accept_command(request.config, request.node.nodeid) + (" --loom-live" if live else "")


def tell_failure(request: pytest.FixtureRequest, log: Log) -> None:
    """Where a test fails, say that its run had failed, and how: what the test asserts need not show it."""
    if log.state.status == "failed":
        error = log.state.variables.get("_error") or {}
        lines = [f"the run failed: {error.get('type')}: {error.get('message')}", *log.notices]
        request.node.add_report_section("call", "pytest-loom", "\n".join(printable(line, 500) for line in lines))


@contextlib.contextmanager
def guarded(request: pytest.FixtureRequest, allow: Iterable[str]) -> Iterator[None]:
    """Live code may not call out, unless ``--loom-live`` says so; a call that the code swallowed counts too."""
    if request.config.getoption("loom_live"):
        yield
        return
    from pytest_loom.flow.guard import closed
    from pytest_loom.flow.perform import current_step

    def step() -> str:
        info = current_step()
        return info.key if info is not None else ""

    command = accept_command(request.config, request.node.nodeid) if request.config.stash[SETTINGS].update else "pytest"
    with closed(
        allow=[*allowed(request.config), *allow],
        writable=writable(request),
        step=step,
        during="while its run is live",
        hint=f"Let the effects of a run call out with --loom-live{{otherwise}}: {command} --loom-live",
    ) as guard:
        try:
            yield
        finally:
            if guard.calls:
                raise guard.calls[0].with_traceback(None) from None


def allowed(config: pytest.Config) -> list[str]:
    """Local services that code under test may reach (ini loom_allow)."""
    return [str(line).strip() for line in config.getini("loom_allow") if str(line).strip()]


def writable(request: pytest.FixtureRequest) -> list[Path]:
    """The test's own folder, where it has one."""
    return [request.getfixturevalue("tmp_path")] if "tmp_path" in request.fixturenames else []


def effects(config: pytest.Config) -> list[str]:
    """The functions that are recorded by name (ini loom_effects)."""
    return [str(line).strip() for line in config.getini("loom_effects") if str(line).strip()]


def scrubber(config: pytest.Config) -> Scrubs:
    """What takes secrets out: the defaults, ini loom_scrub and the hook pytest_loom_scrub."""
    found = config.stash.get(_SCRUB, None)
    if found is None:
        from pytest_loom.log.scrub import scrubber_of

        answers = config.hook.pytest_loom_scrub(config=config)
        try:
            found = scrubber_of(map(str, config.getini("loom_scrub")), [hook for answer in answers for hook in answer])
        except (re.error, ValueError) as problem:
            raise failing(f"loom_scrub: {problem}") from None
        config.stash[_SCRUB] = found
    return found


def answers_of(log: Log) -> list[tuple[str, Any]]:
    """What came through the gates of a recorded run, in order: ``(event, payload)``."""
    return [
        (str(payload.get("eventType")), payload.get("payload"))
        for event in log.events
        if event.event_type == "EXECUTION_RESUMED"
        for payload in [event.payload]
        if payload.get("eventType") is not None
    ]


def recorded_question(log: Log) -> tuple[Any, list[tuple[str, Any]]]:
    """The input of a golden and the answers that it got, to record it anew. Raises LoomError for one to be made."""
    variables = log.state.variables
    if isinstance(variables, NotThereYet):
        variables["_input"]  # says how the first one is made
    return variables.get("_input", MISSING), answers_of(log)


def _golden_ref(
    request: pytest.FixtureRequest, marker: pytest.Mark | None, path: str | os.PathLike[str] | None
) -> GoldenRef:
    """The golden of a ``loom.record`` call: the path it gives, the marker's, or one named after the test."""
    if path is not None:
        ref = GoldenRef(Path(os.path.abspath(request.config.stash[SETTINGS].base / path)))
    elif marker is not None and marker.args:
        refs = marker_refs(request, marker)
        if len(refs) != 1:
            pytest.fail(f"loom.record needs one golden, and the marker names {len(refs)}: give path=…", pytrace=False)
        ref = refs[0]
    else:
        count = request.node.stash.get(COUNT, 0) + 1
        request.node.stash[COUNT] = count
        name = default_name(request.node.nodeid) + (f"-{count}" if count > 1 else "")
        ref = GoldenRef(default_folder(request.path) / f"{name}.loom.jsonl")
    if "__snapshots__" in ref.path.parts:
        pytest.fail(
            f"golden log {ref.path} lies in __snapshots__, where syrupy deletes what it does not know: move it",
            pytrace=False,
        )
    return ref


def _same_answers(recorded: list[tuple[str, Any]], today: list[tuple[str, Any]], scrub: Scrubs) -> bool:
    if [event for event, _ in recorded] != [event for event, _ in today]:
        return False
    pairs = zip(recorded, today, strict=True)
    return all(
        event == "TIMEOUT" or _same_json(msgspec.json.encode(was), scrub.raw(msgspec.json.encode(now)))
        for (event, was), (_, now) in pairs
    )


def _said(answers: list[tuple[str, Any]]) -> str:
    """Answers on one line."""
    said = (event if event == "TIMEOUT" else f"{event} {msgspec.json.encode(data).decode()}" for event, data in answers)
    return printable(", ".join(said), 300) or "nothing"


def _same_json(one: bytes, other: bytes) -> bool:
    if one == other:
        return True
    if not one or not other:
        return (one or b"null") == (other or b"null")
    sort = msgspec.json.Encoder(order="sorted").encode
    return sort(msgspec.json.decode(one)) == sort(msgspec.json.decode(other))
