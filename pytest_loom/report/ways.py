"""The ways out of a finding, each with what to paste: one table, by code and by the engine that resumes the run.

A message says what happened and what would happen, a hint what is best; this says how it is typed: in the code (patch,
migrate), for the run that waits (re-approve, fork), in a policy (pin), and in the list of what somebody accepts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from string import Template

from pytest_loom.deploy.facts import today_begins
from pytest_loom.deploy.report import BREAKING, Finding

_NAME = 100
"""Names of so many characters are pasted; longer ones are left out."""


@dataclass(frozen=True)
class Way:
    """One way out: its name (patch, migrate, re-approve, fork, pin, capture or accept), what it does, what to paste.

    ``language`` is that of ``code`` (python, toml or sh); ``said``: it is in the finding's hint already.
    """

    name: str
    what: str
    code: str
    language: str = "python"
    said: bool = False


ON_RESUME = {
    "flow-missing": "Nothing picks the run up: it stays where it is.",
    "step-removed": "The recorded result is not used, and the work is done a second time.",
    "frontier-missing": "The run does not go on from where it stands: the engine finds no such place.",
    "gate-removed": "The answer reaches nobody, and the run never goes on.",
    "gate-changed": "The answer is refused, or read as something else.",
    "answer-misrouted": "The answer is taken for that to another question.",
    "input-contract": "The code cannot read what the run was started with, or loses a part of it.",
    "output-contract": "The code cannot read a recorded result, or loses a part of it.",
    "state-key-lost": "The code does not find a key that was saved, or takes a default for it.",
    "state-type": "The code finds another type than it expects in the saved state.",
    "tool-missing": "The call that waits cannot be made: it fails, or is dropped without a word.",
    "tool-args": "Another call is made than the one that was shown, or it fails.",
    "approval-stale": "An approval is taken for more than what was shown.",
    "approval-bypassed": "It is done without the approval: a refusal comes too late.",
    "effect-repeated": "Something is done a second time.",
    "reducer-changed": "Saved and new values are put together in another way than before.",
    "join-broken": "The join is never complete, so that what comes after it never runs.",
    "replay-diverged": "The engine refuses to go on, or the run fails.",
    "schema-unknown": "Today's code would read by guessing what it does not know.",
    "upcast-missing": "An old event is read by guessing, or not at all.",
    "migration-missing": "Something saved is read by guessing, or not at all.",
    "log-unreadable": "Nobody can tell.",
}
"""What happens to the run where it is resumed by today's code all the same."""

_ALIAS = (
    "patch",
    "Let today's model read the old name too:",
    'new_name: str = Field(validation_alias=AliasChoices("new_name", "old_name"))  # pydantic',
)
_OPTIONAL = (
    "patch",
    "Give what is new a default that changes nothing for older runs:",
    "new_field: str | None = None",
)
_BOTH = (
    "patch",
    "Keep an old field beside the one that took its place:",
    'old_name: str = ""  # as recorded\nnew_name: str = ""',
)
_MIGRATE = (
    "migrate",
    "Carry what was saved over to today's shape, and raise the version:",
    'migration("state", from_version=1)(compose(rename("old", "new"), add("key", "value")))  # resume.helpers\n'
    '@flow(id=$flow, versions={"state": 2}, …)',
)
_KEEP_KEY = (
    "patch",
    "Keep the key until these runs are over:",
    "class State(TypedDict, total=False):\n    old_key: str",
)
_REJECT_OPENAI = (
    "re-approve",
    "Reject what waits, so that the model asks anew with today's arguments:",
    "state = await RunState.from_string(agent, saved)\n"
    "for item in state.get_interruptions():\n"
    "    state.reject(item)\n"
    "result = await Runner.run(agent, state)",
)
_DENY_PYDANTIC = (
    "re-approve",
    "Deny what waits, so that the model asks anew with today's arguments:",
    'results = DeferredToolResults(approvals={call_id: ToolDenied("Ask again.")})\n'
    "agent.run_sync(message_history=saved, deferred_tool_results=results)",
)
_STALE = {"openai-agents": [_REJECT_OPENAI], "pydantic_ai": [_DENY_PYDANTIC]}

