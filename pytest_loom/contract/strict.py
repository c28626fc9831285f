"""OpenAI's strict mode: what a model is told about arguments, turned back into what binds them.

Strict mode lists every argument as required, forbids all others and drops null defaults. That is said to the model
alone: the SDKs bind a call with pydantic's model of the function, which drops what it does not know and fills gaps.
"""

from __future__ import annotations

from typing import Any

from pytest_loom.contract.nodes import LISTED, MAX_DEPTH, NAMED, SINGLE


def loosened(schema: Any, depth: int = 0) -> Any:
    """``schema`` with every object open, and only such arguments required as have no default and cannot be null."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in NAMED or key in ("$defs", "definitions"):
            parts = value.items() if isinstance(value, dict) else ()
            found[key] = {name: loosened(one, depth + 1) for name, one in parts} if isinstance(value, dict) else value
        elif key in LISTED and isinstance(value, list):
            found[key] = [loosened(one, depth + 1) for one in value]
        elif key == "additionalProperties" and value is False:
            continue
        elif key in SINGLE:
            found[key] = loosened(value, depth + 1)
        elif key != "default" or value is not None:
            found[key] = value
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, list) and isinstance(properties, dict):
        needed = [name for name in required if not (isinstance(name, str) and _optional(properties.get(name)))]
        found.pop("required")
        if needed:
            found["required"] = needed
    return found


def said_arguments(args: Any, old: Any, new: Any) -> Any:
    """``args`` without nulls that say nothing: what strict mode makes of an argument that is left out.

    That is a null for an argument that ``old`` lets be left out, where ``new`` has no such argument. Both are the
    schemas of all arguments, as they bind.
    """
    if not isinstance(args, dict) or not isinstance(old, dict) or not isinstance(new, dict):
        return args
    known, there = old.get("properties"), new.get("properties")
    if not isinstance(known, dict) or not isinstance(there, dict):
        return args
    return {
        name: value
        for name, value in args.items()
        if value is not None or name in there or not _optional(known.get(name))
    }


def _optional(schema: Any) -> bool:
    """Whether an argument may be left out: it has a default, or may be null, which strict mode makes of one."""
    if not isinstance(schema, dict):
        return False
    kinds = schema.get("type")
    if "default" in schema or kinds == "null" or (isinstance(kinds, list) and "null" in kinds):
        return True
    members = [*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ())]
    return any(_optional({"type": one.get("type")}) for one in members if isinstance(one, dict))
