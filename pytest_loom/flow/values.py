"""How values go into a log and come back as what they were: guided by annotations, never by the log's word alone.

``plain`` turns a value into JSON data; a ``Codec`` does so for one annotation, checks while recording that the value
would come back the same, and reads it again. The JSON forms are pydantic's (DESIGN section 6): bytes as base64, sets
sorted, non-finite floats as strings. What an annotation cannot say (an instance of a subclass) is written as
``{"$type", "$via", "$value"}``, and read only as a class that the annotation itself leads to.
"""

from __future__ import annotations

import base64
import dataclasses
import marshal
import math
import types
import typing
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, time
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any

import msgspec

from pytest_loom.errors import FlowError, RecordingError, printable

_SCALARS = frozenset({str, int, bool, type(None)})
_JSON_TYPES = frozenset({Any, object, str, int, bool, None, type(None), dict, list, typing.Dict, typing.List})  # noqa: UP006
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
MAX_NESTING = 200


def encode(value: Any) -> bytes:
    """Plain JSON data as its bytes."""
    return _encode(value)


_OTHER = object()


def _same_in_json(value: Any) -> Any:
    """A copy of a value that is plain JSON data, and comes back from JSON as just what it is; else _OTHER.

    ``marshal`` (never read from a log here) writes exact types only, so that equal bytes are equal values, types too.
    """
    try:
        exact = marshal.dumps(value, 2)
        text = _encode(value)
        if text.count(b"[") + text.count(b"{") > MAX_NESTING:
            return _OTHER
        copy = _decode(text)
        return copy if marshal.dumps(copy, 2) == exact else _OTHER
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _OTHER


def plain(value: Any, where: str) -> Any:
    """``value`` as plain JSON data. Raises RecordingError naming ``where`` and the field that JSON cannot say."""
    copy = _same_in_json(value)
    if copy is not _OTHER:
        return copy
    return _plain(value, where, "", "base64", frozenset(), 0)