_TABLE: dict[str, dict[str, list[tuple[str, str, str]]]] = {
    "flow-missing": {
        "native": [("patch", "Keep a flow of that id:", "@flow(id=$flow, …)")],
        "loom": [("patch", "Keep it among what loom_flows names:", "flows[$flow] = …")],
        "temporal": [("patch", "Keep a workflow of that name:", "@workflow.defn(name=$flow)")],
        "dbos": [("patch", "Keep a workflow of that name:", "@DBOS.workflow(name=$flow)")],
        "": [("patch", "Name it in what loom_flows names:", "flows[$flow] = …")],
    },
    "step-removed": {
        "native": [("patch", "Give the step its id back, whatever the function is called:", "@step(id=$step)")],
        "loom": [
            ("patch", "Keep the step's id, in the code and in its contract:", '"steps": {$step: {}, …}  # of $flow')
        ],
        "temporal": [("patch", "Keep an activity of that name:", "@activity.defn(name=$step)")],
        "dbos": [("patch", "Keep a step of that name:", "@DBOS.step(name=$step)")],
    },
    "frontier-missing": {
        "langgraph": [
            (
                "patch",
                "Keep a node of that name beside the new one, and the edges that led on from it; without one a run ends"
                " there, as if it were done:",
                "builder.add_node($last, …)\nbuilder.add_edge($last, …)",
            )
        ],
        "openai-agents": [("patch", "Keep an agent of that name within reach:", "Agent(name=$step, …)")],
    },
    "gate-removed": {
        "native": [("patch", "Keep waiting for it:", "@flow(id=$flow, gates={$step: …}, …)\nawait ctx.suspend($step)")],
        "loom": [("patch", "Keep the gate, in the code and in its contract:", '"gates": {$step: {}, …}  # of $flow')],
        "temporal": [("patch", "Keep a signal of that name:", "@workflow.signal(name=$step)")],
        "dbos": [("patch", "Keep waiting for it:", "DBOS.recv($step)")],
    },
    "gate-changed": {"native": [_ALIAS], "loom": [_ALIAS], "temporal": [_ALIAS], "dbos": [_ALIAS]},
    "input-contract": {
        "native": [
            (
                "migrate",
                "Take each waiting run over, with its input as it is today:",
                "resume_as(log, flow, transform_state=lambda old: {**old, …}, event=…, payload=…)",
            ),
            _OPTIONAL,
        ],
        "temporal": [_OPTIONAL, _BOTH],
        "": [_OPTIONAL],
    },
    "output-contract": {
        "native": [
            _ALIAS,
            (
                "migrate",
                "Raise what was recorded to today's shape on read:",
                '@upcaster("STEP_COMPLETED", from_version=1)\n'
                "def renamed(payload): return {**payload, …}  # where its stepId is $step",
            ),
        ],
        "": [_ALIAS],
    },
    "state-key-lost": {"native": [_MIGRATE], "loom": [_MIGRATE], "langgraph": [_KEEP_KEY]},
    "state-type": {"native": [_MIGRATE], "loom": [_MIGRATE], "langgraph": [_KEEP_KEY]},
    "tool-missing": {
        "native": [("patch", "Keep a tool of that name:", "@tool(name=$step)")],
        "langgraph": [("patch", "Keep a tool of that name:", "@tool($step)  # langchain_core.tools")],
        "openai-agents": [("patch", "Keep a tool of that name:", "@function_tool(name_override=$step)")],
        "pydantic_ai": [("patch", "Keep a tool of that name:", "Tool(…, name=$step)")],
    },
    "tool-args": _STALE,
    "approval-stale": _STALE,
    "approval-bypassed": {
        "native": [
            ("patch", "Ask again before it is done:", '@tool(approval=True)\nawait ctx.suspend($step, kind="approval")')
        ],
        "langgraph": [("patch", "Ask again before it is done:", "answer = interrupt(…)")],
        "openai-agents": [("patch", "Ask again before it is done:", "@function_tool(needs_approval=True)")],
        "pydantic_ai": [("patch", "Ask again before it is done:", "Tool(…, name=$step, requires_approval=True)")],
    },
    "effect-repeated": {"native": [("patch", "Make an effect of what reaches out, so that it is recorded:", "@step")]},
    "join-broken": {
        "langgraph": [
            (
                "patch",
                "Keep the join as it was, its sources in that order:",
                'builder.add_edge(["first", "second"], $last)',
            )
        ]
    },
    "replay-diverged": {
        "temporal": [
            (
                "patch",
                "Let runs from before go the old way:",
                'if workflow.patched("what-changed"):\n    …\nelse:\n    …',
            )
        ]
    },
    "upcast-missing": {
        "": [
            (
                "migrate",
                "Raise old events to today's version on read:",
                '@upcaster("TOOL_REQUESTED", from_version=1)  # its kind and version are in the message\n'
                "def to_2(payload): return {**payload, …}",
            )
        ]
    },
    "migration-missing": {
        "": [
            (
                "migrate",
                "Register what leads to today's version:",
                '@migration("state", from_version=1)  # what and which version are in the message\n'
                "def to_2(value): return {**value, …}",
            )
        ]
    },
}
"""By code and engine ("" for any other one): name, when, and the lines, in which $flow and $step are Python strings."""

CAPTURE = Way(
    "capture",
    "Keep the contracts of what is deployed (commit the files):",
    "python -m pytest --loom-deploy-sim --snapshot-update -k deploy-sim",
    "sh",
)

_OF_HINTS = {
    "re-approve": "Ask again, with the call as it is today, in a fork of the run:",
    "migrate": "Take the run over, with its input as it is today:",
    "fork": "Let a person confirm that the run goes on differently, in a fork of it:",
}


