"""Telling a Temporal history from other JSON by the first bytes of the file."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_TOKEN = re.compile(rb'"((?:[^"\\]|\\.|\\\Z)*+)(?:"(\s*:)?|\Z)|[{}\[\]]', re.DOTALL)
"""A string (with the colon that makes it a key) or a bracket. Possessive and closed by the end, so it is one pass."""

_FIRST_EVENT = re.compile(
    rb'\s*+\{\s*+"events"\s*+:\s*+\[\s*+\{\s*+"eventId"\s*+:\s*+"1"\s*+,\s*+"eventTime"\s*+:\s*+"[^"]{20,40}+"'
    rb'\s*+,\s*+"eventType"\s*+:\s*+"(?:EVENT_TYPE_WORKFLOW_EXECUTION_STARTED|WorkflowExecutionStarted)"'
)
"""How nearly all of them begin. Cadence has numbers for ids and no eventTime, Amazon SWF has eventTimestamp."""

_EVENT_PLACES = frozenset({"[{", "{events[{", "{history{events[{", "[{events[{", "[{history{events[{"})
"""Where an event stands in each shape: the brackets that are open, with the keys of those that have one."""

_ATTRIBUTES = re.compile(rb"[a-z][A-Za-z]*EventAttributes|[a-z_]+_event_attributes")
_EVENT_TYPE = re.compile(rb'\s*"EVENT_TYPE_[A-Z_]+"')
_PAGE_KEYS = frozenset({"events", "history", "nextPageToken", "rawHistory", "archived"})
_SHORT = 1000


def looks_like_history(head: bytes) -> bool:
    """Whether ``head`` (the first 64 KiB, decompressed) begins a Temporal history, an empty one included.

    Looks at keys in the places where an event's keys can stand, so that a trace or a message that only quotes a history
    is not taken for one. Amazon SWF and Cadence name their events alike; they have task lists, not task queues.
    """
    head = head.removeprefix(b"\xef\xbb\xbf")
    if _FIRST_EVENT.match(head) is not None:
        return True
    if head[:100].lstrip()[:1] not in (b"{", b"[") and head.lstrip()[:1] not in (b"{", b"["):
        return False
    if b'"taskList"' in head and b'"taskQueue"' not in head:
        return False
    return _has_event(head) or (len(head) < _SHORT and _is_empty_history(head))


def _has_event(head: bytes) -> bool:
    open_brackets: list[str] = []
    place = ""
    key = ""
    for token in _TOKEN.finditer(head):
        sign = token[0][:1]
        if sign == b'"':
            key = ""
            if token[2] is None:
                continue
            if place in _EVENT_PLACES and _is_event_key(token[1], head, token.end()):
                return True
            key = token[1].decode(errors="replace") if len(token[1]) < 20 else "?"
            continue
        if sign in b"{[":
            open_brackets.append(key + sign.decode())
        elif open_brackets:
            open_brackets.pop()
        else:
            return False
        place = "".join(open_brackets) if len(open_brackets) < 6 else ""
        key = ""
    return False


def _is_event_key(key: bytes, head: bytes, end: int) -> bool:
    if key in (b"eventType", b"event_type"):
        return _EVENT_TYPE.match(head, end) is not None
    return _ATTRIBUTES.fullmatch(key) is not None


def _is_empty_history(head: bytes) -> bool:
    try:
        document: Any = msgspec.json.decode(head)
    except (ValueError, RecursionError):
        return False
    page = document[0] if isinstance(document, list) and document else document
    if not isinstance(page, dict) or not page.keys() & {"events", "history"} or not page.keys() <= _PAGE_KEYS:
        return False
    history = page.get("history")
    return not (page.get("events") or (history.get("events") if isinstance(history, dict) else history))
