"""The report in a pull request, as plain expected text: what a reviewer sees, and what a bot finds it by."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import DeployReport, Finding
from pytest_loom.report.markdown import LIMIT, MARKER, MOST, write_markdown
from tests.report.conftest import changed, found, hostile, report_of, waiting

NUMBERS: dict[str, Any] = {"logs": 3, "not_judged": 0}


@pytest.fixture
def page(tmp_path: Path) -> Any:
    """Write a report and give its text."""

    def text(report: DeployReport, *, ok: bool | None = None, **numbers: Any) -> str:
        path = tmp_path / "report.md"
        write_markdown(report, path, ok=report.ok if ok is None else ok, extra=NUMBERS | numbers)
        assert path.stat().st_size <= LIMIT
        return path.read_text(encoding="utf-8")

    return text


def shown(text: str) -> str:
    """The page without its last part, what to type."""
    return text.partition("<details>\n<summary>What to type")[0]


def test_a_red_report(page: Any) -> None:
    """The marker, the verdict, then the causes with a few runs each and what to do; what stops nothing is folded."""
    text = page(
        report_of(
            *(found(number) for number in range(1, 8)),
            found(8, "approval-stale", hint="Ask again:\n  asked = fork(log, 7)\n  resume(asked)", version="2.0"),
            found(9, "suspended-carryover", "warning", step=None, message="It waits."),
            found(10, "flow-missing", acknowledged="ann until 2027-01-31: by hand", step=None),
        )
    )
    assert shown(text) == (
        "<!-- pytest-loom: deploy simulation -->\n"
        "## NOT SAFE TO DEPLOY: 8 of 10 runs would break, 1 warning, 1 acknowledged\n"
        "\n"
        "pytest-loom held 10 recorded runs (1 unfinished) from 3 log files against today's code.\n"
        "\n"
        "### `step-removed`, flow `refund`, step `assess`, 7 runs\n"
        "\n"
        "It would run again.\n"
        "\n"
        "- `r-1` in `app/logs/1.loom.jsonl:3`\n"
        "- `r-2` in `app/logs/2.loom.jsonl:3`\n"
        "- `r-3` in `app/logs/3.loom.jsonl:3`\n"
        "- and 4 more\n"
        "\n"
        "**What to do:** Keep it.\n"
        "\n"
        "### `approval-stale`, flow `refund` `2.0`, step `assess`\n"
        "\n"
        "It would run again.\n"
        "\n"
        "- `r-8` in `app/logs/8.loom.jsonl:3`\n"
        "\n"
        "**What to do:** Ask again:\n"
        "\n"
        "```python\n"
        "asked = fork(log, 7)\n"
        "resume(asked)\n"
        "```\n"
        "\n"
        "<details>\n"
        "<summary>To look at, though it stops nothing: 2 causes</summary>\n"
        "\n"
        "### acknowledged: `flow-missing`, flow `refund`\n"
        "\n"
        "It would run again.\n"
        "\n"
        "- `r-10` in `app/logs/10.loom.jsonl:3`, acknowledged by ann until 2027-01-31: by hand\n"
        "\n"
        "**What to do:** Keep it.\n"
        "\n"
        "### warning: `suspended-carryover`, flow `refund`\n"
        "\n"
        "It waits.\n"
        "\n"
        "- `r-9` in `app/logs/9.loom.jsonl:3`\n"
        "\n"
        "**What to do:** Keep it.\n"
        "\n"
        "</details>\n"
        "\n"
    )


def test_each_way_out_keeps_its_own_lines(page: Any) -> None:
    """What a hint has to be copied stands behind the sentence that says what it is for."""
    hint = 'Keep it:\n  if patch("it"):\n      it()\nOr begin anew:\n  fork("r-1")\nIt does all of it again.'
    assert (
        "**What to do:** Keep it:\n"
        "\n"
        "```python\n"
        'if patch("it"):\n'
        "    it()\n"
        "```\n"
        "\n"
        "Or begin anew:\n"
        "\n"
        "```python\n"
        'fork("r-1")\n'
        "```\n"
        "\n"
        "It does all of it again.\n"
    ) in page(report_of(found(hint=hint)))


def test_a_note_with_a_command_is_one_line(page: Any) -> None:
    """A command that stands on a line of its own in a terminal is a part of the sentence here."""
    assert "- note: look at it: pytest -x\n" in page(report_of(found(), notes=["look at it:\n  pytest -x"]))


def test_a_green_report(page: Any) -> None:
    """Where nothing breaks the page is the verdict and the commands: no acknowledgement is offered."""
    text = page(report_of(runs=4))
    assert shown(text).splitlines()[1] == "## No breaking change found for 4 runs, 1 of them unfinished"
    assert "[[ack]]" not in text
    assert text.count("\n") < 30


def test_what_was_not_judged(page: Any) -> None:
    """A report without a finding is not green where logs were not judged: the first words say so."""
    assert "\n## NOT JUDGED: 2 of 3 log files, see the failed tests\n" in page(report_of(), ok=False, not_judged=2)
    assert "\n## NOT JUDGED: no log file was judged\n" in page(report_of(), ok=False, logs=0)
    both = page(report_of(found()), ok=False, not_judged=1)
    assert (
        "\n## NOT SAFE TO DEPLOY: 1 of 1 run would break; NOT JUDGED: 1 of 3 log files, see the failed tests\n" in both
    )


def test_the_marker_of_a_shard(page: Any) -> None:
    """Each shard has a marker of its own, so that a bot keeps their comments apart; nothing else gets into it."""
    text = page(report_of(), shard="3/64", corpus="abc")
    assert text.startswith(f"{MARKER}, shard 3/64 -->\n")
    assert "`pytest-loom merge`" in text
    assert page(report_of(), shard="--> <b>").startswith(f"{MARKER} -->\n")


def test_contracts_notes_and_strategies(page: Any) -> None:
    """What changed under unfinished runs, what was not looked at, and what each way to deploy would come to."""
    report = report_of(
        found(), notes=["the graph_of x is not looked at"], changed=[changed("step a is gone", "b", "c", "d")]
    )
    report.run_rows += [
        waiting(1, **{"pinned-workers": "pin", "fail-closed": "fork"}),
        waiting(2, **{"pinned-workers": "reject", "fail-closed": "fork"}),
    ]
    lines = page(report).splitlines()
    assert r"- note: the graph\_of x is not looked at" in lines
    said = "2 unfinished runs: step a is gone; b; c (flowVersion should have moved)"
    assert f"- contract of `refund` 11111111 → 22222222, {said}" in lines
    table = lines[lines.index("| strategy | go on | need a person | stranded |") :][2:4]
    assert table == ["| `pinned-workers` | 1 | 0 | 1 |", "| `fail-closed` | 0 | 2 | 0 |"]


def test_what_to_type(page: Any) -> None:
    """The acknowledgement is TOML once somebody gave a date, and covers just its finding; the commands are there."""
    odd = 'a"b\\c\u00e9\x7f\u2028'
    findings = [found(1, step=odd), found(2, "flow-missing", workflow_id="", step=None)]
    text = page(report_of(*findings))
    (block,) = re.findall("```toml\n(.*?)```", text, re.S)
    with pytest.raises(tomllib.TOMLDecodeError):
        tomllib.loads(block)
    assert block.count("\n\n[[ack]]") == 1
    acks = tomllib.loads(block.replace("YYYY-MM-DD", "2099-12-31"))["ack"]
    assert [(ack["code"], ack["flow"], ack.get("step")) for ack in acks] == [
        ("step-removed", "refund", odd),
        ("flow-missing", "*", None),
    ]
    assert re.findall("```sh\n(.*)\n```", text) == [
        "python -m pytest --loom-deploy-sim",
        "python -m pytest --loom-deploy-sim --snapshot-update -k deploy-sim",
    ]


class TestSize:
    def test_many_causes(self, page: Any) -> None:
        """So many causes are shown and the rest is a number, for those that break and for the others."""
        findings = [found(number, f"code-{number}", "breaking" if number % 2 else "warning") for number in range(100)]
        text = page(report_of(*findings))
        assert len(re.findall(r"^### `", text, re.M)) == MOST
        assert len(re.findall(r"^### warning", text, re.M)) == MOST
        assert text.count("**Not shown here: 30 more causes.**") == 2

    def test_long_texts(self, page: Any) -> None:
        """However long the texts are, the page is no larger than a comment may be, whole, and says what it left out."""
        report = report_of(
            *(hostile(code=f"code-{n}", message="@<" * 2000, hint="@<\n  *" * 900, step=f"s{n}") for n in range(40)),
            notes=[f"{n} " + "@<" * 2000 for n in range(9)],
            changed=[changed("@<" * 2000, flow="`" * n) for n in range(9)],
        )
        text = page(report)
        assert "**Not shown here: " in text
        assert text.count("<details>") == text.count("</details>")
        assert text.endswith("</details>\n\n")
        assert "--snapshot-update" in text

    def test_ten_thousand_runs(self, page: Any) -> None:
        """The number of runs shows in the numbers alone."""
        few, many = (page(report_of(*(found(number) for number in range(size)))) for size in (4, 10_000))
        assert "9997 more" in many
        assert few.count("\n") == many.count("\n")


def test_hostile_text_stays_text(page: Any) -> None:
    """A log can neither add a line, a heading, a link, a mention, HTML nor another marker to the page."""
    clean = page(report_of(found(hint="Keep\nit")))
    text = page(report_of(hostile(hint="Keep\nit")))
    assert shown(text).count("\n") == shown(clean).count("\n")
    outside = re.sub(r"(`+) ?.*?[^`]\1(?!`)", "", shown(text))
    assert not re.search(r"@\w|(?<!&)#\d|(?<!\\)\]\(|(?<!;)://|<b>", outside)
    assert text.count(MARKER) == 1


def test_a_finding_of_no_run(page: Any) -> None:
    """A log that cannot be read at all has neither flow nor run: that is said, too."""
    broken = Finding("log-unreadable", "breaking", "", "", None, "It cannot be read.", "Restore it.", "x.loom.jsonl:7")
    assert "### `log-unreadable`, unknown flow\n" in page(report_of(broken))
    assert "- (no execution named) in `app/x.loom.jsonl:7`\n" in page(report_of(broken))
