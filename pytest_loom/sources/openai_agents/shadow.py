"""What the OpenAI Agents SDK itself says of a saved run on today's agent: it is loaded, and nothing of it is run.

To be called in a child process under the guard: arguments are read by the application's own validators, and the agents
are changed first. Rules for tools that are functions would be asked about a context that is not here, and servers for
their tools: they are taken away, and whether a tool is there is not judged here.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from pathlib import Path
from typing import Any

from pytest_loom.log.files import read_document
from pytest_loom.sources.openai_agents.contract import reachable


def loaded(path: str, agent: Any) -> dict[str, Any]:
    """The run state in ``path`` loaded on ``agent``.

    ``{"pending": [call ids], "invalid": {call id: text}}`` (what the tools' own validators refuse), ``{"error": text}``
    where the SDK refuses the run, ``{"unknown": text}`` where it does not know the schema version.

    The run's own context is left out: the application gives it another, or a deserializer of its own.
    """
    state_class = importlib.import_module("agents").RunState
    data = json.loads(read_document(Path(path)))
    known = getattr(importlib.import_module("agents.run_state"), "SUPPORTED_SCHEMA_VERSIONS", None)
    version = data.get("$schemaVersion")
    if known is not None and version not in known:
        return {"unknown": f"schema version {version} is none of {', '.join(sorted(known))}"}
    for one in reachable(agent).values():
        one.mcp_servers = []
        for tool in getattr(one, "tools", None) or ():
            if callable(getattr(tool, "is_enabled", None)):
                tool.is_enabled = True
    try:
        state = asyncio.run(state_class.from_json(agent, data, context_override={}))
        items = state.get_interruptions()
    except Exception as problem:
        return {"error": f"{type(problem).__name__}: {problem}"[:1000]}
    refused = {item.call_id: text for item in items if (text := _refused(item))}
    return {"pending": [item.call_id for item in items], "invalid": refused}


def _refused(item: Any) -> str:
    """Why today's function does not take the arguments of a call that waits; "" where it does, or cannot be asked."""
    import pydantic

    name = getattr(item, "tool_name", None) or getattr(item, "name", None)
    tools = getattr(item.agent, "tools", None) or ()
    tool: Any = next((tool for tool in tools if getattr(tool, "name", None) == name), None)
    try:
        read = importlib.import_module("agents.function_schema").function_schema
        model = read(tool.__wrapped__, use_docstring_info=False, strict_json_schema=False).params_pydantic_model
        given = json.loads(item.arguments or "{}")
    except Exception:
        return ""
    try:
        model(**given)
    except pydantic.ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the arguments'}: {first['msg']}"[:1000]
    except Exception:
        return ""
    return ""
