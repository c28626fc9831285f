"""The tool calls of a run on their way into its log: a model asks for one, something runs it, something answers.

Traces tell each of these in another place and leave some out, and models use an id again: here they become one call
with an id that is unique in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

MANY = 100
"""So many open calls to one tool are looked through for the one that has no id."""

NOTHING: Any = object()
"""Stands for arguments or an output that were not kept."""


@dataclass(eq=False)
class ToolCall:
    """One call: its id in the log and the one that it was given ("" for none), and how far it has come."""

    call_id: str
    given_id: str
    name: str
    args: Any
    started: bool = False
    status: str = "open"

    def facts(self) -> dict[str, Any]:
        """What TOOL_REQUESTED and a suspension's ``pending`` say of it."""
        said = {"callId": self.call_id, "name": self.name}
        return said if self.args is NOTHING else said | {"args": self.args}


class ToolCalls:
    """Writes TOOL_ events by ``add(event type, payload)``."""

    def __init__(self, add: Callable[[str, dict[str, Any]], object]) -> None:
        self.add = add
        self.used: dict[str, int] = {}
        self.given: dict[str, ToolCall] = {}  # the youngest call under each given id
        self.open: dict[str, dict[str, ToolCall]] = {}  # by name, oldest first
        self.count = self.without_args = 0

    def asked(self, given_id: str, name: str, args: Any = NOTHING, **facts: Any) -> ToolCall:
        """A model asked for a call; ``facts`` go into its event as well."""
        call = ToolCall(self.unique(given_id or f"call-{len(self.used) + 1}"), given_id, name, args)
        self.count += 1
        self.without_args += args is NOTHING
        if given_id:
            self.given[given_id] = call
        self.open.setdefault(name, {})[call.call_id] = call
        self.add("TOOL_REQUESTED", call.facts() | facts)
        return call

    def ran(self, given_id: str, name: str, args: Any = NOTHING, **facts: Any) -> ToolCall:
        """Something runs a call: the one that was asked for, tried again if it failed, else one that nobody told of."""
        call = self.given.get(given_id) if given_id else self.like(name, args)
        if call is None or call.name != name or call.status == "completed":
            call = self.asked(given_id, name, args, **facts)
        call.started = True
        return call

    def like(self, name: str, args: Any) -> ToolCall | None:
        """The oldest open call to a tool that nothing runs yet, with the same arguments where there is one."""
        waiting = [call for call in islice(self.open.get(name, {}).values(), MANY) if not call.started]
        return next((call for call in waiting if call.args == args), waiting[0] if waiting else None)

    def waiting(self, given_id: str, name: str) -> ToolCall | None:
        """The open call that an answer is for."""
        call = self.given.get(given_id) if given_id else next(iter(self.open.get(name, {}).values()), None)
        return call if call is not None and call.status == "open" else None

    def answered(self, call: ToolCall, output: Any = NOTHING) -> None:
        """A call gave something back."""
        said = {"callId": call.call_id, "name": call.name}
        self.add("TOOL_COMPLETED", said if output is NOTHING else said | {"output": output})
        self.over(call, "completed")

    def failed(self, call: ToolCall, error: dict[str, Any]) -> None:
        """A call failed with ``{"type", "message"}``."""
        self.add("TOOL_FAILED", {"callId": call.call_id, "name": call.name, "error": error})
        self.over(call, "failed")

    def over(self, call: ToolCall, status: str) -> None:
        """A call does not wait any longer."""
        call.status = status
        self.open.get(call.name, {}).pop(call.call_id, None)

    def all_open(self) -> Iterator[ToolCall]:
        """What waits, name by name."""
        for calls in self.open.values():
            yield from calls.values()

    def unique(self, wanted: str) -> str:
        """An id that no call of this log has yet."""
        count = self.used.get(wanted, 0)
        found = wanted if not count else f"{wanted}#{count + 1}"
        while found in self.used:
            count += 1
            found = f"{wanted}#{count + 1}"
        self.used[wanted] = count + 1
        self.used.setdefault(found, 1)
        return found
