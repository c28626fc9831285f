"""What each finding code means, in a sentence about the run, and in short what to do: for forms that list rules.

The README's table of codes says the same, word for word; a test holds the two together.
"""

from __future__ import annotations

from functools import cache

from pytest_loom.deploy.report import BREAKING, WARNING

NOT_JUDGED = "not-judged"
"""The code under which forms that know only findings say that runs were not judged; no finding has it."""

CODES: dict[str, tuple[str, str]] = {
    "flow-missing": (
        "belongs to a flow that today's code does not have: nothing will pick it up",
        "keep the flow, or its id",
    ),
    "step-removed": (
        "has run a step that today's flow does not have: its result is lost, the work would be done again",
        "keep the step's id",
    ),
    "frontier-missing": ("stands at a point that today's code never comes to", "keep that point, or fork before it"),
    "gate-removed": (
        "waits for an event that today's flow does not wait for: the answer would reach nobody",
        "keep the gate",
    ),
    "gate-changed": (
        "waits for an answer that today's gate would refuse or misread",
        "let the gate read the old shape too",
    ),
    "answer-misrouted": (
        "waits at one gate where today's code waits at another (as a warning: asks another question)",
        "keep their order, or ask again",
    ),
    "input-contract": (
        "has an input that today's flow cannot read, or would lose a part of",
        "resume_as with a transform_state",
    ),
    "output-contract": (
        "has a step's result that today's flow cannot read, or would lose a part of",
        "read the old name too, or upcast",
    ),
    "state-key-lost": (
        "has saved a state in which today's code would not find a key",
        "raise the state's version, and migrate",
    ),
    "state-type": (
        "has saved a state in which today's code finds another type",
        "raise the state's version, and migrate",
    ),
    "tool-missing": ("has a pending call of a tool that is gone", "keep the tool, or ask again"),
    "tool-args": (
        "has a pending call that is not today's: an argument would be lost, read otherwise or be missing (as a warning:"
        " one is new, with a default)",
        "ask again",
    ),
    "approval-stale": (
        'has a pending call of a tool that may do more today or means something else, or an "always" for what it did'
        " not cover",
        "ask again",
    ),
    "approval-bypassed": ("waits for an approval of what today's code does without one", "put the gate back"),
    "effect-repeated": (
        "would do something twice: an idempotency key is derived otherwise, or code reaches out without an effect",
        "keep the key, make it a step",
    ),
    "reducer-changed": (
        "has saved a value that writes were added to, and today they replace it, or the other way round",
        "keep the reducer, or use a new key",
    ),
    "join-broken": (
        "has steps that arrived at a join which today's graph has not, or waits at one that can never be complete",
        "keep the join's sources, names and order",
    ),
    "replay-diverged": (
        "is unfinished, and today's @flow asks something else than it did up to now: a resume is refused",
        "keep what has run as it is, or fork",
    ),
    "schema-unknown": (
        "has a log, an event or a state of a version that today's code does not know; nothing is guessed",
        "let the code that wrote it go on",
    ),
    "upcast-missing": (
        "has an event of an older version that no chain of @upcaster functions leads to today's",
        "register the missing one",
    ),
    "migration-missing": (
        "has a state, a plan or an unapproved call of an older version without a chain of @migration functions",
        "register the missing one",
    ),
    "log-unreadable": ("cannot be read, so nobody can tell; other runs are judged all the same", "restore the log"),
    "suspended-carryover": ("waits, and will be resumed by today's code", "look whether that still makes sense"),
    "step-inserted": ("has passed a point where today's code does a new step", "put the step behind the wait"),
    "contract-drift": (
        "says it is on today's version, and today's contract is another one",
        "raise the version that is named",
    ),
    "contract-unknown": ("was started on a contract that was not captured", "capture with each deploy"),
    "flow-ambiguous": (
        "does not say to which of today's flows it belongs; breaking is only what would break with each",
        "name the flow in loom_flows",
    ),
}
"""By code: what is the matter with the run (the sentence goes on from "the run"), and what to do."""


def about(code: str) -> str:
    """One sentence about a code: "The run has …"; of a check of one's own that it is one."""
    return f"The run {CODES[code][0]}." if code in CODES else "A check of this project found it."


def remedy(code: str) -> str:
    """What to do about a code, in short; "" for one of a check of one's own."""
    words = CODES[code][1] if code in CODES else ""
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def known_codes() -> list[str]:
    """Every code that pytest-loom itself can find, in alphabetical order."""
    return sorted({*BREAKING, *WARNING})


def help_uri(code: str) -> str | None:
    """The page about a code; None for one of a check of one's own, or where the package names no documentation."""
    site = _site()
    return f"{site.rstrip('/')}/codes/{code}/" if site and code in CODES else None


@cache
def _site() -> str:
    """The address that the installed package's metadata gives for its documentation."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        links = metadata("pytest-loom").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from a source tree
        return ""
    return next((link.partition(", ")[2] for link in links if link.startswith("Documentation, ")), "")
