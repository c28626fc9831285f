"""What a Python annotation takes out of a recorded payload, as a JSON Schema. Types are looked at, none is made.

Temporal's own converter and its pydantic one differ in what they convert: the schema refuses what both refuse. Where
code of the application decides (a validator that sees the raw value) anything is taken at that place: nothing is said
about what cannot be told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

_NATURAL = frozenset({"string", "integer", "number", "boolean", "null"})


def schema_of(hint: Any) -> dict[str, Any] | None:
    """The schema of one annotation; None where nothing can be said of it."""
    from pydantic import TypeAdapter

    try:
        schema = TypeAdapter(hint).json_schema(schema_generator=_generator())
    except Exception:  # what pydantic cannot describe, or a name that does not resolve
        return None
    return schema if set(schema) - {"title", "description"} else None


def arguments_schema(hints: Sequence[Any], required: int) -> dict[str, Any] | None:
    """The schema of a call's arguments as a log says them: none is null, one is itself, several are ``args``.

    ``hints`` are the parameters' annotations (``Any`` where there is none), of which the first ``required`` have to be
    given. temporalio decodes by the annotations only where exactly as many arguments were recorded; else each arrives
    as plain JSON, which does for a text and not for a dataclass.
    """
    known = [hint if schema_of(hint) is not None else Any for hint in hints]
    ways = [way for count in range(required, len(known) + 1) if (way := _recorded(known, count)) is not None]
    if not ways or any(way == {} for way in ways):
        return None
    definitions = {name: one for way in ways for name, one in way.pop("$defs", {}).items()}
    schema = ways[0] if len(ways) == 1 else {"anyOf": ways}
    return {**schema, "$defs": definitions} if definitions else schema


def _recorded(hints: list[Any], count: int) -> dict[str, Any] | None:
    """What ``count`` recorded arguments have to look like; None where they would arrive as something else."""
    given = hints[:count]
    if count < len(hints) and not all(map(_is_natural, given)):
        return None
    if count == 0:
        return {"type": "null"}
    if count == 1:
        return schema_of(given[0]) or {}
    if all(hint is Any for hint in given):
        part: dict[str, Any] = {"type": "array", "minItems": count, "maxItems": count}
    else:
        part = schema_of(tuple.__class_getitem__(tuple(given))) or {"type": "array"}
    definitions = part.pop("$defs", {})
    schema = {"type": "object", "properties": {"args": part}, "required": ["args"]}
    return {**schema, "$defs": definitions} if definitions else schema


def _is_natural(hint: Any) -> bool:
    """Whether a value of this annotation is the same as plain JSON."""
    return all(_is_plain(part) for part in _parts(schema_of(hint) or {}))


def _parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for part in (*schema.get("anyOf", ()), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(part, dict):
            yield from _parts(part)


def _is_plain(part: dict[str, Any]) -> bool:
    if part.keys() & {"$ref", "properties", "prefixItems", "uniqueItems", "format", "enum"}:
        return False
    return part.get("type", "null") in {*_NATURAL, "object", "array"}


@lru_cache(maxsize=1)
def _generator() -> Any:
    """A generator of schemas that says nothing of what code of the application, or either converter, may still read."""
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def _anything(self, schema: Any) -> dict[str, Any]:
            return {}

        function_before_schema = _anything
        function_wrap_schema = _anything
        function_plain_schema = _anything
        bytes_schema = _anything  # the one converter writes text, the other numbers
        custom_error_schema = _anything
        is_instance_schema = _anything

        def model_schema(self, schema: Any) -> dict[str, Any]:
            """A field that is read under several names needs none of them by itself."""
            described: dict[str, Any] = super().model_schema(schema)
            properties = described.get("properties", {})
            for names in filter(None, map(set, _names_of(schema["cls"]))):
                shown = next((one for one in names if one in properties), None)
                if shown is None or len(names) < 2:
                    continue
                properties |= dict.fromkeys(names, properties[shown])
                described["required"] = [one for one in described.get("required", []) if one not in names]
            return described

    return Generator


def _names_of(model: Any) -> Iterator[list[str]]:
    """The names under which each field of a model is read."""
    by_name = model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name")
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        aliases = [alias] if isinstance(alias, str) else getattr(alias, "choices", [])
        names = [one for one in aliases if isinstance(one, str)]
        yield [*names, name] if by_name or not names else names
