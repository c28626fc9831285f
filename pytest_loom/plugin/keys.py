"""What the parts of the plugin keep on pytest's own objects, by typed keys."""

from __future__ import annotations

from typing import Any

import pytest

FACTS = pytest.StashKey[dict[str, Any]]()
"""On a test: what it has to tell the session (a deploy report, accepted goldens), as plain JSON data."""

PASSED = pytest.StashKey[bool]()
"""On a test: whether its body passed."""

FAILED = pytest.StashKey[bool]()
"""On a test: whether its body failed; one that failed as expected did not."""

MUTATION = pytest.StashKey[Any]()
"""On the config: what hands out mutants of goldens (``--loom-mutate``); absent without it."""

COLLECTED = pytest.StashKey[set[str]]()
"""On the config: the files that were collected whole."""
