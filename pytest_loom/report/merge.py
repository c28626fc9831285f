"""Reports of the parts of one simulation (CI shards, batch jobs) put together, in any order, to the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_loom.deploy.report import DeployReport
from pytest_loom.errors import LoomError
from pytest_loom.log.share import share_of
from pytest_loom.report.json import read_json

_SHOWN = 5
_MOST = 2**53


def merge_files(paths: Sequence[Path]) -> tuple[DeployReport, bool, dict[str, Any]]:
    """The report of all these ``report.json`` files, whether all of them were ok, and the numbers beside the summary.

    Raises LoomError where a file is no report, and where shards are missing, come twice or saw different files: a part
    that nobody judged must not look like one in which nothing was found.
    """
    report = DeployReport()
    ok = True
    numbers: dict[str, int] = {}
    shards: dict[str, Path] = {}
    corpora: dict[str, Path] = {}
    for path in paths:
        part, part_ok, extra = read_json(path)
        report.add(part)
        ok = ok and part_ok
        shard, corpus = extra.pop("shard", None), extra.pop("corpus", None)
        for name, value in extra.items():
            numbers[name] = numbers.get(name, 0) + (value if isinstance(value, int) and 0 <= value < _MOST else 0)
        if shard is not None:
            _check_shard(shard, path)
            if shard in shards:
                raise LoomError(f"shard {shard} is in {shards[shard]} too", path=str(path))
            shards[shard] = path
            corpora.setdefault(str(corpus), path)
    if len(corpora) > 1:
        one, other = list(corpora.values())[:2]
        raise LoomError(
            f"the shards saw different log files: {one} and {other}",
            hint="Run all of them on the same commit, with the same stores.",
        )
    if shards and len(shards) < len(paths):
        raise LoomError("some of these reports are of shards, and some are not")
    _check_complete(list(shards))
    return report, ok, numbers


def _check_shard(shard: object, path: Path) -> None:
    try:
        share_of(shard if isinstance(shard, str) else "")
    except ValueError as problem:
        raise LoomError(f"not a report of pytest-loom: its shard: {problem}", path=str(path)) from None


def _check_complete(shards: list[str]) -> None:
    wholes = {shard.partition("/")[2] for shard in shards}
    if len(wholes) > 1:
        raise LoomError(f"shards of different numbers: {', '.join(sorted(shards)[:_SHOWN])}")
    for of in wholes:
        missing = [f"{number}/{of}" for number in range(1, int(of) + 1) if f"{number}/{of}" not in shards]
        if missing:
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            raise LoomError(
                f"no report of shard {', '.join(missing[:_SHOWN])}{more}",
                hint="Its runs were not judged. Run it, and merge all of them.",
            )
