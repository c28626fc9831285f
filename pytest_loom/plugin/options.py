"""The plugin's flags and ini settings, read once into one object and judged before anything runs."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_loom.deploy.acks import Ack
    from pytest_loom.log.share import Share
    from pytest_loom.resume.policy import Policy

SCOPES = ("auto", "all", "in-flight")
DEFAULT_LOGS = ("**/*.loom.jsonl", "**/*.loom.jsonl.gz")
SUFFIX = "loomrun"
"""How the files of ``loom_snapshot`` end; no other extension of syrupy may end so."""


class Settings:
    """What the user asked for.

    ``base`` is the folder that relative paths start from (the ini file's, else rootdir); ``update`` says that this run
    may rewrite what it compares with (``--snapshot-update`` or ``--loom-update``), ``pending`` that a candidate which
    is different is kept for review, ``contracts`` is the folder of captured contracts, which need not be there.
    """

    def __init__(
        self,
        *,
        base: Path,
        simulate: bool,
        update: bool,
        pending: bool,
        mutate: bool,
        scope: str,
        reports: list[Path],
        log_patterns: list[str],
        flow_lines: list[str],
        acks: list[Ack],
        contracts: Path,
        policy: Policy | None,
        max_age: float | None,
        shard: Share | None,
    ) -> None:
        self.base = base
        self.simulate = simulate
        self.update = update
        self.pending = pending
        self.mutate = mutate
        self.scope = scope
        self.reports = reports
        self.log_patterns = log_patterns
        self.flow_lines = flow_lines
        self.acks = acks
        self.contracts = contracts
        self.policy = policy
        self.max_age = max_age
        self.shard = shard


SETTINGS = pytest.StashKey[Settings]()


def add_options(parser: pytest.Parser) -> None:
    """Declare the flags and ini settings."""
    group = parser.getgroup("loom", "pytest-loom: the recorded log is the fixture")
    group.addoption(
        "--loom-deploy-sim",
        action="store_true",
        help="hold every recorded run (ini loom_logs) against today's flows (ini loom_flows), one test per log file",
    )
    group.addoption(
        "--loom-scope",
        choices=SCOPES,
        default="auto",
        help="which runs count: auto (all of a kept file, the unfinished ones of a live store), all, in-flight",
    )
    group.addoption(
        "--loom-report",
        action="append",
        default=[],
        metavar="FILE",
        help="write the deploy report to FILE, in the form of its suffix (.html, .json, .md, .sarif, .gitlab.json); may"
        " be given several times",
    )
    group.addoption(
        "--loom-shard",
        metavar="K/N",
        help="judge one of N parts of the recorded runs, for CI jobs side by side; see pytest-loom merge",
    )
    group.addoption(
        "--loom-mutate",
        action="store_true",
        help="change goldens and today's flows in ways that somebody should notice, and report what no test notices",
    )
    group.addoption(
        "--loom-update",
        action="store_true",
        help="accept changed golden logs: what --snapshot-update means to pytest-loom, for runs without syrupy",
    )
    group.addoption(
        "--loom-live",
        action="store_true",
        help="let the effects of a run that is being recorded (--snapshot-update) call out; replay never does",
    )
    parser.addini(
        "loom_effects",
        "functions that are recorded and replayed by name, one a line: module:function, module:Class.method, module:*",
        type="linelist",
    )
    parser.addini(
        "loom_allow", "local services that code under test may reach, one a line: localhost:5432", type="linelist"
    )
    parser.addini(
        "loom_scrub", "what else is secret, one a line: a key's name, re:PATTERN, or keep:NAME", type="linelist"
    )
    parser.addini("loom_logs", "globs of recorded logs, one a line (default: every *.loom.jsonl)", type="linelist")
    parser.addini("loom_flows", "today's flows: module:attr, or lines of GLOB = module:attr", type="string")
    parser.addini("loom_acks", "a TOML file of acknowledged findings", type="string")
    parser.addini(
        "loom_contracts",
        "where contracts are captured, one for each that was ever deployed (default: loom-contracts)",
        type="string",
    )
    parser.addini(
        "loom_pending",
        "whether a candidate that differs from its golden is kept beside it, as *.new for pytest-loom review: always,"
        " never, or auto (the default: not where the variable CI is set)",
        type="string",
    )
    parser.addini("loom_policy", "a TOML file: which verdict is allowed for which flow, tool or risk", type="string")
    parser.addini(
        "loom_max_age",
        "say so where the newest recorded run of a flow is older than so many days (default: never)",
        type="string",
    )


def read_settings(config: pytest.Config) -> Settings:
    """Read and judge flags and ini settings. Raises pytest.UsageError for one that makes no sense."""
    base = config.inipath.parent if config.inipath else config.rootpath
    reports = [Path(name) for name in config.getoption("loom_report")]
    for report in reports:
        _check_form(report)
    lines = [line.strip() for line in str(config.getini("loom_flows") or "").splitlines() if line.strip()]
    for line in lines:
        target = line.rpartition("=")[2].strip()
        module, _, attribute = target.partition(":")
        if not module or not attribute or (len(lines) > 1 and "=" not in line):
            raise pytest.UsageError(
                f"loom_flows: {line!r} is not module:attr"
                + (", and several lines have to be GLOB = module:attr" if len(lines) > 1 else "")
            )
    mutate = _mutate(config)
    simulate = config.getoption("loom_deploy_sim") or (mutate and bool(lines))
    if reports and not simulate:
        raise pytest.UsageError("--loom-report writes what a deploy simulation found: give --loom-deploy-sim too")
    acks = str(config.getini("loom_acks") or "").strip()
    contracts = str(config.getini("loom_contracts") or "").strip()
    policy = str(config.getini("loom_policy") or "").strip()
    return Settings(
        base=base,
        simulate=simulate,
        update=bool(config.getoption("loom_update") or config.getoption("update_snapshots", False)),
        pending=not mutate and _pending(str(config.getini("loom_pending") or "").strip()),
        mutate=mutate,
        scope=config.getoption("loom_scope"),
        reports=[config.invocation_params.dir / report for report in reports],
        log_patterns=[str(line) for line in config.getini("loom_logs")],
        flow_lines=lines,
        acks=_acks(base / acks) if acks and simulate else [],
        contracts=base / (contracts or "loom-contracts"),
        policy=_policy(base / policy) if policy and simulate else None,
        max_age=_days(str(config.getini("loom_max_age") or "").strip()),
        shard=_shard(config.getoption("loom_shard"), simulate=simulate),
    )


def _pending(said: str) -> bool:
    """Whether candidates are kept. Raises pytest.UsageError."""
    if said not in ("", "auto", "always", "never"):
        raise pytest.UsageError(f"loom_pending: {said!r} is none of auto, always, never")
    in_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    return said == "always" or (said != "never" and not in_ci)


def _check_form(report: Path) -> None:
    """Raises pytest.UsageError for a report whose suffix tells no form, or one that cannot be written here."""
    from pytest_loom.report.forms import FORMS, form_of, missing_for

    if form_of(report) is None:
        raise pytest.UsageError(f"--loom-report={report}: the form is told by the suffix, one of {', '.join(FORMS)}")
    if what := missing_for(report):
        raise pytest.UsageError(f"--loom-report={report}: {what}")


def _days(text: str) -> float | None:
    """A number of days. Raises pytest.UsageError."""
    if not text:
        return None
    from pytest_loom.deploy.corpus_health import max_age_of

    try:
        return max_age_of(text)
    except ValueError:
        raise pytest.UsageError(f"loom_max_age: {text!r} is no number of days") from None


def _mutate(config: pytest.Config) -> bool:
    """Whether ``--loom-mutate`` is given. Raises pytest.UsageError beside what would keep what mutants do."""
    if not config.getoption("loom_mutate"):
        return False
    not_beside = {
        "update_snapshots": "--snapshot-update would accept",
        "update_new_snapshots_only": "--snapshot-update-new-only would accept",
        "loom_update": "--loom-update would accept",
        "loom_live": "--loom-live would let out",
        "loom_shard": "--loom-shard would leave others to notice",
        "usepdb": "--pdb would stop at",
    }
    for name, why in not_beside.items():
        if config.getoption(name, None):
            raise pytest.UsageError(f"--loom-mutate: {why} what mutants do, so the two do not go together")
    return True


def _shard(text: str | None, *, simulate: bool) -> Share | None:
    """``K/N`` as a share. Raises pytest.UsageError."""
    if text is None:
        return None
    from pytest_loom.log.share import share_of

    try:
        share = share_of(text)
    except ValueError as problem:
        raise pytest.UsageError(f"--loom-shard={text}: {problem}") from None
    if not simulate:
        raise pytest.UsageError("--loom-shard divides a deploy simulation: give --loom-deploy-sim too")
    return share


def hide_summaries(config: pytest.Config) -> None:
    """Have syrupy leave the files of ``loom_snapshot`` alone in every run, by its own option for that."""
    if hasattr(config.option, "ignore_file_extensions"):
        ignored = list(config.option.ignore_file_extensions or ())
        config.option.ignore_file_extensions = ignored if SUFFIX in ignored else [*ignored, SUFFIX]


def accepting(config: pytest.Config, path: Path) -> bool:
    """Whether a change of the golden at ``path`` is to be accepted in this run."""
    if config.stash[SETTINGS].update:
        return True
    return bool(config.getoption("update_new_snapshots_only", False)) and not path.exists()


def _acks(path: Path) -> list[Ack]:
    from pytest_loom.deploy.acks import load_acks
    from pytest_loom.errors import LoomError

    try:
        return load_acks(path)
    except LoomError as error:
        raise pytest.UsageError(f"loom_acks: {error}") from None


def _policy(path: Path) -> Policy:
    from pytest_loom.errors import LoomError
    from pytest_loom.resume.policy import load_policy

    try:
        return load_policy(path)
    except LoomError as error:
        raise pytest.UsageError(f"loom_policy: {error}") from None


def log_files(settings: Settings) -> tuple[dict[Path, None], list[str]]:
    """The files that ``loom_logs`` names (without it: every ``*.loom.jsonl``), and the patterns that match none."""
    from pytest_loom.errors import LogError
    from pytest_loom.sources import find_files, is_address

    found: dict[Path, None] = {}
    empty: list[str] = []
    for pattern in settings.log_patterns or DEFAULT_LOGS:
        if is_address(pattern):
            found[_place_of(pattern, settings.base)] = None
            continue
        try:
            files = find_files(pattern, root=settings.base)
        except LogError:
            empty += [pattern] if settings.log_patterns else []
            continue
        found.update(dict.fromkeys(Path(os.path.abspath(file)) for file in files))  # keeps symlinks
    return found, empty


ADDRESSES: dict[Path, str] = {}
"""The addresses of stores among the logs, by the path that stands for each in node ids: it shows no password."""


def _place_of(address: str, base: Path) -> Path:
    scheme, _, rest = address.partition("://")
    place = rest.rpartition("@")[2].partition("?")[0]
    path = base / f"{scheme}-{re.sub('[^A-Za-z0-9._-]+', '-', place)}"
    ADDRESSES[path] = address
    return path


def flows_target(settings: Settings, log_path: Path | None) -> str | None:
    """The ``module:attr`` that is meant for a log: the first line whose glob matches it. None where no line does.

    Without a log there is no telling between several lines, so only a single one is taken.
    """
    from pytest_loom.contract.targets import target_for

    return target_for(settings.flow_lines, log_path, settings.base)


def import_flows(target: str, base: Path) -> Any:
    """Import ``module:attr``, which the user's own settings name. Raises FlowError saying what failed and where."""
    from pytest_loom.contract.targets import import_target

    return import_target(target, base, setting="loom_flows")


def raised_at(problem: BaseException) -> str:
    """`` (file:line)`` of the user's line that raised, or "" where the import system did."""
    from pytest_loom.contract.targets import raised_at

    return raised_at(problem)


def shown(path: str | Path, base: Path) -> str:
    """A file as it is called from ``base`` where it lies below, else by its whole path."""
    return str(Path(path).relative_to(base)) if Path(path).is_relative_to(base) else str(path)


def accept_command(config: pytest.Config, nodeid: str) -> str:
    """What to type to accept what a test found; ``--snapshot-update`` is syrupy's, which may not be loaded."""
    flag = "--snapshot-update" if hasattr(config.option, "update_snapshots") else "--loom-update"
    return f"pytest {shlex.quote(as_typed(config, nodeid))} {flag}"


def on_github() -> bool:
    """Whether this process is a step of a workflow of GitHub Actions, whose output is searched for commands."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def failing(text: str) -> BaseException:
    """A failed test that shows ``text`` alone: to be raised ``from None`` where an error is being handled."""
    if on_github():
        from pytest_loom.report.github import inert

        text = inert(text)
    return pytest.fail.Exception(text, pytrace=False)


def as_typed(config: pytest.Config, nodeid: str) -> str:
    """A node id as it has to be typed where pytest was started, which need not be its root folder."""
    path, *names = nodeid.split("::")
    return "::".join([os.path.relpath(config.rootpath / path, config.invocation_params.dir), *names])
