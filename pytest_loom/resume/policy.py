"""Policies: which verdict is allowed for which flow, tool or risk class, as data (``loom_policy``; seed 003).

    [risk]                      # classes of tools, by name or by what they may touch; * and ? as in file names
    high = ["pay*", "permission:payments.*"]

    [[rule]]                    # all that a rule says has to match; several rules: only what all of them allow
    risk = "high"               # or tool = "search*", flow = "refund"
    allow = ["resume", "pin"]

    [[worker]]                  # an old worker that is kept: the runs of that version go on there
    flow = "refund"
    version = "1.*"             # and/or fingerprint = "…", build = "…"

    window = 2                  # how many older versions a "compatible window" reads (for the table of strategies)

Without a rule a run may ``resume``, be read through upcasters (``upcast``) and migrations (``migrate``) and stay on a
kept worker (``pin``). A rule that leaves one of them out makes it a breaking finding; one that allows a breaking
verdict turns the findings that ask for it into warnings. High risk fails closed: the class "high" allows ``resume`` and
``pin`` where no rule names it, and a pending call of it must be exactly what was shown.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from pytest_loom.errors import LoomError

Verdict = Literal["resume", "upcast", "migrate", "pin", "reapprove", "fork", "manual", "reject"]
FINE: frozenset[Verdict] = frozenset({"resume", "upcast", "migrate", "pin"})
"""What is allowed where no rule says otherwise: the run goes on, and nobody has to do anything."""

HIGH = "high"
_HIGH_ALLOWS: frozenset[Verdict] = frozenset({"resume", "pin"})
_Pattern = Annotated[str, msgspec.Meta(pattern=r"\S")]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which verdicts are allowed for what matches. ``tool`` and ``risk`` match a run by its pending calls."""

    allow: list[Verdict]
    flow: _Pattern = "*"
    tool: _Pattern | None = None
    risk: _Pattern | None = None


class Worker(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An old worker that is kept for the runs that its patterns match; what it leaves out is not asked for."""

    flow: _Pattern
    version: _Pattern | None = None
    fingerprint: _Pattern | None = None
    build: _Pattern | None = None

    def __post_init__(self) -> None:
        if self.version is None and self.fingerprint is None and self.build is None:
            raise ValueError("a worker says its version, fingerprint or build: which runs are its own?")


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is allowed. An empty policy allows what is fine by itself."""

    risk: dict[str, list[_Pattern]] = {}
    rule: list[Rule] = []
    worker: list[Worker] = []
    window: Annotated[int, msgspec.Meta(ge=0)] = 1

    def risks(self, tool: str, permissions: Iterable[str] = ()) -> set[str]:
        """The risk classes of a tool, by its name and by what it may touch."""
        names = [tool, *(f"permission:{one}" for one in permissions)]
        return {
            risk
            for risk, patterns in self.risk.items()
            if any(fnmatchcase(name, pattern) for name in names for pattern in patterns)
        }

    def allowed(self, flow: str, tools: Iterable[tuple[str, Iterable[str]]]) -> frozenset[Verdict]:
        """The verdicts that are allowed for a run of ``flow`` with pending calls of ``tools`` (name, permissions)."""
        pending = [(name, self.risks(name, permissions)) for name, permissions in tools]
        rules = [rule for rule in self.rule if fnmatchcase(flow, rule.flow) and _matches(rule, pending)]
        found = [frozenset(rule.allow) for rule in rules]
        if any(HIGH in risks for _, risks in pending) and all(rule.risk != HIGH for rule in self.rule):
            found.append(_HIGH_ALLOWS)
        return frozenset.intersection(*found) if found else FINE

    def keeps(self, flow: str, manifest: dict[str, Any]) -> Worker | None:
        """The kept worker that a run belongs to by what its manifest says, or None."""
        told = {
            "version": manifest.get("flowVersion"),
            "fingerprint": manifest.get("contractFingerprint"),
            "build": manifest.get("runtimeBuild"),
        }
        for worker in self.worker:
            wanted = {name: getattr(worker, name) for name in told if getattr(worker, name) is not None}
            if fnmatchcase(flow, worker.flow) and all(
                told[name] is not None and fnmatchcase(str(told[name]), pattern) for name, pattern in wanted.items()
            ):
                return worker
        return None


def load_policy(source: Policy | dict[str, Any] | str | os.PathLike[str] | None) -> Policy:
    """A policy as it is, from plain data of that shape, or from a TOML file.

    Raises LoomError naming the file where it is not of that shape: a misspelt rule would be one that is never applied.
    """
    if source is None:
        return Policy()
    if isinstance(source, Policy):
        return source
    path = "" if isinstance(source, dict) else os.fspath(source)
    try:
        data = source if isinstance(source, dict) else tomllib.loads(Path(source).read_text(encoding="utf-8"))
        return msgspec.convert(data, Policy)
    except OSError as problem:
        raise LoomError(f"the policy cannot be read: {problem.strerror}", path=path) from None
    except ValueError as problem:
        raise LoomError(
            f"not a policy: {problem}",
            path=path,
            hint="It has [risk] classes, [[rule]] with allow and flow, tool or risk, [[worker]] with flow and version, "
            "fingerprint or build, and window.",
        ) from None


def _matches(rule: Rule, pending: list[tuple[str, set[str]]]) -> bool:
    if rule.tool is None and rule.risk is None:
        return True
    return any(
        (rule.tool is None or fnmatchcase(name, rule.tool)) and (rule.risk is None or rule.risk in risks)
        for name, risks in pending
    )
