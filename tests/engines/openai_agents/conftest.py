"""What lies here needs the OpenAI Agents SDK and is skipped without it; its changes are a module of their own."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

if importlib.util.find_spec("agents") is not None:
    spec = importlib.util.spec_from_file_location("agent_changes", Path(__file__).with_name("changes.py"))
    assert spec is not None
    assert spec.loader is not None
    changes = importlib.util.module_from_spec(spec)
    sys.modules["agent_changes"] = changes  # by name, for the dataclasses in it and the tests
    spec.loader.exec_module(changes)
