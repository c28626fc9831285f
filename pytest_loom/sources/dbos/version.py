"""Which application version today's code has for DBOS: it recovers, and takes from queues, only runs of its own.

DBOS takes the version from the application's configuration (``application_version``), else from the environment
(``DBOS__APPVERSION``), else it computes one: a digest of the sources of all registered workflows, its own version, and
in later versions the application's name. The same is looked for here without starting anything: a DBOS object of this
process, else a configuration as a dictionary at the top level of a module (the workflow's own first), else the
environment, else what the installed DBOS computes.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

_PATCHING = "PATCHING_ENABLED"
"""What DBOS calls the version where ``enable_patching`` is set and no version is."""


@dataclass(frozen=True)
class Application:
    """Today's application as DBOS sees it.

    ``version`` is the one that is set, None where DBOS computes it; ``origin`` says where that is set. ``computed`` are
    versions that DBOS may compute: which workflows a deployed process has registered is not known here, so there are
    several. ``configured``: a configuration was found. ``upgrades``: DBOS itself moves its runs to the newest version.
    """

    version: str | None = None
    origin: str = ""
    computed: frozenset[str] = frozenset()
    configured: bool = False
    name: str | None = None
    upgrades: bool = False

    def is_version(self, version: str) -> bool:
        """Whether runs of that version are today's own."""
        return version == self.version if self.version else version in self.computed


def application_of(flow: Any, name: str | None = None) -> Application:
    """Today's application, of which ``flow`` is a workflow. ``name`` is what it was called, where a run says so."""
    running = getattr(sys.modules.get("dbos._dbos"), "_dbos_global_instance", None)
    found = list(_configurations(flow))
    upgrades = _upgrades(flow, [config for config, _ in found], running)
    if running is not None:
        set_there = _of_running(running)
        its_name = (getattr(running, "_config", None) or {}).get("name")
        if set_there:
            return Application(set_there, "the DBOS object of this process", frozenset(), True, its_name, upgrades)
        return Application(None, "", computed(flow, its_name or name), True, its_name, upgrades)
    versions = {_of_config(config) for config, _ in found}
    config, where = found[0] if found and len(versions) == 1 else ({}, "")
    config_name = config.get("name") if isinstance(config.get("name"), str) else None
    version = _of_config(config)
    if len(versions) > 1:
        return Application(None, "", frozenset(filter(None, versions)) | computed(flow, name), False, None, upgrades)
    if version:
        return Application(version, where, frozenset(), True, config_name, upgrades)
    if os.environ.get("DBOS__APPVERSION"):
        return Application(os.environ["DBOS__APPVERSION"], "DBOS__APPVERSION", frozenset(), True, config_name, upgrades)
    return Application(None, where, computed(flow, config_name or name), bool(found), config_name, upgrades)


def is_computed(version: str) -> bool:
    """Whether a version looks like one that DBOS computed."""
    return re.fullmatch(r"[0-9a-f]{32}", version) is not None or version.startswith("DEFAULT_VERSION")


def _of_config(config: dict[str, Any]) -> str | None:
    version = config.get("application_version")
    if version:
        return str(version)
    return _PATCHING if config.get("enable_patching") is True else None


def _of_running(running: Any) -> str | None:
    params = getattr(sys.modules.get("dbos._utils"), "GlobalParams", None)
    version = getattr(params, "app_version", "")
    if not version or (getattr(running, "_launched", False) and is_computed(version)):
        return None
    return str(version)


def _configurations(flow: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """The configurations for DBOS at the top level of a module: the workflow's own, else of any that uses DBOS."""
    try:
        known = set(importlib.import_module("dbos").DBOSConfig.__annotations__)
    except (ImportError, AttributeError):
        return
    known |= {"database", "runtimeConfig", "telemetry"}
    kind = sys.modules["dbos"].DBOS
    own = sys.modules.get(getattr(inspect.unwrap(flow), "__module__", ""))
    namespaces = [(vars(own), str(own.__name__))] if own is not None else []
    others = [
        (vars(module), name)
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType)
        and module is not own
        and name.partition(".")[0] != "dbos"
        and any(value is kind for value in (vars(module).get("DBOS"), vars(module).get("dbos_class")))
    ]
    for group in (namespaces, others):
        found = [
            (value, f"{label} in {name}")
            for namespace, name in group
            for label, value in list(namespace.items())
            if isinstance(value, dict) and isinstance(value.get("name"), str) and known.issuperset(value)
        ]
        yield from found
        if found:
            return


def computed(flow: Any, name: str | None) -> frozenset[str]:
    """What DBOS computes of all that is registered here, and of what is registered in the flow's own surroundings.

    DBOS 2.x registers workflows of its own when a DBOS object is made, and counts them: without one, this is not it.
    """
    module = sys.modules.get("dbos._dbos")
    if module is None:
        return frozenset()
    try:
        registry = module._get_or_create_dbos_registry()
        compute = type(registry).compute_app_version
        workflows = dict(registry.workflow_info_map)
        parameters = list(inspect.signature(compute).parameters)[1:]
    except (AttributeError, TypeError, ValueError):
        return frozenset()
    own = _module(flow)
    tests: tuple[Callable[[Any], bool], ...] = (
        lambda one: True,
        lambda one: _module(one) == own,
        lambda one: _module(one).partition(".")[0] == own.partition(".")[0],
        lambda one: _folder(one) == _folder(flow),
    )
    groups = [
        {key: one for key, one in workflows.items() if test(one) or _module(one).startswith("dbos.")} for test in tests
    ]
    found = set()
    for group in groups:
        try:
            found.add(compute(SimpleNamespace(workflow_info_map=group), *([name or ""] if parameters else [])))
        except Exception:  # no source is to be had: then DBOS has no digest either
            continue
    return frozenset(map(str, found))


def _module(function: Any) -> str:
    return str(getattr(inspect.unwrap(function), "__module__", ""))


def _folder(function: Any) -> str:
    return os.path.dirname(getattr(getattr(inspect.unwrap(function), "__code__", None), "co_filename", ""))


def _upgrades(flow: Any, configs: list[dict[str, Any]], running: Any) -> bool:
    info = getattr(flow, "dbos_func_decorator_info", None)
    chosen = getattr(info, "auto_upgrade", None)
    default = any(config.get("auto_upgrade") is True for config in configs)
    return bool(chosen if chosen is not None else default or getattr(running, "_auto_upgrade", False) is True)
