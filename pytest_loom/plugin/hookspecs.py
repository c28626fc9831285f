"""pytest-loom's own pytest hooks, each with a worked example: implement them in a ``conftest.py`` or a plugin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_loom.deploy.checks import Check
    from pytest_loom.deploy.report import DeployReport
    from pytest_loom.sources import Source


@pytest.hookspec
def pytest_loom_sources(config: pytest.Config) -> Sequence[Source]:  # type: ignore[empty-body]
    """Readers of your own log formats, asked before the built-in ones.

    Asked for once, when the session starts: in the ``conftest.py`` at the root (or of ``testpaths``), or a plugin.

    Example::

        import json

        from pytest_loom import LogBuilder

        class Orders:
            name, engine, live, suffixes = "orders", "journal", False, (".orders.json",)

            def sniff(self, path, head):
                return path.name.endswith(".orders.json")

            def read(self, path):
                for order in json.loads(path.read_text()):
                    log = LogBuilder(order["id"], "order", path=str(path))
                    log.add("EXECUTION_STARTED", {"input": order["input"]}, timestamp=order["at"])
                    yield log.log()

        def pytest_loom_sources(config):
            return [Orders()]
    """


@pytest.hookspec(firstresult=True)
def pytest_loom_flows(config: pytest.Config, log_path: Path | None) -> Any:
    """Today's flows for the log at ``log_path`` (None outside of a deploy simulation); the first answer counts.

    Comes before the ``loom_flows`` setting. Return what ``simulate_deploy`` takes as ``flows``.

    Example::

        def pytest_loom_flows(config, log_path):
            from shop.runtime import runtime  # has get_flow(workflow_id, version=None)

            return runtime
    """


@pytest.hookspec
def pytest_loom_checks(config: pytest.Config) -> Sequence[Check]:  # type: ignore[empty-body]
    """Checks of your own: pure functions of a log and today's contract that yield findings.

    One that takes a third argument gets the contract that the run was started on, None where none was captured.

    Example::

        from pytest_loom import finding

        def no_old_refunds(log, contract):
            if log.state.in_flight and log.state.variables["_input"]["amount"] > 10_000:
                yield finding(log, "refund-limit", "over today's limit", "ask finance", severity="warning")

        def no_older_versions(log, contract, yesterday):
            if log.state.in_flight and yesterday is not None and yesterday.version != contract.version:
                yield finding(log, "older", f"is on {yesterday.version}", "look at it", severity="warning")

        def pytest_loom_checks(config):
            return [no_old_refunds, no_older_versions]
    """


@pytest.hookspec
def pytest_loom_scrub(config: pytest.Config) -> Sequence[Callable[[str, Any], Any]]:  # type: ignore[empty-body]
    """What else is taken out of a recording before it is written: functions of a value's path and the value.

    Example::

        def no_names(path, value):
            return "<scrubbed:name>" if path.endswith("customer.name") else value

        def pytest_loom_scrub(config):
            return [no_names]
    """


@pytest.hookspec
def pytest_loom_scorers(config: pytest.Config) -> Mapping[str, Any]:  # type: ignore[empty-body]
    """Scorers that every ``loom.score(run)`` applies, by name.

    Example::

        def pytest_loom_scorers(config):
            return {"polite": lambda state: "please" in state.variables["_output"]["answer"]}
    """


@pytest.hookspec
def pytest_loom_report(config: pytest.Config, report: DeployReport) -> None:
    """Look at the finished report of a deploy simulation, once a session.

    Example::

        from pathlib import Path

        def pytest_loom_report(config, report):
            Path("broken.txt").write_text("".join(f"{found.execution_id}\\n" for found in report.findings))
    """
