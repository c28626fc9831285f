"""The settings with which an application's workflows are replayed: those of its own ``temporalio.worker.Replayer``.

Whoever has a data converter, a codec, plugins, interceptors or sandbox settings gives that Replayer as its flows; for a
plain workflow class the SDK's defaults hold.
"""

from __future__ import annotations

import inspect
import weakref
from dataclasses import dataclass, field
from typing import Any

from pytest_loom.errors import FlowError


@dataclass
class Settings:
    """The Replayer's active configuration, and the plugins that made it."""

    config: dict[str, Any] = field(default_factory=dict)
    plugins: Any = ()

    @property
    def has_sandbox(self) -> bool:
        """Whether the workflows run in the SDK's sandbox."""
        from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

        return isinstance(self.runner("workflow_runner"), SandboxedWorkflowRunner)

    @property
    def rewrites(self) -> bool:
        """Whether payloads are changed after the converter wrote them."""
        converter = self.config.get("data_converter")
        return any(getattr(converter, name, None) is not None for name in ("payload_codec", "external_storage"))

    def runner(self, name: str) -> Any:
        """The workflow runner of that name, the SDK's default where none is set."""
        if self.config.get(name) is not None:
            return self.config[name]
        from temporalio.worker import UnsandboxedWorkflowRunner
        from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

        return SandboxedWorkflowRunner() if name == "workflow_runner" else UnsandboxedWorkflowRunner()


_OWN = ("workflows", "runtime", "workflow_task_executor", "debug_mode", "disable_safe_workflow_eviction")
"""What a replay in a process of its own sets itself."""

_MARK = "__temporal_workflow_definition"
_PLAIN = Settings()


class Configured:
    """A workflow class with the settings of the Replayer that holds it; it is known as what the class is known as."""

    def __init__(self, flow: type, settings: Settings) -> None:
        self.flow = flow
        self.settings = settings
        vars(self)[_MARK] = vars(flow)[_MARK]


_read: weakref.WeakKeyDictionary[Any, dict[str, Configured]] = weakref.WeakKeyDictionary()


def flows_of(replayer: Any) -> dict[str, Configured] | None:
    """The workflows of a Replayer by their registered names, None for any other object."""
    if type(replayer).__name__ != "Replayer" or not callable(getattr(replayer, "config", None)):
        return None
    if replayer in _read:
        return _read[replayer]
    newer = "active_config" in inspect.signature(replayer.config).parameters  # the older give it unasked
    config = dict(replayer.config(active_config=True) if newer else replayer.config())
    kept = {name: value for name, value in config.items() if name not in _OWN}
    settings = Settings(kept, getattr(replayer, "plugins", ()))
    flows: dict[str, Configured] = {}
    for flow in config["workflows"]:
        name = getattr(vars(flow).get(_MARK), "name", None)
        if name is None:
            raise FlowError(
                f"the dynamic workflow {flow.__qualname__} has no name of its own",
                hint="Give a resolver that returns it for the names it stands for.",
            )
        flows[name] = Configured(flow, settings)
    _read[replayer] = flows
    return flows


def class_and_settings(flow: Any) -> tuple[type, Settings] | None:
    """A workflow class, and how it is to be replayed; None for what is no workflow class."""
    if isinstance(flow, Configured):
        return flow.flow, flow.settings
    return (flow, _PLAIN) if isinstance(flow, type) and _MARK in vars(flow) else None
