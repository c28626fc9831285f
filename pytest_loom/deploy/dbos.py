"""Runs of DBOS beside today's workflow: what DBOS would make of them when today's code starts, said before it does.

DBOS runs a workflow again from its beginning and answers it with what is recorded under each number. Another name under
a number puts the run into the terminal status ERROR; a run of another application version, or one that waits for mail
that nobody sends any more, stays PENDING for ever, without a word. So today's workflow is replayed on each waiting run
by the DBOS that is installed (``sources/dbos/shadow.py``), in a process of its own, with no step run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pytest_loom.contract.model import Contract
from pytest_loom.deploy.dbos_values import misfits
from pytest_loom.deploy.report import Finding, finding
from pytest_loom.deploy.shadow import NoAnswer, shadow_of
from pytest_loom.errors import printable
from pytest_loom.log.event import Log
from pytest_loom.log.origin import origin_of
from pytest_loom.sources.dbos.contract import may_call, own_name, signature_of, topics_of
from pytest_loom.sources.dbos.mapping import event_name
from pytest_loom.sources.dbos.recorded import PATCH, TIMER, Record, recorded
from pytest_loom.sources.dbos.texts import can_say
from pytest_loom.sources.dbos.version import Application, application_of, is_computed

_SHADOW = "pytest_loom.sources.dbos.shadow:Shadow"
_KEPT = "let executors of the old code, under its application_version, finish these runs"


def replayed(log: Log, flow: Any, yesterday: Contract | None) -> Iterator[Finding]:
    """What DBOS would make of an unfinished run on today's workflow function."""
    if log.source != "dbos" or not log.state.in_flight or not hasattr(flow, "dbos_func_decorator_info"):
        return
    record = recorded(log)
    if record is None or own_name(flow) is None:
        return
    called = _uncallable(log, flow, record)
    if called is not None:
        yield called
        return
    stranded = _another_version(log, flow, record)
    tried = _too_often(log, flow, record)
    if stranded is None and tried is not None:
        yield tried
        return
    try:
        said = shadow_of(flow, {"record": record.as_dict()}, target=_SHADOW)
    except NoAnswer as problem:
        said = {"outcome": "untold", "why": str(problem)}
    found = [] if said is None else list(_found(log, flow, record, said, yesterday))
    if stranded is not None:
        yield _with_way_out(log, stranded, record, bool(found))
        return
    yield from found
    if not any(one.severity == "breaking" for one in found):
        yield from misfits(log, flow, record)


def _uncallable(log: Log, flow: Any, record: Record) -> Finding | None:
    """Today's function cannot be called with the recorded arguments."""
    signature = signature_of(flow)
    if signature is None:
        return None
    try:
        signature.bind(*record.args, **record.kwargs)
    except TypeError as problem:
        given = [*map(_kind, record.args), *(f"{name}={_kind(value)}" for name, value in record.kwargs.items())]
        started = printable(", ".join(given))
        return finding(
            log,
            "input-contract",
            f"was started as {_name(log)}({started}), and today's is {_name(log)}{printable(str(signature))}:"
            f" {printable(str(problem))}. DBOS calls it with what was recorded; the run ends in status ERROR.",
            f"Give what is new a default that old runs can live with, or {_KEPT}.",
        )
    return None


# Who picks the run up -----------------------------------------------------------------------------------------------


def _another_version(log: Log, flow: Any, record: Record) -> Finding | None:
    """The run is of an application version that today's code is not: DBOS leaves it where it is."""
    version = log.state.manifest.get("flowVersion")
    if not isinstance(version, str):
        return None
    name = record.facts.get("applicationName")
    today = application_of(flow, name if isinstance(name, str) else None)
    if today.upgrades or today.is_version(version) or not (today.version or today.computed):
        return None
    if today.version is None and not today.configured and not is_computed(version):
        return None  # it was set by what is not in sight here, and may well be still
    if today.version is None:
        computed = _computed(flow, today.name or name)
        if computed is None or version in computed:
            return None
    now = _version_of(today)
    return finding(
        log,
        "flow-missing",
        f"was started under application version {_said(version)}, and {now}. DBOS recovers, and takes from queues, only"
        f" runs of its own version: no executor of this deploy would pick it up. It stays"
        f" {printable(str(record.facts.get('status', 'PENDING')))}, and nothing says so.",
        "",
    )


