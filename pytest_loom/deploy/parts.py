"""A simulation in parts: files and shares of large ones, for the processes of an executor and the machines of a CI job.

Any ``concurrent.futures.Executor`` will do: processes, or the ones that Dask and Ray give. Each part is a simulation of
its own, and its report is merged.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from pathlib import Path
from typing import Any, NamedTuple

from pytest_loom.deploy.report import DeployReport
from pytest_loom.errors import FlowError, LoomError
from pytest_loom.log.share import Share
from pytest_loom.sources import Wanted

LARGE = 16 * 1024 * 1024
"""From so many bytes on a file may be divided; a store at an address always is."""

AT_ONCE = 4
"""How many parts are handed to an executor beyond those that it works on, for each of its workers."""


class Part(NamedTuple):
    """Runs to simulate: a file or an address, and the share of it that is meant."""

    place: str
    share: Share | None = None


def is_divided(size: int, total: int, count: int) -> bool:
    """Whether a file of so many bytes, out of so many in all, is divided among ``count`` workers or machines.

    Each of them would read the whole file, which takes about half as long as to judge it. So only a file that is more
    than the bytes of one of them is divided, and files of which several make one's work are dealt out whole.
    """
    return count > 1 and size >= LARGE and size * count > total


def parts_of(files: Iterable[Path], addresses: Iterable[str], count: int) -> list[Part]:
    """The parts of a corpus for ``count`` workers, the largest first, so that the last ones to be done are small."""
    sizes = sorted(((_size(file), str(file)) for file in files), key=lambda one: (-one[0], one[1]))
    shares: Sequence[Share | None] = [Share(number, count) for number in range(count)] if count > 1 else [None]
    stores = [Part(address, share) for address in addresses for share in shares]
    total = sum(size for size, _ in sizes)
    large = [size for size, _ in sizes if is_divided(size, total, count)]  # which come first
    divided = [Part(name, share) for _, name in sizes[: len(large)] for share in shares]
    return [*stores, *divided, *(Part(name) for _, name in sizes[len(large) :])]


def bytes_of(place: str, share: Share | None) -> int:
    """How many bytes a file, or the share of it that is meant, has; 0 for a store."""
    return _size(Path(place)) // (1 if share is None else share.of)


def divided(place: str, share: Share | None, count: int, total: int) -> list[Part]:
    """A file or an address, or the share of it that is meant, in ``count`` parts where it is to be divided, else whole.

    ``total`` is how many bytes there are in all.
    """
    from pytest_loom.sources import is_address

    if count < 2 or not (is_address(place) or is_divided(bytes_of(place, share), total, count)):
        return [Part(place, share)]
    parts = [Share(number, count) for number in range(count)]
    return [Part(place, part if share is None else share.part(part)) for part in parts]


def items_of(part: Part, wanted: Wanted | None = None) -> Iterator[Any]:
    """The runs of a part, as a simulation wants them."""
    from pytest_loom.sources import is_address, iter_address, iter_wanted

    if is_address(part.place):
        return iter_address(part.place, part.share, wanted)
    return iter_wanted(Path(part.place), wanted, part.share)


def chosen(files: Iterable[Path], shard: Share) -> list[tuple[Path, Share | None]]:
    """The files of one shard of a CI matrix: whole ones, alike in bytes, and its share of those that are divided.

    Every machine has to see the same files (``corpus_of`` tells).
    """
    loads = [0] * shard.of
    mine: list[tuple[Path, Share | None]] = []
    sizes = sorted(((_size(file), str(file)) for file in files), key=lambda one: (-one[0], one[1]))
    total = sum(size for size, _ in sizes)
    for size, name in sizes:
        if is_divided(size, total, shard.of):
            mine.append((Path(name), shard))
            continue
        number = loads.index(min(loads))
        loads[number] += size + 4096  # opening one costs, too
        if number == shard.number:
            mine.append((Path(name), None))
    return mine


def corpus_of(files: Iterable[Path], base: Path) -> str:
    """All files of a corpus in one word, by name and size: shards that saw different ones are no whole. "" for none."""
    names = sorted(f"{os.path.relpath(file, base)} {_size(file)}" for file in files)
    return hashlib.sha256("\n".join(names).encode("utf-8", "surrogateescape")).hexdigest()[:16] if names else ""


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def simulate_parts(
    parts: Iterable[Part], work: Callable[[Part], DeployReport], executor: Executor, workers: int
) -> DeployReport:
    """The merged report of ``work`` on each part, as many at a time as keep the executor busy.

    Raises FlowError where what is handed over cannot be pickled, and whatever ``work`` raises.
    """
    try:
        pickle.dumps(work)
    except Exception as problem:
        raise FlowError(
            f"an executor cannot be given these flows: {type(problem).__name__}: {problem}",
            hint="Give contracts, or a function of a module that returns today's flow: def get_flow(workflow_id).",
        ) from problem
    report = DeployReport()
    left = iter(parts)
    running: set[Future[DeployReport]] = set()
    try:
        while True:
            while len(running) < workers * AT_ONCE and (part := next(left, None)) is not None:
                running.add(executor.submit(work, part))
            if not running:
                return report
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                report.add(future.result())
    finally:
        for future in running:
            future.cancel()


def workers_of(executor: Executor) -> int:
    """How many parts an executor works on at a time, as far as it says so."""
    told = getattr(executor, "_max_workers", None)
    return told if isinstance(told, int) and told > 0 else os.cpu_count() or 1


def check_registered(there: Sequence[str], here: Sequence[str]) -> None:
    """Raise LoomError where a process of the executor does not know what this one has registered."""
    missing = sorted(set(here) - set(there))
    if missing:
        raise LoomError(
            f"the executor's processes do not know {', '.join(missing)}, which is registered here",
            hint="Register it in the module of the flows, which they import.",
        )
