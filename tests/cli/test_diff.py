"""``pytest-loom diff``: one run against another, places against places, and what it refuses."""

from __future__ import annotations

import pytest

from pytest_loom.cli.output import ERROR, FINDING, OK
from tests.cli.conftest import Desk, made
from tests.cli.test_show import ESCAPES, polling


def test_the_same(desk: Desk) -> None:
    """Two runs that do the same have no difference, whatever their ids and times are."""
    desk.log("a", made("order-17"))
    desk.log("b", made("order-18", start=1))
    done = desk("diff", "runs/a.loom.jsonl", "runs/b.loom.jsonl")
    assert (done.status, done.out, done.err) == (OK, "no difference\n", "")


def test_what_is_different(desk: Desk) -> None:
    """What differs is explained as a failed test explains it, and the status is 1."""
    desk.log("a", made("order-17"))
    desk.log("b", made("order-17", steps=["assess", "check", "pay"], given={"order": 18}))
    done = desk("diff", "runs/a.loom.jsonl", "runs/b.loom.jsonl")
    assert done.status == FINDING
    assert done.out.splitlines() == [
        "refund/order-17: 1 difference from the golden run, in step check",
        "golden: runs/a.loom.jsonl",
        "candidate: runs/b.loom.jsonl",
        "step check",
        '  new  the step did not run -> "done"',
    ]


def test_ignore_and_compare(desk: Desk) -> None:
    """``--ignore`` leaves paths out, ``--compare`` asks for more kinds; what makes no sense is said by name."""
    desk.log("a", polling(1))
    changed = desk.folder / "runs/b.loom.jsonl"
    changed.write_bytes((desk.folder / "runs/a.loom.jsonl").read_bytes().replace(b'"cursor":0', b'"cursor":5'))
    sides = ("runs/a.loom.jsonl", "runs/b.loom.jsonl")
    assert desk("diff", *sides).status == OK
    done = desk("diff", *sides, "--compare", "step-input", "--json")
    assert (done.status, done.json["ok"]) == (FINDING, False)
    assert done.json["pairs"][0]["differences"] == [
        {"kind": "step-input", "step": "poll", "path": "cursor", "golden": 0, "candidate": 5}
    ]
    assert desk("diff", *sides, "--compare", "all").status == FINDING
    assert desk("diff", *sides, "--compare", "all", "--ignore", "poll.input.cursor").status == OK
    done = desk("diff", *sides, "--ignore", "a..b[")
    assert (done.status, "--ignore" in done.err, "Traceback" in done.err) == (ERROR, True, False)
    assert desk("diff", *sides, "--compare", "nothing").status == ERROR


def test_places_are_compared_run_by_run(desk: Desk) -> None:
    """Folders pair by the runs' ids; a run that only one side has is a difference."""
    for name in ("order-1", "order-2", "order-3"):
        desk.log(f"old/{name}", made(name))
    desk.log("new/x", made("order-1"))
    desk.log("new/y", made("order-2", steps=["assess"]))
    desk.log("new/z", made("order-4"))
    done = desk("diff", "runs/old", "runs/new", "--json")
    assert done.status == FINDING
    assert [len(pair["differences"]) for pair in done.json["pairs"]] == [0, 1]
    assert (done.json["onlyGolden"], done.json["onlyCandidate"]) == (["order-3"], ["order-4"])
    done = desk("diff", "runs/old", "runs/new")
    assert "only the candidate has refund/order-4" in done.out
    assert done.err == "2 runs compared, 1 of them different\n"
    assert desk("diff", "runs/old", "runs/new", "--run", "order-1").status == OK
    assert desk("diff", "runs/old", "runs/new", "--run", "order-3").status == ERROR


@pytest.mark.parametrize("as_json", [False, True])
def test_a_broken_log_is_no_match(desk: Desk, as_json: bool) -> None:
    """A log that cannot be read is never the same as another: status 1, by name, and the others are compared."""
    desk.log("old/a", made("a"))
    desk.log("old/b", made("b"))
    desk.log("new/a", made("a"))
    broken = desk.log("new/b", made("b"))
    broken.write_bytes(broken.read_bytes()[:-20])
    done = desk("diff", "runs/old", "runs/new", *(["--json"] if as_json else []))
    assert (done.status, "runs/new/b.loom.jsonl:6" in done.err) == (FINDING, True)
    if as_json:
        assert (len(done.json["pairs"]), len(done.json["errors"])) == (1, 1)


def test_what_a_log_says_cannot_reach_the_terminal(desk: Desk) -> None:
    """Escapes in what differs are shown escaped; a difference of megabytes takes a line."""
    desk.log("a", made(ESCAPES, steps=[ESCAPES], more=[(f"Said{ESCAPES}", {})]))
    desk.log("b", made("b", steps=["x" * 1_000_000], flow=ESCAPES))
    done = desk("diff", "runs/a.loom.jsonl", "runs/b.loom.jsonl")
    assert done.status == FINDING
    assert all(line.isprintable() and len(line) < 120 for line in done.out.split("\n"))