def _computed(flow: Any, name: object) -> list[str] | None:
    """What DBOS computes once it is started: some versions of it count workflows that they register then.

    None where it cannot be started here.
    """
    try:
        said = shadow_of(flow, {"name": name}, target=_SHADOW)
    except NoAnswer:
        return None
    return None if said is None else list(said["computed"])


def _version_of(today: Application) -> str:
    if today.version:
        return f"today's is {_said(today.version)} ({printable(today.origin)})"
    return "today's, which DBOS computes from the source of all workflows and its own version, is another one"


def _with_way_out(log: Log, stranded: Finding, record: Record, is_broken: bool) -> Finding:
    """The finding with what to do: whether today's code could go on with the run is known by now."""
    old = stranded.version or ""
    last = max(record.operations, default=0) + 1
    if is_broken:
        way = (
            f"Today's code does not do what was recorded either, so do not pin it to that version: {_KEPT}"
            f' (application_version="{printable(old)}").'
        )
    else:
        way = (
            f'Today\'s code would go on with it. Deploy with application_version="{printable(old)}" in the DBOSConfig,'
            f" or {_KEPT}, or move the run, whose steps are kept:\n"
            f"{_forked(log, last)}\n"
            "A version that is set, and raised when it has to be, does not change with a comment."
        )
    return replace(stranded, hint=way)


def _too_often(log: Log, flow: Any, record: Record) -> Finding | None:
    """The next recovery is one too many for today's function."""
    limit = getattr(getattr(flow, "dbos_func_decorator_info", None), "max_recovery_attempts", None)
    tried = record.facts.get("recoveryAttempts")
    if not isinstance(limit, int) or not isinstance(tried, int) or tried <= limit:
        return None
    if record.facts.get("status") != "PENDING":
        return None
    return finding(
        log,
        "frontier-missing",
        f"was started or recovered {tried} times, and today's {_name(log)} allows {limit} recoveries: the next one,"
        " which comes with this deploy, puts it into status MAX_RECOVERY_ATTEMPTS_EXCEEDED, and nobody goes on.",
        "Find out why it is recovered so often, and raise max_recovery_attempts; or resume it by hand afterwards:\n"
        + _typed(log, "resume_workflow"),
    )


# What today's code does --------------------------------------------------------------------------------------------


def _found(log: Log, flow: Any, record: Record, said: dict[str, Any], yesterday: Contract | None) -> Iterator[Finding]:
    outcome = said.get("outcome")
    guess = next((one for one in said.get("guesses", []) if one["id"] == record.waits_at), None)
    if said.get("live"):
        yield _reaches_out(log, said)
    elif outcome == "refused":
        yield finding(
            log,
            "input-contract",
            f"today's {_name(log)} refuses the recorded arguments: {printable(str(said['error']), 300)}."
            " The run ends in status ERROR.",
            f"Let it take the old shape too, or {_KEPT}.",
        )
    elif guess is not None:
        yield _instead_of_wait(log, record, guess)
    elif outcome == "differs":
        yield _differs(log, flow, record, said)
    elif outcome == "raises":
        if not said.get("missed") and _left(record, said):
            yield _raises(log, record, said)
    elif outcome == "ends":
        if _left(record, said):
            yield _ends(log, record, said)
    elif outcome == "untold":
        yield _untold(log, said)
    else:
        yield from _mail(log, flow, record, said, yesterday)


