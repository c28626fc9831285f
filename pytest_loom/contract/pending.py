"""What an approval that was given, or asked for, under yesterday's tool means to today's.

The user approved exactly what was shown (seed 003: an approval is never mapped to a call that means something wider;
DESIGN section 5). So the arguments are bound to both tools: where both would run alike nothing is said; else the
approval has to be asked for again. Only a new argument whose default does something is a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pytest_loom.contract.binding import Fact, Path, bind, fails
from pytest_loom.contract.fingerprint import schema_digest
from pytest_loom.contract.nodes import Budget, Undecided, alike, canonical, node_of, read, shown_path
from pytest_loom.contract.schema import compare_schemas
from pytest_loom.errors import FlowError, printable

if TYPE_CHECKING:
    from pytest_loom.contract.model import ToolContract

_NOTHING = Fact("nothing")
_EMPTY = ("nothing", "absent", "null")


@dataclass(frozen=True)
class Problem:
    """One reason why an approval does not simply hold.

    ``path``: the argument (``item.lines[0].sku``), "" for the tool itself. ``kind``: ignored, removed, renamed,
    retyped, newly-required, narrowed, default-added, default-changed, newly-read, newly-accepted, undecided,
    permissions, version. ``verdict``: ``reapprove`` or ``warning``. ``detail``: one sentence, safe to print.
    """

    path: str
    kind: str
    verdict: Literal["reapprove", "warning"]
    detail: str


def pending_problems(old_tool: ToolContract, new_tool: ToolContract, args: Any) -> list[Problem]:
    """Why an approval of exactly ``args`` under ``old_tool`` does not hold for ``new_tool``; [] where it does.

    The rules are DESIGN section 5's: an argument that is lost, ignored, renamed, retyped or newly required, a value
    that is refused now, a permission that was not there, another version of the tool are ``reapprove``; a new argument
    with a default that does something is a ``warning``; one with a null or absent default, other words, another order,
    or a wider type that reads the value as before are nothing. What cannot be told is asked again.

    A part that either side leaves out (None) is not checked; without the old schema it is only checked that today's
    takes all of ``args``. Whether today's tool still asks for approval is not judged here: what an engine then does
    with the answer is its own (DESIGN section 5). OpenAI's strict mode writes ``x: str | None`` and
    ``x: str | None = None`` alike, so such a new argument is taken for a required one.

    ``args`` is JSON data. Never raises for what a log holds: a schema that cannot be followed gives ``undecided``.
    """
    found = tool_problems(old_tool, new_tool)
    old_schema, new_schema = old_tool.schema_, new_tool.schema_
    if new_schema is None:
        return found
    try:
        if old_schema is not None and schema_digest(old_schema, ordered=True) == schema_digest(
            new_schema, ordered=True
        ):
            return found
        new = bind(new_schema, args)
        old = None if old_schema is None else bind(old_schema, args)
    except (Undecided, FlowError, RecursionError) as problem:
        cause = "it is nested too deep" if isinstance(problem, RecursionError) else printable(str(problem))
        return [*found, Problem("", "undecided", "reapprove", f"it cannot be told what today's tool does: {cause}")]
    if old is not None and fails(old) and fails(new):
        return found  # it has no effect, and never had one
    compared = _unfit(new, args) if old is None else _compared(old, new, args)
    return found + _among_others(old_schema, new_schema, args, compared)


def _among_others(old_schema: Any, new_schema: Any, args: Any, found: list[Problem]) -> list[Problem]:
    """The problems, where an argument that was declared is only one of any others today, beside a new default."""
    if not isinstance(args, Mapping) or not any(problem.kind == "default-added" for problem in found):
        return found
    was, now = (_declared(schema) for schema in (old_schema, new_schema))
    lost = sorted(name for name in args if name in was and name not in now)
    if not lost or any(problem.path in lost for problem in found):
        return found
    new = next(problem for problem in found if problem.kind == "default-added")
    name, value = printable(lost[0]), _shown((lost[0],), args)
    detail = f"{name} was shown as {value}; today's tool has no such argument any more, and {new.detail}"
    return [Problem(name, "renamed", "reapprove", detail), *(one for one in found if one is not new)]


def _declared(schema: Any) -> Mapping[str, Any]:
    try:
        return {} if schema is None else read(node_of(schema), Budget()).properties
    except Undecided:
        return {}


def tool_problems(old_tool: ToolContract, new_tool: ToolContract) -> list[Problem]:
    """The problems of the tool itself, whatever its arguments: more permissions, another meaning-version."""
    found = []
    if old_tool.permissions is not None and new_tool.permissions is not None:
        gained = sorted(set(new_tool.permissions) - set(old_tool.permissions))
        if gained:
            names = ", ".join(printable(name) for name in gained)
            found.append(Problem("", "permissions", "reapprove", f"it may now also use {names}"))
    old, new = old_tool.version, new_tool.version
    if old is not None and new is not None and old != new:
        was, now = printable(repr(old)), printable(repr(new))
        found.append(
            Problem("", "version", "reapprove", f"its version was {was} and is {now}: it means something else now")
        )
    return found


def standing_problems(old_tool: ToolContract, new_tool: ToolContract) -> list[Problem]:
    """Why a sticky "always approve" given under ``old_tool`` does not hold for ``new_tool``; [] where it does.

    Such a grant approves every call to come, so whatever today's tool takes and the old one did not was never shown to
    anybody. A tool that only takes less (``narrowed``) needs no new grant.
    """
    found = tool_problems(old_tool, new_tool)
    if old_tool.schema_ is None or new_tool.schema_ is None:
        return found
    for change in compare_schemas(old_tool.schema_, new_tool.schema_):
        if change.kind != "narrowed":
            found.append(Problem(change.path, change.kind, "reapprove", change.detail))
    return found


def value_problems(old_schema: Any, new_schema: Any, value: Any) -> list[Problem]:
    """What today's schema would refuse of a recorded value, or lose because a key of it got another name; [] if none.

    A key that is merely no longer read is no problem: nothing of today's asks for it. Without the old schema (None) a
    new key is taken for the new name of a lost one where it looks like it. ``value`` is JSON data; never raises for it.
    """
    if new_schema is None or new_schema is True:
        return []
    try:
        if old_schema is not None and schema_digest(old_schema, ordered=True) == schema_digest(
            new_schema, ordered=True
        ):
            return []
        new = bind(new_schema, value)
        old = bind(True if old_schema is None else old_schema, value)
    except (Undecided, FlowError, RecursionError) as problem:
        cause = "it is nested too deep" if isinstance(problem, RecursionError) else printable(str(problem))
        return [Problem("", "undecided", "reapprove", f"it cannot be told what today's code reads of it: {cause}")]
    found = []
    for path, now in new.items():
        where, recorded = shown_path(path) or "it", _shown(path, value)
        if now.kind == "refused" and old.get(path, _NOTHING).kind != "refused":
            kind = {"missing": "newly-required", "limit": "narrowed", "enum": "narrowed"}.get(now.text, "retyped")
            what = "is required today" if now.text == "missing" else f"is {recorded}, and today {printable(now.note)}"
            found.append(Problem(shown_path(path), kind, "reapprove", f"{where} {what}"))
    for path, other in _renamed([path for path in new if new[path].kind == "ignored"], old, new).items():
        fate = new[other]
        if (
            fate.kind == "default"
            and alike(str(path[-1]), str(other[-1])) < 0.6
            and _is_of_another_kind(path, value, fate)
        ):
            continue
        then = f"be {printable(fate.text)}" if fate.kind == "default" else "be left out"
        then = "be missing" if fate.kind == "refused" else then
        detail = (
            f"{shown_path(path)} is {_shown(path, value)}, which today's type does not read; it has"
            f" {shown_path(other)} instead, which would {then}"
        )
        found = [problem for problem in found if problem.path != shown_path(other)]
        found.append(Problem(shown_path(path), "renamed", "reapprove", detail))
    return found


def _is_of_another_kind(path: Path, value: Any, fate: Fact) -> bool:
    """Whether a recorded value cannot be what a field with this default (as JSON) was called before."""
    shown = _shown(path, value)
    kinds = {"t": "boolean", "f": "boolean", '"': "text", "{": "object", "[": "array"}
    one, other = (kinds.get(text[:1], "number") for text in (shown, fate.text))
    return one != other and "null" not in (shown, fate.text)


def _unfit(new: Mapping[Path, Fact], args: Any) -> list[Problem]:
    """Without an old schema: what today's tool does not take as it was shown."""
    bad = {path: fact for path, fact in new.items() if fact.kind in ("refused", "ignored")}
    return [_problem(path, Fact("value"), fact, args, None) for path, fact in bad.items()]


