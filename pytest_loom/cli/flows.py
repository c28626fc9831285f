"""Today's flows for a command: ``module:attr`` imported as a test run of the project would import it."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from pytest_loom.cli.settings import Settings
from pytest_loom.contract.targets import import_target
from pytest_loom.errors import FlowError, printable


def import_flows(target: str, settings: Settings, *, setting: str = "--flows") -> Any:
    """What ``target`` names. The ``pythonpath`` of pytest's configuration comes first, as in a test run.

    Raises FlowError saying what failed and where.
    """
    module, _, attribute = target.partition(":")
    if not module or not attribute:
        raise FlowError(f"{setting}: {printable(target)} is not module:attr", hint="Such as: app.flows:flows")
    said = settings.values.get("pythonpath", [])
    folders = said if isinstance(said, list) else shlex.split(str(said))
    for folder in reversed([str(settings.base / str(one)) for one in folders]):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    return import_target(target, settings.base, setting=setting)
