"""Run states to build upon are a module of their own, found here by its name."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

spec = importlib.util.spec_from_file_location("run_states", Path(__file__).with_name("run_states.py"))
assert spec is not None
assert spec.loader is not None
run_states = importlib.util.module_from_spec(spec)
sys.modules["run_states"] = run_states
spec.loader.exec_module(run_states)