def _compared(old: Mapping[Path, Fact], new: Mapping[Path, Fact], args: Any) -> list[Problem]:
    moved = [
        path
        for path in {**old, **new}
        if old.get(path, _NOTHING).same_as != new.get(path, _NOTHING).same_as and not _harmless(path, old, new)
    ]
    renamed = _renamed(moved, old, new)
    found: list[Problem] = []
    reported: set[Path] = set()
    for path in moved:
        if path in renamed.values() or any(path[:length] in reported for length in range(len(path))):
            continue
        was, now = old.get(path, _NOTHING), new.get(path, _NOTHING)
        reported.add(path)
        found.append(_problem(path, was, now, args, renamed.get(path), new))
    return found


def _harmless(path: Path, old: Mapping[Path, Fact], new: Mapping[Path, Fact]) -> bool:
    """Nothing, no default and a null default are the same: nothing that anybody would have to be shown."""
    return old.get(path, _NOTHING).kind in _EMPTY and new.get(path, _NOTHING).kind in _EMPTY


def _renamed(moved: list[Path], old: Mapping[Path, Fact], new: Mapping[Path, Fact]) -> dict[Path, Path]:
    """Which argument that is no longer taken looks like which that is new beside it."""
    lost = [path for path in moved if _is_lost(old.get(path, _NOTHING), new.get(path, _NOTHING))]
    found: dict[Path, Path] = {}
    if len(lost) > 100 or len(new) > 2000:
        return found  # another tool altogether
    for path in lost:
        fresh = [
            other
            for other in new
            if other not in old and other not in found.values() and len(other) == len(path) and other[:-1] == path[:-1]
        ]
        ranked = sorted(fresh, key=lambda other: -alike(str(path[-1]), str(other[-1])))
        if ranked and (alike(str(path[-1]), str(ranked[0][-1])) >= 0.5 or (len(lost) == 1 and len(fresh) == 1)):
            found[path] = ranked[0]
    return found


