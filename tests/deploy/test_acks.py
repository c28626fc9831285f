"""Acknowledged findings: what a file of them may say, which findings they cover, and when they end."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import Finding, LoomError
from pytest_loom.deploy.acks import Ack, acknowledge, load_acks

WHOLE = """
[[ack]]
code = "step-removed"
flow = "refund"
step = "assess"
execution = "r-1"
owner = "ann@example.org"
reason = "finished by hand"
expires = 2027-01-31
"""
TODAY = date(2027, 1, 30)


def found(code: str = "step-removed", **other: Any) -> Finding:
    """A breaking finding on step assess of refund run r-1."""
    facts: dict[str, Any] = {"workflow_id": "refund", "execution_id": "r-1", "step": "assess"}
    facts |= {"message": "It broke.", "hint": "Mend it.", "source": "a.loom.jsonl", **other}
    return Finding(code, "breaking", **facts)


def ack(**other: Any) -> Ack:
    """An acknowledgement of that finding."""
    facts: dict[str, Any] = {"code": "step-removed", "flow": "refund", "owner": "ann", "reason": "known"}
    return Ack(**{**facts, "expires": date(2027, 1, 31), **other})


class TestFile:
    def test_all_that_an_entry_may_say(self, tmp_path: Path) -> None:
        """Code, flow, owner, reason and date, with a step and a run where it is meant for these only."""
        file = tmp_path / "acks.toml"
        file.write_text(WHOLE + WHOLE.replace('step = "assess"\nexecution = "r-1"\n', "").replace('"refund"', '"*"'))
        first, second = load_acks(file)
        assert first == ack(step="assess", execution="r-1", owner="ann@example.org", reason="finished by hand")
        assert (second.flow, second.step, second.execution) == ("*", None, None)

    def test_an_empty_file(self, tmp_path: Path) -> None:
        """No entry is no error: a file of which the last entry was deleted."""
        (tmp_path / "acks.toml").write_text("# nothing acknowledged\n")
        assert load_acks(tmp_path / "acks.toml") == []

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            pytest.param("[[ack]\n", "", id="not-TOML"),
            pytest.param(WHOLE.replace("owner =", "# owner ="), "owner", id="no-owner"),
            pytest.param(WHOLE.replace('"ann@example.org"', '""'), "owner", id="empty-owner"),
            pytest.param(WHOLE.replace('"finished by hand"', '" "'), "reason", id="blank-reason"),
            pytest.param(WHOLE.replace("expires =", "# expires ="), "expires", id="for-ever"),
            pytest.param(WHOLE.replace("2027-01-31", '"soon"'), "expires", id="no-date"),
            pytest.param(WHOLE.replace("execution", "executoin"), "executoin", id="misspelt"),
            pytest.param(WHOLE.replace("[[ack]]", "[[acks]]"), "acks", id="misspelt-list"),
            pytest.param(WHOLE.replace('step = "assess"', "step = 7"), "step", id="wrong-type"),
            pytest.param(WHOLE.replace("[[ack]]", "[ack]"), "ack", id="not-a-list"),
        ],
    )
    def test_a_malformed_file_is_one_error_that_names_it(self, tmp_path: Path, text: str, says: str) -> None:
        """An entry that says less or other than it should is refused with the file, the place and the right shape."""
        file = tmp_path / "acks.toml"
        file.write_text(text)
        with pytest.raises(LoomError) as caught:
            load_acks(file)
        assert caught.value.path == str(file)
        assert says in caught.value.what
        assert "owner, reason and expires" in caught.value.hint

    @pytest.mark.parametrize("kind", ["missing", "folder", "no-text"])
    def test_a_file_that_cannot_be_read(self, tmp_path: Path, kind: str) -> None:
        """A missing file, a folder and bytes that are no text are one readable error, too."""
        file = tmp_path / "acks.toml"
        if kind == "folder":
            file.mkdir()
        elif kind == "no-text":
            file.write_bytes(b"\xff")
        with pytest.raises(LoomError) as caught:
            load_acks(file)
        assert str(caught.value).startswith(f"{file}: ")


class TestCover:
    @pytest.mark.parametrize(
        ("other", "covers"),
        [
            ({}, True),
            ({"flow": "*"}, True),
            ({"step": "assess", "execution": "r-1"}, True),
            ({"code": "flow-missing"}, False),
            ({"flow": "refunds"}, False),
            ({"step": "pay"}, False),
            ({"execution": "r-2"}, False),
        ],
        ids=str,
    )
    def test_what_an_acknowledgement_is_about(self, other: dict[str, Any], covers: bool) -> None:
        """Its code, its flow (``*`` is every flow), and the step and the run where it names them."""
        (after,) = acknowledge([found()], [ack(**other)], TODAY)
        assert (after.acknowledged is not None, after.blocks) == (covers, not covers)

    def test_an_acknowledged_finding_says_by_whom(self) -> None:
        """It keeps all that it said, and adds who accepted it, until when, and why."""
        (after,) = acknowledge([found()], [ack()], TODAY)
        assert after == found(acknowledged="ann until 2027-01-31: known")

    def test_it_ends_on_its_date(self) -> None:
        """The day before it still covers; on the day itself the finding is red again and says so."""
        (before,) = acknowledge([found()], [ack()], date(2027, 1, 30))
        (on_the_day,) = acknowledge([found()], [ack()], date(2027, 1, 31))
        assert (before.blocks, on_the_day.blocks) == (False, True)
        assert on_the_day.message == "It broke. (Acknowledged by ann until 2027-01-31, which has come.)"

    def test_of_several_the_longest_counts(self) -> None:
        """An entry that was prolonged by a second one covers until the later date."""
        acks = [ack(expires=date(2027, 1, 1)), ack(expires=date(2027, 6, 1), owner="ben"), ack()]
        (after,) = acknowledge([found()], acks, TODAY)
        assert after.acknowledged == "ben until 2027-06-01: known"

    def test_text_from_the_file_stays_on_its_line(self) -> None:
        """A reason of several lines cannot forge a report."""
        (after,) = acknowledge([found()], [ack(reason="a\nb\x1b[2J")], TODAY)
        assert after.acknowledged is not None
        assert after.acknowledged.isprintable()

    def test_the_others_are_left_alone(self) -> None:
        """What no entry covers comes back as it was, in its place."""
        others = [found("flow-missing"), found(), found(execution_id="r-2")]
        after = list(acknowledge(others, [ack(execution="r-1")], TODAY))
        assert [one.acknowledged is None for one in after] == [True, False, True]
        assert (after[0], after[2]) == (others[0], others[2])
