"""The cases of native flows, each run of them many times over: told alike or one by one, the report is the same."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import contract_of, simulate_deploy
from pytest_loom.deploy import alike as memo
from pytest_loom.log import alike
from tests.deploy.test_alike import Each, told
from tests.native_cases import truth

CASES = Path(truth.__file__).parent
NAMES = sorted(path.parent.name for path in CASES.glob("*/case.toml"))
_NUMBER = re.compile(r"(?<=:)([1-9][0-9]{1,6})(?=[,}\]])")


def copies(case: Path) -> str:
    """The runs of a case, and some copies of each under other ids, two of them with other numbers in their values."""
    found = []
    for path in sorted((case / "store").glob("*.jsonl")):
        lines = path.read_text(encoding="utf-8").splitlines()
        found += [copy(line, number) for number in range(4) for line in lines]
    return "".join(found)


def copy(line: str, number: int) -> str:
    """One line of such a copy."""
    name = json.loads(line)["executionId"]
    line = line.replace(f'"executionId":{json.dumps(name)}', f'"executionId":{json.dumps(f"{name}-{number}")}')
    head, mark, payload = line.partition('"payload":')
    if number > 1:
        payload = _NUMBER.sub(lambda match: str(int(match[1]) + number), payload)
    return f"{head}{mark}{payload}\n"


def compared(case: Path) -> dict[str, Any]:
    """Both ways to judge the copies, against contracts of either side and against today's code; how many were alike."""
    alike._FIRST, alike._SHARE = 1, 0
    hits: list[str] = []
    enter = memo.Memo.enter

    def noting(self: memo.Memo, report: Any, hit: alike.Hit) -> None:
        hits.append(hit.execution_id)
        enter(self, report, hit)

    memo.Memo.enter = noting  # type: ignore[method-assign]  # this process is nobody else's
    app = truth.application(case, "new")
    today = {name: contract_of(flow) for name, flow in app.flows.items()}
    yesterday = truth.apart(truth.contracts, case, "old")
    different = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "copies.jsonl")
        path.write_text(copies(case), encoding="utf-8")
        for flows in (today, yesterday, app.flows):
            for contract in (None, yesterday):
                quick = told(simulate_deploy(path, flows, contract=contract))
                if quick != told(simulate_deploy(Each(path), flows, contract=contract)):
                    different.append(sorted(flows))
    return {"different": different, "hits": len(hits)}


@pytest.mark.parametrize("name", NAMES)
def test_copies_of_a_case(name: str) -> None:
    """The same report, to the byte, whatever it is that the case does to its runs."""
    assert truth.apart(compared, CASES / name)["different"] == []


def test_copies_are_alike() -> None:
    """What is compared is not nothing: in most cases some copies are told by their text."""
    found = [truth.apart(compared, CASES / name)["hits"] for name in NAMES[::6]]
    assert sum(hits > 0 for hits in found) > len(found) / 2