def _is_lost(was: Fact, now: Fact) -> bool:
    return was.kind == "value" and (now.kind == "ignored" or (now.kind, now.text) == ("refused", "forbidden"))


def _problem(
    path: Path, was: Fact, now: Fact, args: Any, renamed: Path | None, new: Mapping[Path, Fact] | None = None
) -> Problem:
    where, value = shown_path(path) or "the arguments", _shown(path, args)
    verdict: Literal["reapprove", "warning"] = "reapprove"
    if renamed is not None and new is not None:
        kind, fate = "renamed", new[renamed]
        other = shown_path(renamed)
        then = f"{other} would be {printable(fate.text)}" if fate.kind == "default" else f"{other} would be left out"
        then = f"the call would fail without {other}" if fate.kind == "refused" else then
        detail = f"{where} was shown as {value}; today's tool has {other} instead, and {then}"
    elif now.kind == "refused" and now.text == "missing":
        kind, detail = "newly-required", f"today's tool requires {where}, which nobody was shown: the call would fail"
    elif now.kind == "refused" and now.text == "forbidden":
        kind, detail = "removed", f"{where} was shown as {value}; today's tool refuses a call that names it"
    elif now.kind == "refused":
        kind = "narrowed" if now.text in ("limit", "enum") else "retyped"
        detail = f"{where} was shown as {value}; today's tool refuses it: it {printable(now.note)}"
    elif now.kind == "ignored":
        kind, detail = "ignored", f"{where} was shown as {value}; today's tool drops it and runs without it"
    elif "unread" in (was.kind, now.kind):
        said = printable(now.note or was.note)
        kind, detail = "undecided", f"it cannot be told whether {where} still fits: the schema's {said} changed"
    elif was.kind == "refused":
        kind, detail = "newly-accepted", f"yesterday's tool refused {value} for {where}; today's would run with it"
    elif was.kind == "ignored":
        kind, detail = "newly-read", f"yesterday's tool dropped {where}; today's would run with {value}"
    elif was.kind == "value" and now.kind == "value":
        kind = "retyped"
        detail = (
            f"{where} was shown as {value}, read as {printable(was.text)}; today it is read as {printable(now.text)}"
        )
    elif was.kind in ("nothing", "absent") and now.kind == "default":
        kind, verdict = "default-added", "warning"
        detail = f"today's tool would run with {where} = {printable(now.text)}, which nobody was shown"
    elif "default" in (was.kind, now.kind):
        kind = "removed" if now.kind == "nothing" else "default-changed"
        before = printable(was.text) if was.kind == "default" else "nothing"
        after = printable(now.text) if now.kind == "default" else "nothing"
        detail = f"{where} is not in the call: it would have run with {before}, and would now run with {after}"
    else:
        kind, detail = "undecided", f"it cannot be told what becomes of {where}"
    return Problem(shown_path(path), kind, verdict, detail)


def _shown(path: Path, args: Any) -> str:
    value = args
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return "nothing"
    try:
        return printable(canonical(value), 80)
    except FlowError:
        return printable(repr(type(value)))
