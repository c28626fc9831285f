"""Which entries of a transcript are the session: the rules by which the Agent SDK itself puts one together.

Entries point to the one before by ``parentUuid``; going back in a session, or editing a prompt, starts another branch.
The last message that nothing follows ends the session; ``logicalParentUuid`` is not followed, since after a compaction
its summary stands for what came before. An answer with several tool calls is an entry for each, and their results hang
on these, beside the branch that the session went on with: they are put back behind the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pytest_loom.sources.shape import Malformed, text

KINDS = frozenset({"user", "assistant", "progress", "system", "attachment"})
"""Types of entries that are links of the chain."""

_SAID = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a transcript."""

    line: int
    value: dict[str, Any]

    @property
    def kind(self) -> str:
        """Its type."""
        return text(self.value.get("type"))

    @property
    def uuid(self) -> str:
        """Its own id."""
        return text(self.value.get("uuid"))

    @property
    def parent(self) -> str:
        """The id of the entry before it; "" for the first."""
        return text(self.value.get("parentUuid"))

    @property
    def is_side(self) -> bool:
        """Whether a subagent wrote it."""
        return bool(self.value.get("isSidechain"))

    @property
    def is_apart(self) -> bool:
        """Whether it is none of the session's own messages: a subagent's, a teammate's, or one that nobody sees."""
        return self.is_side or bool(self.value.get("teamName")) or bool(self.value.get("isMeta"))

    @property
    def message(self) -> dict[str, Any]:
        """What was said, as the API has it; {} where nothing was."""
        found = self.value.get("message")
        return found if isinstance(found, dict) else {}

    @property
    def message_id(self) -> str:
        """Which answer of the model it is a part of; "" for what is none."""
        return text(self.message.get("id")) if self.kind == "assistant" else ""

    def blocks(self, kind: str) -> list[dict[str, Any]]:
        """The parts of its content that are of a kind."""
        content = self.message.get("content")
        parts = content if isinstance(content, list) else []
        return [part for part in parts if isinstance(part, dict) and part.get("type") == kind]


def session_of(entries: list[Entry]) -> list[Entry]:
    """The session's messages in order, of entries that have a ``uuid`` and a kind of KINDS. Raises Malformed."""
    known = {entry.uuid: entry for entry in entries}
    leaf = _leaf(list(known.values()), known)
    if leaf is None:
        raise Malformed("no message ends it: its entries follow each other in a circle, or it holds no message")
    chain = list(_back(leaf, known))
    chain.reverse()
    return [entry for entry in _with_parallel_calls(chain, entries) if entry.kind in _SAID]


def sidechains(entries: list[Entry]) -> dict[str, list[Entry]]:
    """The subagents' entries in a session's own file, each subagent's in order, by a name for it."""
    found: dict[str, list[Entry]] = {}
    roots: dict[str, str] = {}
    for entry in entries:
        if entry.is_side and entry.kind in _SAID:
            name = text(entry.value.get("agentId")) or roots.get(entry.parent) or f"sidechain-{len(found) + 1}"
            roots[entry.uuid] = name
            found.setdefault(name, []).append(entry)
    return found


def _leaf(entries: Iterable[Entry], known: dict[str, Entry]) -> Entry | None:
    """The last message that nothing but the CLI's own entries follows, one of the session's own if there is any."""
    followed = {entry.parent for entry in known.values()}
    places = {uuid: place for place, uuid in enumerate(known)}
    seen: set[str] = set()
    leaves: list[Entry] = []
    for terminal in entries:
        if terminal.uuid in followed:
            continue
        entry: Entry | None = terminal
        while entry is not None and entry.uuid not in seen:
            seen.add(entry.uuid)
            if entry.kind in _SAID:
                leaves.append(entry)
                break
            entry = known.get(entry.parent)
    own = [entry for entry in leaves if not entry.is_apart] or leaves
    return max(own, key=lambda entry: places[entry.uuid], default=None)


def _back(entry: Entry | None, known: dict[str, Entry]) -> Iterator[Entry]:
    seen: set[str] = set()
    while entry is not None and entry.uuid not in seen:
        seen.add(entry.uuid)
        yield entry
        entry = known.get(entry.parent)


def _with_parallel_calls(chain: list[Entry], entries: list[Entry]) -> list[Entry]:
    """The chain with the other parts of its answers, and the results of these, behind the last part that is on it."""
    on_chain = {entry.uuid for entry in chain}
    anchors = {entry.message_id: entry.uuid for entry in chain if entry.message_id}
    parts: dict[str, list[Entry]] = {}
    owners: dict[str, str] = {}  # entries and calls, by the answer that they are of
    for entry in entries:
        if entry.message_id in anchors:
            owners[entry.uuid] = entry.message_id
            owners.update((text(block.get("id")), entry.message_id) for block in entry.blocks("tool_use"))
            if entry.uuid not in on_chain:
                parts.setdefault(entry.message_id, []).append(entry)
                on_chain.add(entry.uuid)
    answered = {_answers(entry) for entry in chain}
    results: dict[str, list[Entry]] = {}
    for entry in entries:
        call = _answers(entry)
        owner = owners.get(entry.parent) or owners.get(call) if call else None
        if owner is not None and entry.uuid not in on_chain and call not in answered:
            results.setdefault(owner, []).append(entry)
            on_chain.add(entry.uuid)
            answered.add(call)
    behind = {
        anchor: [*_in_time(parts.get(one, [])), *_in_time(results.get(one, []))] for one, anchor in anchors.items()
    }
    return [entry for link in chain for entry in (link, *behind.get(link.uuid, ()))]


def _answers(entry: Entry) -> str:
    """The call whose result an entry is; "" where it is none."""
    found = entry.blocks("tool_result") if entry.kind == "user" else []
    return text(found[0].get("tool_use_id")) if found else ""


def _in_time(entries: list[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: text(entry.value.get("timestamp")))