def ways_of(found: Iterable[Finding]) -> tuple[Way, ...]:
    """The ways out of one cause, told from a finding of each engine that it is found in.

    First what a finding says itself, then what mends it, last how it is accepted; warnings need not be.
    """
    by_engine = {one.engine or "": _ways_of(one) for one in found}
    mends = [
        replace(way, what=f"{engine}: {way.what}") if len(by_engine) > 1 and way.name not in _ANY else way
        for engine, ways in by_engine.items()
        for way in ways
    ]
    unique = {(way.name, way.code): way for way in mends}
    return tuple(sorted(unique.values(), key=lambda way: way.name in _ANY))


_ANY = ("pin", "accept", "capture")
"""Ways that are the same in each engine."""


def _ways_of(found: Finding) -> tuple[Way, ...]:
    step = found.step or "…"
    names = {"flow": _quoted(found.workflow_id), "step": _quoted(step), "last": _quoted(step.rpartition("/")[2])}
    by_engine = _TABLE.get(found.code, {}) if max(map(len, names.values())) <= _NAME else {}
    rows = by_engine.get(found.engine or "", by_engine.get("", []))
    ways = [Way(name, what, Template(code).substitute(names)) for name, what, code in rows]
    own = _of_hint(found)
    ways = [*own, *(way for way in ways if all(way.name != one.name for one in own))]
    if found.code == "contract-unknown":
        ways.append(CAPTURE)
    if found.severity == "breaking":
        ways += [way for way in (_pin(found), acceptance(found.code, found.workflow_id, found.step)) if way is not None]
    return tuple(ways)


def _of_hint(found: Finding) -> list[Way]:
    """What the finding itself says to type for this run, each with its own lines; it knows the place in the log."""
    verdict = BREAKING.get(found.code, "fork")
    name = "re-approve" if verdict == "reapprove" else "migrate" if found.code == "input-contract" else "fork"
    pieces = list(_pieces(found.hint))
    ways = []
    for said, typed in pieces:
        is_patch = "patch" in typed
        last = said.rpartition(". ")[2].removeprefix("Or ")
        what = f"{last[:1].upper()}{last[1:]}" if last and (is_patch or len(pieces) > 1) else _OF_HINTS[name]
        ways.append(Way("patch" if is_patch else name, what, typed, said=True))
    return ways


def _pieces(hint: str) -> Iterator[tuple[str, str]]:
    """What a hint says before lines that are to be copied, and those."""
    said = ""
    for is_typed, lines in groupby(hint.splitlines(), lambda line: line.startswith(" ") or not line):
        listed = list(lines)
        if not is_typed:
            said = " ".join(listed)
            continue
        typed = [line for line in listed if line]
        if len(typed) > 1 and typed[0].rstrip().endswith(":") and not typed[0].lstrip().startswith(_BLOCKS):
            said = typed.pop(0).strip()
        if typed:
            blanks = min(len(line) - len(line.lstrip()) for line in typed)
            yield said, "\n".join(line[blanks:].rstrip() for line in typed)


_BLOCKS = ("def ", "async ", "if ")
"""How a line of code begins that ends with a colon: any other such line is a sentence before the code."""


def _pin(found: Finding) -> Way | None:
    """A kept worker, where the run says which version it is on."""
    if found.version is None or found.code in ("log-unreadable", "contract-drift") or not found.workflow_id:
        return None
    lines = ["[[worker]]", f"flow = {toml(found.workflow_id)}", f"version = {toml(found.version)}"]
    what = "Keep a worker of that version, and name it in the file of loom_policy:"
    if (found.today or "").startswith(today_begins(found.workflow_id, found.version)):
        what = "Raise today's version first, which is still that of these runs. " + what
    return Way("pin", what, "\n".join(lines), "toml")


def acceptance(code: str, flow: str, step: str | None) -> Way | None:
    """The acknowledgement of a cause, without a date: whoever accepts it gives one. None where a name is too long."""
    if any(len(part or "") > _NAME for part in (code, flow, step)):
        return None
    named = {"code": code, "flow": flow or "*", "step": step}
    lines = ["[[ack]]", *(f"{key} = {toml(value)}" for key, value in named.items() if value)]
    lines += ['owner = "you@example.org"', 'reason = "why it may be"', "expires = YYYY-MM-DD"]
    return Way("accept", "Accept it until a day, in the file of loom_acks:", "\n".join(lines), "toml")


def _quoted(text: str) -> str:
    """A text as Python has it, in double quotes where it can be, on one line and without control characters."""
    shown = repr(text)
    is_plain = shown.startswith("'") and '"' not in text
    return '"' + shown[1:-1].replace("\\'", "'") + '"' if is_plain else shown


def toml(text: str) -> str:
    """A text as TOML has it, in quotes and on one line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{"".join(char if char.isprintable() else f"{chr(92)}U{ord(char):08x}" for char in escaped)}"'