def _plain(value: Any, where: str, path: str, bytes_as: str, known: frozenset[type], depth: int) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        if kind is str and not value.isascii():
            _check_text(value, where, path)
        return value
    if kind is float:
        return value if math.isfinite(value) else _non_finite(value)
    if depth > MAX_NESTING:
        raise _cannot(where, path, f"is nested more than {MAX_NESTING} deep (or holds itself)")

    def down(part: Any, step: str, mode: str = bytes_as) -> Any:
        return _plain(part, where, path + step, mode, known, depth + 1)

    if isinstance(value, Enum):
        return down(value.value, "")
    if isinstance(value, dict):
        return _object(value, where, path, down)
    if isinstance(value, (list, tuple, deque)):
        return [down(part, f"[{index}]") for index, part in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        return sorted((down(part, "[*]") for part in value), key=_encode)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes(bytes(value), bytes_as)
    if isinstance(value, (str, int, float)):  # a subclass of one says the same in JSON
        base = str if isinstance(value, str) else int if isinstance(value, int) else float
        return down(base(value), "")
    if kind in known:
        return {"$type": type_name(kind), "$via": "fields", "$value": _fields(value, where, path, bytes_as, down)}
    if _has_fields(value):
        return _fields(value, where, path, bytes_as, down)
    return _leaf(value, where, path)


def _check_text(text: str, where: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _cannot(where, path, "holds half a character (a lone surrogate), which UTF-8 cannot say") from None


def _non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _object(value: Mapping[Any, Any], where: str, path: str, down: Callable[[Any, str], Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, part in value.items():
        name = key if type(key) is str else _key(key, where, path)
        if not name.isascii():
            _check_text(name, where, path)
        if name in found:
            raise _cannot(where, path, f"has two keys that are both {printable(name)!r} in JSON")
        found[name] = down(part, f".{name}")
    return found


def _key(key: Any, where: str, path: str) -> str:
    import pydantic_core

    if isinstance(key, (bool, type(None), float, tuple, bytes)) and not isinstance(key, str):
        raise _cannot(where, path, f"has a {type(key).__name__} as key; JSON has text only")
    try:
        return str(pydantic_core.to_jsonable_python(key))
    except (pydantic_core.PydanticSerializationError, ValueError):
        raise _cannot(where, path, f"has a {type(key).__name__} as key; JSON has text only") from None


def _bytes(value: bytes, mode: str) -> Any:
    if mode == "utf8":
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"$type": "bytes", "$via": "base64", "$value": base64.b64encode(value).decode()}
    return value.hex() if mode == "hex" else base64.urlsafe_b64encode(value).decode()


def _has_fields(value: Any) -> bool:
    return (dataclasses.is_dataclass(value) and not isinstance(value, type)) or _is_model(value)


def _is_model(value: Any) -> bool:
    return hasattr(type(value), "__pydantic_serializer__") and hasattr(type(value), "model_config")


def _fields(value: Any, where: str, path: str, bytes_as: str, down: Callable[..., Any]) -> Any:
    """The fields of a dataclass or pydantic model, in the form from which its own class is made again."""
    if not _is_model(value):
        return {
            field.name: down(getattr(value, field.name), f".{field.name}")
            for field in dataclasses.fields(value)
            if field.init
        }
    mode = value.model_config.get("ser_json_bytes", "utf8")
    try:
        dumped = type(value).__pydantic_serializer__.to_python(
            value, mode="python", by_alias=True, round_trip=True, warnings=False, serialize_as_any=True
        )
    except Exception as problem:
        raise _cannot(where, path, f"cannot be dumped: {printable(str(problem))}") from None
    return down(dumped, "", mode)


def _leaf(value: Any, where: str, path: str) -> Any:
    import pydantic_core

    if isinstance(value, PurePath) or (isinstance(value, Decimal) and not value.is_finite()):
        return str(value)
    if isinstance(value, (Iterator, types.FunctionType, types.MethodType, type)):
        raise _cannot(where, path, f"is a {type(value).__name__}, which no log can hold")
    try:
        return pydantic_core.to_jsonable_python(value, inf_nan_mode="strings", bytes_mode="base64")
    except (pydantic_core.PydanticSerializationError, ValueError, RecursionError):
        raise _cannot(where, path, f"is a {type(value).__qualname__}, which no log can hold") from None


def _cannot(where: str, path: str, why: str) -> RecordingError:
    field = printable(path.lstrip("."), 200)
    return RecordingError(
        f"{where}{f': {field}' if field else ''} {why}",
        hint="Give it as plain data, a dataclass or a pydantic model, or leave it out.",
    )


def type_name(kind: type) -> str:
    """``module.Qualname``, or the bare name of a builtin."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


class Codec:
    """Writes and reads the values of one annotation. ``where`` is how messages call the place."""

    def __init__(self, annotation: Any, where: str) -> None:
        self.annotation = annotation
        self.where = where
        self.typed = _typed_decoder(annotation) if is_json(annotation) else None
        self.json = self.typed is not None
        self._adapter: Any = None

    @property
    def adapter(self) -> Any:
        """pydantic's adapter for a list of one such value: so that the settings for bytes and floats apply."""
        if self._adapter is None:
            self._adapter = _list_adapter(self.annotation, self.where)
        return self._adapter

    def dump(self, value: Any) -> Any:
        """``value`` as plain data. Raises RecordingError where it would not come back as what it is."""
        copy = _same_in_json(value) if self.json else _OTHER
        if copy is not _OTHER and self._lost(copy, copy) is None:
            return copy
        found = plain(value, self.where)
        problem = self._lost(value, found)
        if problem is None:
            return found
        classes = frozenset(_known_classes(self.annotation))
        marked = frozenset(kind for kind in classes if kind not in _own_classes(self.annotation))
        if marked:
            found = _plain(value, self.where, "", "base64", marked, 0)
            if self._lost(value, found) is None:
                return found
        raise RecordingError(
            f"{self.where}{problem}",
            hint=f"Annotate what it is (now: {shown_type(self.annotation)}), so that replay gives the same back.",
        )

    def load(self, data: Any) -> Any:
        """The value that plain data stands for. Raises ValueError where it does not fit the annotation."""
        return self.load_raw(_encode(data))

    def load_raw(self, raw: bytes) -> Any:
        """The value that JSON text stands for. Raises ValueError where it does not fit the annotation."""
        if self.typed is not None and b'"$type"' not in raw:
            return self.typed(raw)
        if b'"$type"' in raw:
            revived = _revive(_decode(raw), {type_name(kind): kind for kind in _known_classes(self.annotation)})
            return revived if self.json else self.adapter.validate_python([revived])[0]
        return self.adapter.validate_json(b"[%b]" % raw)[0]

    def parse(self, value: Any) -> Any:
        """A value that a person gives (an input, a gate's payload), validated. Raises ValueError."""
        return value if self.annotation in (Any, object) else self.adapter.validate_python([value])[0]

    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the values, or None where the annotation says nothing."""
        if self.annotation in (Any, object):
            return None
        from pydantic import PydanticInvalidForJsonSchema, TypeAdapter

        _ = self.adapter  # which says what is wrong with an annotation that nothing is known of
        try:
            return TypeAdapter(self.annotation).json_schema()
        except PydanticInvalidForJsonSchema:
            return None

    def _lost(self, value: Any, found: Any) -> str | None:
        """What would not come back, or None."""
        try:
            back = self.load_raw(_encode(found))
        except ValueError as problem:
            first = str(problem).splitlines()
            what = _first_error(problem) or printable(first[0] if first else "")
            return f" would not come back: {what}"
        return _difference(value, back, "")


def _first_error(problem: ValueError) -> str:
    errors = getattr(problem, "errors", None)
    if not callable(errors):
        return ""
    first = errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"][1:])
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def why_not(problem: ValueError) -> str:
    """What a validation found wrong, on one line."""
    return _first_error(problem) or printable(str(problem), 200)


def _difference(value: Any, back: Any, path: str) -> str | None:
    """Where what comes back is something else, as the end of a sentence."""
    kind = type(value)
    if kind is not type(back):
        if kind is int and type(back) is float and value == back:
            return None
        place = f": {path.lstrip('.')}" if path else ""
        return f"{place} is a {kind.__qualname__}, but would come back as a {type(back).__qualname__}"
    if isinstance(value, dict):
        if list(value) != list(back) and set(map(repr, value)) != set(map(repr, back)):
            return f"{f': {path.lstrip(chr(46))}' if path else ''} has keys that would come back as other values"
        return next(
            (lost for key in value if (lost := _difference(value[key], back.get(key), f"{path}.{key}")) is not None),
            None,
        )
    if isinstance(value, deque) and value.maxlen != back.maxlen:
        return f"{f': {path.lstrip(chr(46))}' if path else ''} would come back without its maxlen"
    if isinstance(value, (list, tuple, deque)) and len(value) == len(back):
        pairs = enumerate(zip(value, back, strict=True))
        return next(
            (lost for index, (a, b) in pairs if (lost := _difference(a, b, f"{path}[{index}]")) is not None), None
        )
    if _has_fields(value) and not isinstance(value, type):
        names = _field_names(value)
        return next(
            (
                lost
                for name in names
                if (lost := _difference(getattr(value, name, None), getattr(back, name, None), f"{path}.{name}"))
                is not None
            ),
            None,
        )
    if isinstance(value, (datetime, time)) and value.tzinfo is not None and value.tzinfo.utcoffset(None) is None:
        place = f": {path.lstrip('.')}" if path else ""
        zone = printable(str(value.tzinfo), 40)
        return f"{place} would come back without the rules of its time zone ({zone}): give it in UTC"
    same = value == back or (kind is float and math.isnan(value) and math.isnan(back))
    same = same or (isinstance(value, Decimal) and value.is_nan() and back.is_nan())
    if same:
        return None
    return f"{f': {path.lstrip(chr(46))}' if path else ''} would come back as another {kind.__qualname__}"


def _field_names(value: Any) -> list[str]:
    if _is_model(value):
        names = list(type(value).model_fields)
        return names + list(value.__pydantic_extra__ or ())
    return [field.name for field in dataclasses.fields(value)]


def _revive(data: Any, classes: dict[str, type]) -> Any:
    """Plain data with its marks made values: bytes, and instances of the classes at hand; nothing else."""
    if isinstance(data, list):
        return [_revive(part, classes) for part in data]
    if not isinstance(data, dict):
        return data
    name, value = data.get("$type"), data.get("$value")
    if name == "bytes" and data.get("$via") == "base64" and isinstance(value, str):
        return base64.b64decode(value)
    if data.get("$via") == "fields" and isinstance(name, str) and name in classes:
        return codec_for(classes[name], "").load_raw(_encode(value))
    return {key: _revive(part, classes) for key, part in data.items()}


@lru_cache(maxsize=4096)
def _cached_codec(annotation: Any, where: str) -> Codec:
    return Codec(annotation, where)


def codec_for(annotation: Any, where: str) -> Codec:
    """The codec of an annotation (made once)."""
    try:
        return _cached_codec(annotation, where)
    except TypeError:  # an annotation that cannot be hashed
        return Codec(annotation, where)


def is_json(annotation: Any) -> bool:
    """Whether every value that fits is plain JSON data already."""
    try:
        if annotation in _JSON_TYPES:
            return True
    except TypeError:
        return False
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return all(is_json(part) for part in arguments)
    if origin is dict:
        return arguments[0] is str and is_json(arguments[1])
    if origin is list:
        return is_json(arguments[0])
    return False


def _typed_decoder(annotation: Any) -> Callable[[bytes], Any] | None:
    """What reads JSON text as an annotation of plain JSON types; None where the annotation is more than that."""
    if annotation in (Any, object):
        return _decode
    try:
        return msgspec.json.Decoder(type(None) if annotation is None else annotation).decode
    except TypeError:  # such as a union of two kinds of dict, which only pydantic tells apart
        return None


def _list_adapter(annotation: Any, where: str) -> Any:
    from pydantic import ConfigDict, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

    config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="strings")
    try:
        return TypeAdapter(list[annotation], config=config)
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError, NameError) as problem:
        raise FlowError(
            f"{where}: nothing is known of how to record a {shown_type(annotation)}: {printable(str(problem), 200)}",
            hint="Use a dataclass, a pydantic model or plain data.",
        ) from None


def shown_type(annotation: Any) -> str:
    """An annotation as a person wrote it."""
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


def _own_classes(annotation: Any) -> set[type]:
    """The classes that an annotation names."""
    found: set[type] = set()
    todo = [annotation]
    while todo:
        part = todo.pop()
        if isinstance(part, type) and typing.get_origin(part) is None:
            found.add(part)
        todo.extend(argument for argument in typing.get_args(part) if not isinstance(argument, (str, int)))
    return found


def _known_classes(annotation: Any) -> Iterator[type]:
    """The classes with fields that an annotation names, and their subclasses that exist in this process."""
    todo = [
        kind for kind in _own_classes(annotation) if dataclasses.is_dataclass(kind) or hasattr(kind, "model_fields")
    ]
    seen: set[type] = set()
    while todo:
        kind = todo.pop()
        if kind not in seen:
            seen.add(kind)
            yield kind
            todo.extend(type.__subclasses__(kind))
