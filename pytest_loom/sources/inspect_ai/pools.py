"""What a sample keeps once and refers to: attachments (``attachment://…``) and messages that several calls share."""

from __future__ import annotations

from typing import Any

import msgspec

from pytest_loom.log.files import MAX_DOCUMENT
from pytest_loom.sources.shape import Malformed, listed, table

_ATTACHMENT = "attachment://"


class Pools:
    """The pools of a sample. What refers to them is bounded, since a few references can say very much.

    A message is told to a log once, with the model call that it came up in: all that a model was told before is in the
    log already.
    """

    def __init__(self, sample: dict[str, Any], transcript: dict[str, Any]) -> None:
        attachments = sample.get("attachments") or transcript.get("content")
        self.attachments = table(attachments, "attachments")
        data = table(sample.get("events_data"), "events_data")
        self.messages = listed(data.get("messages") or sample.get("message_pool"), "the pool of messages")
        self.left = MAX_DOCUMENT
        self._told = 0
        self._seen: set[bytes] = set()

    def resolved(self, value: Any) -> Any:
        """``value`` with what its references stand for; one that stands for nothing stays. Raises Malformed."""
        if not self.attachments:
            return value
        if isinstance(value, str):
            return self._attachment(value) if value.startswith(_ATTACHMENT) else value
        if isinstance(value, list):
            return [self.resolved(inner) for inner in value]
        if isinstance(value, dict):
            return {key: self.resolved(inner) for key, inner in value.items()}
        return value

    def _attachment(self, reference: str) -> Any:
        found = self.attachments.get(reference.removeprefix(_ATTACHMENT), reference)
        self.left -= len(found) if isinstance(found, str) else 0
        if self.left < 0:
            raise Malformed(f"its attachments come to more than {MAX_DOCUMENT // 1024**2} MiB")
        return found

    def new_messages(self, refs: Any, inline: Any = None) -> list[Any]:
        """The messages of a model's input that no call of this sample had before, by ``[start, end)`` or as they are.

        Pools are in the order in which messages came up, so what is new stands behind what was told.
        """
        found: list[Any] = []
        for ref in listed(refs, "input_refs"):
            start, end = ref if isinstance(ref, list) and len(ref) == 2 else (None, None)
            if not isinstance(start, int) or not isinstance(end, int):
                raise Malformed("an entry of input_refs is not two numbers")
            found += self.messages[max(start, self._told, 0) : max(end, 0)]
            self._told = max(self._told, min(end, len(self.messages)))
        for message in listed(inline, "input"):
            key = msgspec.json.encode(message)
            if key not in self._seen:
                self._seen.add(key)
                found.append(message)
        return [self.resolved(message) for message in found]