def _differs(log: Log, flow: Any, record: Record, said: dict[str, Any]) -> Finding:
    """Another operation than the recorded one."""
    number, now, then = said["id"], printable(said["name"]), printable(said["recorded"])
    names = [operation["name"] for _, operation in sorted(record.operations.items())]
    what = f"{_described(then)} was recorded as operation {number}, and today's code asks for {_described(now)} there"
    gone = ""
    if said["recorded"].startswith(PATCH):
        patch = then.removeprefix(PATCH)
        way = (
            f'This run went through DBOS.patch("{patch}"). Keep it, or, once no run from before it is left,'
            f' DBOS.deprecate_patch("{patch}") in its place; take that away when no run has its mark.'
        )
    elif said["name"] in names and _is_step(said["recorded"]) and not may_call(flow, said["recorded"]):
        gone = f", and nowhere for {_described(then)} any more"
        way = (
            f"Keep {then} for runs that were begun with it, and leave it out of new ones:\n"
            f'  if not DBOS.patch("without-{_slug(then)}"):\n      {then}(…)'
        )
    elif said["name"] in names[number:] or not _is_new(said["name"], names):
        way = (
            f"Ask for {then} first, as before; or keep both orders:\n"
            f'  if DBOS.patch("{_slug(now)}-first"):\n      …  # the new order\n  else:\n      …  # the old one'
        )
    else:
        kept = f"If {now} is {then} under another name, keep the recorded one: {_renamed(then)}. If it is new, do it"
        way = (
            f"{kept if _is_step(said['recorded']) else 'Do it'} only in runs that come there later:\n"
            f'  if DBOS.patch("{_slug(now)}"):\n      {now}(…)'
        )
    return finding(
        log,
        "replay-diverged",
        f"{what}{_at(said)}{gone}: DBOS raises DBOSUnexpectedStepError, and the run ends in status ERROR.",
        f"{way}\nOr {_KEPT}. Or begin anew from there, which does again what comes after:\n{_forked(log, number)}",
        step=said["recorded"],
    )


def _instead_of_wait(log: Log, record: Record, guess: dict[str, Any]) -> Finding:
    """Something else where the run waits for mail: the timeout is recorded under the next number."""
    number, name = guess["id"], printable(guess["name"])
    patched = " (a patch has room for its mark there, since a wait leaves no row of its own)" if PATCH in name else ""
    return finding(
        log,
        "replay-diverged",
        f"waits as operation {number} for a message or an event, and today's code asks for {_described(name)}"
        f" there{_at(guess)}{patched}: it is run, and then what was recorded for the wait, {TIMER} as operation"
        f" {number + 1}, fits nothing that follows. DBOS raises DBOSUnexpectedStepError, and the run ends in status"
        " ERROR.",
        f"Do {name} after the wait, or {_KEPT}. Or begin anew from there:\n{_forked(log, number)}",
        step=guess["name"],
    )


def _raises(log: Log, record: Record, said: dict[str, Any]) -> Finding:
    left = ", ".join(printable(record.operations[number]["name"]) for number in _left(record, said)[:3])
    return finding(
        log,
        "replay-diverged",
        f"today's code raises {printable(str(said['error']), 300)}{_at(said)}, before it comes to what was recorded"
        f" ({left}): the run ends in status ERROR.",
        f"Let the code read what old runs recorded, or {_KEPT}.",
    )


def _ends(log: Log, record: Record, said: dict[str, Any]) -> Finding:
    left = _left(record, said)
    names = ", ".join(printable(record.operations[number]["name"]) for number in left[:3])
    if record.waits_at is not None and record.waits_at > said["last"]:
        return finding(
            log,
            "frontier-missing",
            f"waits as operation {record.waits_at} for a message or an event, and today's code comes to its end without"
            " waiting there: the run is SUCCESS at once, and what should have followed is not done.",
            f"Keep the wait, or {_KEPT}.",
        )
    return finding(
        log,
        "step-removed",
        f"today's code comes to its end after operation {said['last']}, and the record goes on with {names}: the run is"
        " SUCCESS at once, and whatever should have followed is not done.",
        f"Keep these steps, or {_KEPT}.",
        step=record.operations[left[0]]["name"],
    )


def _reaches_out(log: Log, said: dict[str, Any]) -> Finding:
    return finding(
        log,
        "effect-repeated",
        f"today's workflow does what is no step: {printable(str(said['live'][0]), 300)}. It is done again each time the"
        " run is recovered.",
        "Make it a step.",
    )


def _untold(log: Log, said: dict[str, Any]) -> Finding:
    why = said.get("why") or "its code looks into a value that the record does not hold as plain data"
    return finding(
        log,
        "replay-untold",
        f"today's code was followed up to operation {said.get('last', 0)} only: {printable(str(why), 300)}{_at(said)}.",
        "Resume a copy of it on a copy of the database before the deploy.",
        severity="info",
    )


