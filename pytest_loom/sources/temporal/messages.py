"""The SDK's words for a replay that failed, as facts: Rust's debug text for what Core found, a Failure for Python's.

Core tells a divergence as text only, with some fifty wordings in its state machines and no version of its own; what is
not known of it is kept, cleaned.
"""

from __future__ import annotations

import re
from typing import Any

_MESSAGE = re.compile(r'message: "((?:[^"\\]|\\.)*)"')
_CODE = re.compile(r"^\[TMPRL\d+\] (?:Nondeterminism error: )?")
_EVENT = re.compile(r"HistoryEvent(?:\(id: | \{ event_id: )(\d+)")
_WHOLE_EVENT = re.compile(r"HistoryEvent \{ event_id: (\d+),.*", re.DOTALL)
"""An event with all that it holds, recorded values included, up to the end of the text."""
_ESCAPE = re.compile(r'\\(["\\nt\'])')
_PLAIN = {"n": "\n", "t": "\t"}
_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (\S+)', re.MULTILINE)
_MOST = 600


def core_message(text: str) -> str:
    """The message inside of Core's debug text, or the text itself where it holds none."""
    found = _MESSAGE.search(text)
    message = text if found is None else _ESCAPE.sub(lambda match: _PLAIN.get(match[1], match[1]), found[1])
    message = _WHOLE_EVENT.sub(r"HistoryEvent(id: \1)", message)
    return _CODE.sub("", " ".join(message.split()))[:_MOST]


def is_nondeterminism(text: str) -> bool:
    """Whether Core says that the code parted from its record."""
    return "[TMPRL1100]" in text or "Nondeterminism" in text or "NonDeterministicError" in text


def is_deadlock(text: str) -> bool:
    """Whether the SDK says that the code did not yield in time."""
    return "[TMPRL1101]" in text or "Potential deadlock" in text


def named_event(message: str) -> int:
    """The history event that a message of Core names; 0 for none."""
    found = _EVENT.search(message)
    return int(found[1]) if found else 0


def failure_facts(failure: Any, is_theirs: Any) -> dict[str, Any]:
    """A Failure that Python code made: ``type``, ``message`` of its innermost cause, ``line`` and ``through``.

    ``through`` are the names of the functions that it passed, ``outer`` the type and message of the failure itself;
    ``line`` is the innermost one for which ``is_theirs(file)``.
    """
    chain = [failure]
    while chain[-1].HasField("cause") and len(chain) < 20:
        chain.append(chain[-1].cause)
    frames = [frame for one in chain for frame in _FRAME.findall(one.stack_trace)]
    lines = [f"{file}:{line}" for file, line, _ in frames if is_theirs(file)]
    told = [(one.application_failure_info.type, one.message) for one in chain]
    return {
        "type": told[-1][0] or "Exception",
        "message": " ".join(told[-1][1].split())[:_MOST],
        "outer": ": ".join(part for part in told[0] if part)[:_MOST],
        "all": " / ".join(f"{kind}: {message}" for kind, message in told)[:_MOST],
        "line": lines[-1] if lines else "",
        "through": [name for _, _, name in frames],
    }
