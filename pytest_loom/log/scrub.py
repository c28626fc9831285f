"""Secrets never reach a log: what is recorded is scrubbed before it is written, and again before it is compared.

A secret is replaced by a placeholder that says its kind and nothing else, ``<scrubbed:openai-key>``: a run that was
recorded with one key and is replayed with another, or with a dummy of that shape, asks for the same thing. Two secrets
of one kind are therefore one value to whoever compares. Where a name gives the secret away, the kind comes from the
name, whatever the value looks like.

What is a secret depends on the value alone, never on the machine. So values of environment variables are not looked
for: what a machine with ``X_TOKEN`` recorded could not be matched on one without it. A secret that has no shape of its
own and stands under no telling name needs ``Scrubber(patterns=[...])``.

The expressions here take linear time on any text; those of a user are the user's.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from pytest_loom.errors import LogError
from pytest_loom.log.event import MAX_DEPTH, UNDECODABLE, Log
from pytest_loom.log.shapes import (
    PLACEHOLDER,
    TOKEN_LIKE,
    UNSURE,
    WORD,
    is_clean,
    kind_of,
    placeholder,
    plain,
    scrub_text,
    squeezed,
)

Link = tuple[Any, Any] | None
"""A path as nested pairs (the path above, key or index): few are ever needed as text."""

_SCHEMA_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_SCHEMA_WORDS = frozenset(
    (
        *("type", "title", "description", "format", "pattern", "$ref", "required"),
        *("minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"),
    )
)
_STAND_IN = re.compile(r"scrubbed0value([0-9]{1,9})x")
"""What the rules see where a secret was replaced already: a token that means nothing by itself."""
_AROUND_NAME = " \t:\"'[]"


@dataclass(frozen=True)
class Secret:
    """Where a log holds a secret: the event, the path in its payload, the rule (kind) that knows it. Not the secret."""

    sequence: int
    path: str
    rule: str


class Scrubber:
    """Replaces secrets by placeholders: the same input gives the same output everywhere, and once is enough.

    ``keys`` are more names whose value is secret, ``patterns`` more expressions whose matches are (they become
    ``<scrubbed:pattern>``), ``keep`` names that are not, though they sound like it (what has the shape of a key goes
    in any case). Both are whole names; case, "-", "_" and camelCase make no difference.
    ``hooks`` are called with (path like ``a.b[0].c``, value) for every leaf of ``value`` and ``raw`` after the rules,
    and return the value to write; they have to be as stable as the rules.
    With patterns or hooks every value is decoded, which costs more.
    """

    def __init__(
        self,
        *,
        keys: Iterable[str] = (),
        patterns: Iterable[str | re.Pattern[str]] = (),
        hooks: Iterable[Callable[[str, Any], Any]] = (),
        keep: Iterable[str] = (),
    ) -> None:
        self._patterns = tuple(re.compile(pattern) for pattern in patterns)
        self._hooks = tuple(hooks)
        self._keep = frozenset(map(plain, keep))
        self._own = {plain(key): _slug(key) for key in keys}
        self._words = tuple(map(squeezed, self._own))
        plain_words = all(len(word) > 2 for word in self._words) and all(map(str.isprintable, self._own))
        self._always = bool(self._patterns or self._hooks) or not plain_words

    def raw(self, data: bytes) -> bytes:
        """JSON text without its secrets; ``data`` itself where there are none. Raises LogError where it is no JSON."""
        if not self._always and is_clean(data, self._words):
            return data
        try:
            value = msgspec.json.decode(data)
            scrubbed = self.value(value)
            if scrubbed is value:
                if msgspec.json.encode(value) == data:
                    return data
                text = data.decode()
                if self._pass(text) == text:  # else a name stands twice in one object, and the first is not decoded
                    return data
            return msgspec.json.encode(scrubbed)
        except LogError:
            raise
        except (*UNDECODABLE, TypeError) as problem:
            raise LogError(f"a payload cannot be scrubbed: {problem}") from None

    def value(self, value: Any) -> Any:
        """Plain JSON data without its secrets; ``value`` itself where there are none. It is never changed.

        Raises LogError where it is nested too deeply.
        """
        return self._walk(value, hooks=self._hooks)

    def text(self, text: str) -> str:
        """Free text without its secrets; ``text`` itself where there are none."""
        if not self._always and (WORD.fullmatch(text) or is_clean(text.encode("utf-8", "surrogatepass"), self._words)):
            return text
        for _ in range(8):  # what stands next to a placeholder may show only then
            scrubbed = self._pass(self._nested(text))
            if scrubbed == text:
                return text
            text = scrubbed
        return placeholder("text")

    def secrets(self, value: Any) -> list[tuple[str, str]]:
        """What ``value`` would replace, as (path, kind); hooks are not asked."""
        found: list[tuple[Link, str]] = []
        self._walk(value, found=found)
        return [(_path(link), kind) for link, kind in found]

    def _kind(self, name: str) -> str | None:
        """The kind of secret that stands under a name."""
        word = plain(name[-64:].strip(_AROUND_NAME))
        if word in self._keep:
            return None
        return self._own.get(word) or kind_of(word)

    def _pass(self, text: str) -> str:
        """All rules over a text, once."""
        held = PLACEHOLDER.findall(text)  # "Bearer <scrubbed:openai-key>" is to become what "Bearer sk-…" does
        count = itertools.count()
        text = scrub_text(PLACEHOLDER.sub(lambda _: f"scrubbed0value{next(count)}x", text), self._kind)
        if held:
            text = _STAND_IN.sub(lambda m: held[int(m[1])] if int(m[1]) < len(held) else m[0], text)
        for pattern in self._patterns:
            parts = PLACEHOLDER.split(text)
            parts[::2] = [pattern.sub(lambda m: m[0] and placeholder("pattern"), part) for part in parts[::2]]
            text = "".join(parts)
        return text

    def _walk(
        self,
        root: Any,
        *,
        hooks: tuple[Callable[[str, Any], Any], ...] = (),
        found: list[tuple[Link, str]] | None = None,
    ) -> Any:
        """Copy plain data with its secrets replaced, without recursion; ``root`` itself where nothing was."""
        if not isinstance(root, (dict, list, tuple)):
            return self._leaf(root, None, None, hooks, found)
        result: Any = {} if isinstance(root, dict) else []
        changed = False
        todo: list[tuple[Any, Any, str | None, bool, Link, int]] = [(root, result, None, False, None, 1)]
        while todo:
            source, target, forced, in_list, link, depth = todo.pop()
            if depth > MAX_DEPTH:
                raise LogError(f"a value is nested more than {MAX_DEPTH} deep")
            taken: Counter[Any] = Counter()
            for part, value, kind in self._children(source, forced, in_list):
                key = part
                if isinstance(part, str) and isinstance(source, dict):
                    key = self._leaf(part, None, link, (), found)
                    changed = changed or key != part
                    while key in target:  # two secrets of a kind, and both entries count
                        taken[key] += 1
                        key = f"{key}#{taken[key] + 1}"
                here = (link, key)
                if isinstance(value, (dict, list, tuple)):
                    new: Any = {} if isinstance(value, dict) else []
                    todo.append((value, new, kind, not isinstance(source, dict), here, depth + 1))
                else:
                    new = self._leaf(value, kind, here, hooks, found)
                    changed = changed or (new is not value and (type(new) is not type(value) or new != value))
                if isinstance(target, dict):
                    target[key] = new
                else:
                    target.append(new)
        return result if changed else root

    def _children(self, node: Any, forced: str | None, in_list: bool) -> Iterator[tuple[Any, Any, str | None]]:
        """Key or index, value, and the kind of secret that the value is for its name, of everything in a container."""
        if isinstance(node, dict):
            named = None
            if "value" in node or "Value" in node:  # {"name": "authorization", "value": ".."}
                names = (node.get(word) for word in ("name", "Name", "key", "Key", "header"))
                named = next((kind for name in names if isinstance(name, str) and (kind := self._kind(name))), None)
            schema = forced is not None and _is_schema(node)
            for key, value in node.items():
                own = self._kind(key) if isinstance(key, str) else None
                if named and key in ("value", "Value"):
                    own = named
                kind = forced if forced and own in (None, UNSURE) else own
                yield key, value, None if schema and key in _SCHEMA_WORDS else kind
            return
        pair = self._kind(node[0]) if in_list and len(node) == 2 and isinstance(node[0], str) else None
        before: Any = None
        for index, value in enumerate(node):
            kind = forced
            if index == 1 and pair:  # ["Authorization", "Bearer .."] in a list of pairs
                kind = pair
            elif isinstance(before, str) and before.startswith("--"):  # a command line
                kind = self._kind(before) or forced
            yield index, value, kind
            before = value

    def _leaf(
        self,
        value: Any,
        kind: str | None,
        link: Link,
        hooks: tuple[Callable[[str, Any], Any], ...],
        found: list[tuple[Link, str]] | None,
    ) -> Any:
        new = value
        if isinstance(value, str):
            if kind and value and (kind != UNSURE or TOKEN_LIKE.match(value)):
                new = placeholder(kind)
            elif value:
                new = self.text(value)
        elif kind and kind != UNSURE and isinstance(value, (int, float)) and not isinstance(value, bool):
            new = placeholder(kind)
        if found is not None and new is not value and new != value:
            before = PLACEHOLDER.findall(value) if isinstance(value, str) else ()
            more = (Counter(PLACEHOLDER.findall(new)) - Counter(before)).elements()
            found.extend((link, shown[10:-1]) for shown in more)
        for hook in hooks:
            new = hook(_path(link), new)
        return new

    def _nested(self, text: str) -> str:
        """Text that is itself JSON, as arguments of tools often are, scrubbed as the data that it says."""
        if text.lstrip()[:1] not in ("{", "[", '"'):
            return text
        try:
            value = msgspec.json.decode(text)
            scrubbed = self._walk(value)
            return text if scrubbed is value else msgspec.json.encode(scrubbed).decode()
        except UNDECODABLE:  # LogError is one: too deep
            return text


def _slug(name: str) -> str:
    """A name as the kind in a placeholder."""
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower())[:64].strip("-") or "key"


def _path(link: Link) -> str:
    """A path as text, like ``a.b[0].c``."""
    parts: list[str] = []
    while link is not None:
        link, part = link
        parts.append(f"[{part}]" if isinstance(part, int) else f".{part}")
    return "".join(reversed(parts)).removeprefix(".")


def _is_schema(node: dict[Any, Any]) -> bool:
    """Whether a dict describes a value rather than holds one: the parameter "password" of a tool is no secret."""
    kind = node.get("type")
    return (isinstance(kind, str) and kind in _SCHEMA_TYPES) or isinstance(kind, list) or "$ref" in node


def scrubber_of(lines: Iterable[str], hooks: Iterable[Callable[[str, Any], Any]] = ()) -> Scrubber:
    """The Scrubber that lines of ``loom_scrub`` ask for: a key's name, ``re:PATTERN`` or ``keep:NAME`` each.

    Raises ValueError or re.error for a line that makes no sense.
    """
    said = [line.strip() for line in lines if line.strip()]
    return Scrubber(
        keys=[line for line in said if not line.startswith(("re:", "keep:"))],
        patterns=[line.removeprefix("re:").strip() for line in said if line.startswith("re:")],
        keep=[line.removeprefix("keep:").strip() for line in said if line.startswith("keep:")],
        hooks=hooks,
    )


DEFAULT = Scrubber()
"""The rules without any addition."""


def find_secrets(log: Log, scrubber: Scrubber = DEFAULT) -> list[Secret]:
    """What the payloads of a log still hold that ``scrubber`` would replace, in the order of the events.

    Raises LogError where a payload cannot be decoded.
    """
    return [
        Secret(event.sequence, path, kind)
        for event in log.events
        if scrubber.raw(raw := bytes(event.raw)) is not raw
        for path, kind in scrubber.secrets(event.payload)
    ]