def _mail(log: Log, flow: Any, record: Record, said: dict[str, Any], yesterday: Contract | None) -> Iterator[Finding]:
    """Messages that today's code never asks for: those that have come, and those that will."""
    topics, complete = topics_of(flow)
    then = None if yesterday is None or yesterday.gates is None else set(yesterday.gates)
    asked = {*topics, *said.get("topics", ())}
    is_receive = said.get("name") == "DBOS.recv" and said.get("outcome") == "waits"
    for topic in dict.fromkeys(letter["topic"] for letter in record.mail):
        if topic in asked or (then is not None and event_name(topic) not in then):
            continue
        if not topics if complete else not is_receive or _may_ask(flow, record, topic):
            continue
        waits = f"waits for {_topic(said.get('topic'))}{_at(said)}" if is_receive else "receives only on others"
        yield finding(
            log,
            "gate-removed",
            f"a message on {_topic(topic)} has come for it and is not read yet, and today's code never receives on that"
            f" topic: it {waits}. The message is never read, and the run stays PENDING.",
            f"Receive on {_topic(topic)} too, or send the message again on the topic that today's code waits for.",
            step=event_name(topic),
        )
        return
    if is_receive and then and said["id"] == record.waits_at and event_name(said.get("topic")) not in then:
        gates = " or ".join(printable(gate) for gate in sorted(then))
        yield finding(
            log,
            "gate-removed",
            f"waits for a message; when it was started its code waited for {gates}, and today's waits for"
            f" {_topic(said.get('topic'))}{_at(said)}: an answer to what was asked then would never be read.",
            f"Keep the topic, or have whoever answers send to {_topic(said.get('topic'))}.",
            step=event_name(said.get("topic")),
        )


def _may_ask(flow: Any, record: Record, topic: Any) -> bool:
    """Whether a topic that cannot be read off the receives may still be one that today's code comes to."""
    if topic is None or can_say(flow, topic):
        return True
    said = [record.args, record.kwargs, *(operation.get("output") for operation in record.operations.values())]
    return str(topic) in repr(said)


# Words --------------------------------------------------------------------------------------------------------------


def _left(record: Record, said: dict[str, Any]) -> list[int]:
    """What of the record today's code did not ask for."""
    return [number for number in record.later(said["last"]) if not _follows(record, number, said["last"])]


def _follows(record: Record, number: int, last: int) -> bool:
    """Whether it comes with the last operation that was asked for: the timeout of a wait that is over."""
    return number == last + 1 and record.is_timer_of_wait(number) and last in record.operations


def _kind(value: Any) -> str:
    """A recorded argument in one word. Its value may be anybody's data, and tells runs apart that have one cause."""
    if isinstance(value, dict) and isinstance(value.get("$type"), str):
        return str(value["$type"]).rpartition(".")[2]
    return "None" if value is None else type(value).__name__


def _forked(log: Log, number: int) -> str:
    return _typed(log, "fork_workflow", f", {number}, application_version=…")


def _typed(log: Log, call: str, more: str = "") -> str:
    """What to type for the run. An imported one has another id than its run in DBOS."""
    if origin_of(log):
        return f'  DBOS.{call}("WORKFLOW-ID"{more})\nWORKFLOW-ID is the run\'s own in DBOS: a golden has another.'
    return f'  DBOS.{call}("{printable(log.execution_id)}"{more})'


def _described(name: str) -> str:
    return f"step {name}" if _is_step(name) else name


def _is_step(name: str) -> bool:
    return not name.startswith("DBOS.")


def _is_new(name: str, names: list[str]) -> bool:
    return name not in names and _is_step(name)


def _renamed(name: str) -> str:
    return f'@DBOS.step(name="{name}")'


def _slug(name: str) -> str:
    return name.replace("DBOS.", "").replace("_", "-").replace(".", "-").lower()


def _at(said: dict[str, Any]) -> str:
    """Where in the workflow's code."""
    line = said.get("line")
    if not line:
        return ""
    path, _, number = str(line).rpartition(":")
    name = path.replace("\\", "/").rpartition("/")[2]
    return f" ({printable(name)}:{number})"


def _topic(topic: Any) -> str:
    return "the topic without a name" if topic is None else f"topic {printable(repr(topic))}"


def _said(version: str) -> str:
    return printable(version if len(version) <= 40 else f"{version[:37]}…")


def _name(log: Log) -> str:
    return printable(log.workflow_id)
