"""``*.html`` without a browser: what is in the page, that it stands alone, and that no text of a log is more than text.

``test_html_browser.py`` opens the same page in Chromium.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import DeployReport
from pytest_loom.deploy.lineage import Named
from pytest_loom.deploy.report import RunResult
from pytest_loom.errors import Unsupported
from tests.report.conftest import HOSTILE, changed, found, hostile, report_of
from tests.report.sample import report_of as simulated

pytest.importorskip("jinja2", reason="the HTML report needs the extra html (Jinja2)")

from pytest_loom.report.html import write_html

VOID = {"meta", "link", "input", "br", "col"}


class Page(HTMLParser):
    """A page taken apart: its elements in order, and the text of each kind of them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = text
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[tuple[str, int]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it."""
        self.elements.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")
        if tag not in VOID:
            self.open.append((tag, len(self.texts[tag]) - 1))

    def handle_endtag(self, tag: str) -> None:
        """Everything is closed in the order in which it was opened."""
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        """The text belongs to all that is open."""
        for tag, number in self.open:
            self.texts[tag][number] += data

    def attributes(self, tag: str, name: str) -> list[str | None]:
        """One attribute of all elements of a kind."""
        return [attributes[name] for kind, attributes in self.elements if kind == tag and name in attributes]

    @property
    def words(self) -> str:
        """All that is read, on one line."""
        return " ".join(self.texts["body"][0].split())

    @property
    def data(self) -> Any:
        """What the script is given."""
        (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', self.text, re.S)
        return json.loads(text)

    def timelines(self) -> list[Any]:
        """The timelines that are in the page."""
        found_ = re.findall(r'<script type="application/json" id="timeline-\d+">(.*?)</script>', self.text, re.S)
        return list(map(json.loads, found_))


def page(report: DeployReport, *, ok: bool | None = None, **extra: Any) -> Page:
    """The page of a report, written in the folder where pytest stands."""
    path = Path("report.html").absolute()
    write_html(report, path, ok=report.ok if ok is None else ok, extra={"logs": 3, "not_judged": 0, **extra})
    return Page(path.read_text(encoding="utf-8"))


def runs_of(report: DeployReport, **facts: Any) -> DeployReport:
    """The report, with a run for each of its findings."""
    for one in report.findings:
        run = RunResult(one.execution_id, one.workflow_id, "suspended", "fork", one.source, **facts)
        report.run_rows.append(run)
    return report


@pytest.fixture
def sample(tmp_path_factory: pytest.TempPathFactory) -> DeployReport:
    """A deploy that goes wrong for forty runs and four."""
    return simulated(40, tmp_path_factory.mktemp("contracts"))


class TestWhatIsThere:
    def test_the_verdict_first(self, sample: DeployReport) -> None:
        """The title says it, so does the only first-level heading, and the numbers are below."""
        made = page(sample)
        assert made.texts["title"] == ["NOT SAFE TO DEPLOY · pytest-loom"]
        assert made.texts["h1"] == ["NOT SAFE TO DEPLOY"]
        assert "24 of 44 runs would break, 36 warnings" in made.words

    def test_what_broke_for_whom_since_when_and_what_to_type(self, sample: DeployReport) -> None:
        """One line for each cause, the one with the most runs first."""
        rows = [" ".join(text.split()) for text in page(sample).texts["tr"]]
        (step,) = [row for row in rows if row.startswith("step-removed")]
        assert "12 runs of refund 1.2.0, step assess" in step
        assert "contract " in step
        assert "(1.2.0, captured 2025-12-19 16:30 UTC) → " in step
        assert "step assess is gone" in step
        assert "Keep the step id assess" in step
        assert '"steps": {"assess": {}, …}' in step
        assert rows.index(step) < next(n for n, row in enumerate(rows) if row.startswith("flow-missing"))

    def test_a_cause_in_full(self, sample: DeployReport) -> None:
        """What was recorded, what today has, what a resume does, since when, to which runs, and the ways out."""
        made = page(sample)
        (cause,) = [" ".join(text.split()) for text in made.texts["details"] if "breaking step-removed" in text]
        for part in (
            "step assess has run, but today's refund has no such step",
            "step assess completed, event 5 of 5",
            "has no step assess, but inspect, assess_risk, pay, notify",
            "The recorded result is not used, and the work is done a second time.",
            "refund-10 app/logs/refund/day-11.loom.jsonl",
            "and 9 more",
            "patch Keep the step's id",
            "pin Keep a worker of that version",
            '[[worker]] flow = "refund" version = "1.2.0"',
            "accept Accept it until a day",
            '[[ack]] code = "step-removed"',
        ):
            assert part in cause

    def test_contracts(self, sample: DeployReport) -> None:
        """Each change with whom it hurts, and both contracts side by side."""
        made = page(sample)
        assert "step assess is gone" in made.words
        gone = [text for text in made.texts["td"] if text.startswith("gone: ")]
        assert any('"assess": {}' in text for text in gone)
        assert any('"assess_risk": {}' in text for text in made.texts["td"] if text.startswith("new: "))
        assert "lines that are the same" in made.words

    def test_strategies(self, sample: DeployReport) -> None:
        """How many runs each way to deploy lets go on, hands to a person and strands."""
        made = page(sample)
        cells = [
            (attributes["data-strategy"], attributes["data-outcome"])
            for _, attributes in made.elements
            if "data-strategy" in attributes
        ]
        numbers = dict(zip(cells, [text for text in made.texts["td"] if text.isdecimal()], strict=True))
        assert [numbers["pinned-workers", outcome] for outcome in ("go_on", "need_a_person", "stranded")] == [
            "20",
            "4",
            "20",
        ]

    def test_the_runs(self, sample: DeployReport) -> None:
        """Every run with its verdict and its causes, those that would break first."""
        data = page(sample).data
        assert len(data["rows"]) == 44
        first, last = data["rows"][0], data["rows"][-1]
        assert "breaking" in {data["causes"][cause]["state"] for cause, _ in first[6]}
        assert data["verdicts"][last[3]] == "resume"
        (row,) = [row for row in data["rows"] if row[0] == "refund-10"]
        assert data["flows"][row[1]] == "refund"
        assert data["statuses"][row[2]] == "running"
        assert data["sources"][row[4]] == "app/logs/refund/day-11.loom.jsonl"
        assert (row[5], data["versions"][row[8]]) == ("2026-01-11 09:14", "1.2.0")
        assert data["ways"][row[7]]["pinned-workers"] == "reject"

    def test_timelines_of_a_few(self, sample: DeployReport) -> None:
        """Three runs of each cause are there in full."""
        made = page(sample)
        data = made.data
        shown = [row for row in data["rows"] if row[9] >= 0]
        assert sorted(row[9] for row in shown) == list(range(len(made.timelines())))
        counts = Counter(cause for row in shown for cause, _ in row[6])
        assert {counts[number] for number, cause in enumerate(data["causes"])} <= {
            2,
            3,
            4,
            5,
            6,
        }  # two are all there are
        (payout,) = [row for row in shown if row[0] == "payout-0"]
        told = made.timelines()[payout[9]]
        assert told["rows"][told["first"]]["today"] == "stops"

    def test_green(self) -> None:
        """Nothing broke, and that is said; there is no empty section."""
        made = page(report_of(runs=2))
        assert made.texts["h1"] == ["No breaking change found"]
        assert "No breaking change found In 2 runs, 1 of them unfinished" in made.words
        assert "found No unfinished run, so nothing can break" in page(report_of()).words
        assert "Nothing." in made.words
        assert [text for text in made.texts["h2"] if text] == ["What broke", "Runs"]

    def test_not_judged(self) -> None:
        """A log that nobody judged is neither green nor red."""
        made = page(report_of(runs=2), ok=False, not_judged=1)
        assert made.texts["h1"] == ["NOT JUDGED"]
        assert "1 of 3 log files" in made.words
        assert made.attributes("header", "class") == ["verdict open"]

    def test_what_was_accepted(self) -> None:
        """It stays in sight with who and why, and is nothing that broke."""
        made = page(report_of(found(acknowledged="ann until 2027-01-31: by hand")))
        assert "acknowledged by ann until 2027-01-31: by hand" in made.words
        assert "Nothing." in made.words

    def test_notes_and_shard(self) -> None:
        """What was not looked at is said, and of which shard the page is."""
        report = report_of(found(), runs=12_345, notes=["today's refund says nothing of its steps"])
        report.lineage.patches["refund", "faster", "version 2"] = report.lineage.open["refund"] = Named(3, ["r-1"])
        made = page(report, shard="3/64")
        assert "faster" in made.words
        assert "1 of 12,345 runs would break" in made.words
        assert "today's refund says nothing of its steps" in made.words
        assert "shard 3/64" in made.words

    def test_no_contract_was_kept(self) -> None:
        """Then since when is not known, and the command that keeps contracts is there."""
        made = page(report_of(found()))
        assert "not known, because no contract was kept" in made.words
        assert "python -m pytest --loom-deploy-sim --snapshot-update -k deploy-sim" in made.words


class TestManyRuns:
    def test_more_than_are_listed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The list is cut at a number, those that would break come first, and the page says so."""
        monkeypatch.setattr("pytest_loom.report.html.LISTED", 100)
        monkeypatch.setattr("pytest_loom.report.html_runs.LISTED", 100)
        monkeypatch.setattr("pytest_loom.deploy.rows.IN_MEMORY", 500)
        report = report_of(
            *(found(number, severity="breaking" if number > 960 else "warning") for number in range(1000))
        )
        made = page(runs_of(report))
        assert "The list has 100 of 1,000 runs, those that would break first." in made.words
        states = [made.data["causes"][row[6][0][0]]["state"] for row in made.data["rows"]]
        assert Counter(states) == {"breaking": 39, "warning": 61}
        assert states == sorted(states)

    def test_many_causes(self) -> None:
        """The first hundred of them, and a number."""
        made = page(report_of(*(found(number, step=f"s-{number}") for number in range(300))))
        assert "and 200 more causes" in made.words
        assert made.text.count('class="cause breaking"') == 100

    def test_texts_are_told_once(self) -> None:
        """Runs of one cause whose messages differ have their own; what is the same is written once."""
        made = page(runs_of(report_of(*(found(number, message=f"It waits for {number % 2}.") for number in range(50)))))
        assert made.data["texts"] == ["It waits for 1."]
        assert Counter(row[6][0][1] for row in made.data["rows"]) == {-1: 25, 0: 25}

    def test_runs_of_one_name(self) -> None:
        """Runs that are called alike in several files keep their own findings."""
        report = report_of(
            found(1, source="a.loom.jsonl"), found(1, code="flow-missing", source="b.loom.jsonl:7", step=None)
        )
        for source in ("a.loom.jsonl", "b.loom.jsonl"):
            report.run_rows.append(RunResult("r-1", "refund", "running", "fork", source))
        data = page(report).data
        codes = {row[4]: [data["causes"][cause]["code"] for cause, _ in row[6]] for row in data["rows"]}
        assert {data["sources"][source]: why for source, why in codes.items()} == {
            "app/a.loom.jsonl": ["step-removed"],
            "app/b.loom.jsonl": ["flow-missing"],
        }

    def test_parts_of_a_simulation(self, tmp_path: Path) -> None:
        """Merged from shards there are three timelines of a cause, not three of each shard: those of its examples."""
        report = report_of(*(found(number) for number in range(12)))
        for number in range(12):
            told = {"events": 1, "how": "so", "first": None, "rows": []} if number % 2 else None
            source = f"logs/{number}.loom.jsonl"
            report.run_rows.append(RunResult(f"r-{number}", "refund", "running", "fork", source, timeline=told))
        made = page(report)
        assert len(made.timelines()) == 3
        assert sorted(row[0] for row in made.data["rows"] if row[9] >= 0) == ["r-1", "r-11", "r-3"]
        assert [text.split()[0] for text in made.texts["li"] if "logs/" in text] == ["r-1", "r-11", "r-3"]


class TestItStandsAlone:
    def test_nothing_is_fetched(self, sample: DeployReport) -> None:
        """No address of anything, no frame, no font; the policy forbids it besides."""
        made = page(sample)
        assert not [tag for tag, _ in made.elements if tag in ("img", "iframe", "object", "embed", "form", "base")]
        assert {name for _, attributes in made.elements for name in attributes} & {"src", "srcset", "action"} == set()
        assert [
            link for link in made.attributes("link", "href") + made.attributes("a", "href") if "//" in str(link)
        ] == []
        assert "url(" not in made.texts["style"][0]
        assert "@import" not in made.texts["style"][0]

    def test_the_policy_allows_this_script_and_this_style(self, sample: DeployReport) -> None:
        """By their hashes; there is no other script, no handler and no style in an attribute."""
        made = page(sample)
        (policy,) = [content for content in made.attributes("meta", "content") if "default-src" in str(content)]
        (script,) = re.findall(r"<script>(.*?)</script>", made.text, re.S)
        for name, text in (("script", script), ("style", made.texts["style"][0])):
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"{name}-src 'sha256-{digest}'" in str(policy)
        assert "default-src 'none'" in str(policy)
        assert "unsafe" not in str(policy)
        names = {name for _, attributes in made.elements for name in attributes}
        assert not [name for name in names if name.startswith("on") or name == "style"]

    def test_for_keyboard_and_screen_reader(self, sample: DeployReport) -> None:
        """Landmarks, headings without a gap, tables whose heads say of what they are; labels around every field."""
        made = page(sample)
        tags = Counter(tag for tag, _ in made.elements)
        assert (tags["main"], tags["header"], tags["nav"], tags["footer"], tags["h1"]) == (1, 1, 1, 1, 1)
        levels = [int(tag[1]) for tag, _ in made.elements if re.fullmatch("h[1-6]", tag)]
        assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
        assert all(attributes.get("scope") in ("col", "row") for tag, attributes in made.elements if tag == "th")
        assert tags["caption"] == tags["table"]
        assert tags["label"] == tags["select"] + tags["input"]
        ids = [attributes["id"] for _, attributes in made.elements if "id" in attributes]
        assert len(ids) == len(set(ids))
        assert made.attributes("html", "lang") == ["en"]

    def test_the_folder_is_made_and_the_file_replaced(self, sample: DeployReport, tmp_path: Path) -> None:
        """As a whole, like every other form."""
        path = tmp_path / "out" / "report.html"
        write_html(sample, path, ok=False, extra={})
        write_html(report_of(), path, ok=True, extra={})
        assert "step-removed" not in path.read_text()
        assert [file.name for file in path.parent.iterdir()] == ["report.html"]

    def test_the_same_report_is_the_same_page(self, sample: DeployReport) -> None:
        """No time of writing, no order of a set."""
        assert page(sample).text == page(DeployReport.unpacked(sample.packed())).text


class TestUntrusted:
    def test_names_from_logs(self) -> None:
        """Whatever a log says is text: as many elements as with plain names, and no line or mark of its own."""
        plain = page(runs_of(report_of(found(version="1"), changed=[changed("is gone")], notes=["n"])))
        evil = page(
            runs_of(
                report_of(
                    hostile(version=HOSTILE, recorded=HOSTILE[:20].encode("ascii", "backslashreplace").decode()),
                    changed=[changed(HOSTILE, flow=HOSTILE)],
                    notes=[HOSTILE],
                )
            )
        )
        tags = [Counter(tag for tag, _ in made.elements) for made in (plain, evil)]
        assert {tag: tags[1][tag] for tag in ("script", "style", "b", "img", "meta", "link", "h1", "h2")} == {
            tag: tags[0][tag] for tag in ("script", "style", "b", "img", "meta", "link", "h1", "h2")
        }
        assert "\x1b" not in evil.text
        assert "\u2028" not in evil.text
        assert "<b>" not in evil.text

    @pytest.mark.parametrize(
        "name",
        [
            "</script><script>alert(1)</script>",
            "<!--<script>",
            "&lt;",
            "]]>",
            "\u2028",
            "{{ 7*7 }}",
            '"><img src=x>',
            "'",
        ],
    )
    def test_each_way_out_of_text(self, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
        """Ends of scripts, comments, entities, templates and quotes, in every name and value that a log chooses."""
        report = simulated(20, tmp_path_factory.mktemp("contracts"), hostile=name)
        made = page(report)
        shown = name if name.isprintable() else "\\u2028"
        assert f"refund-10{shown}" in {row[0] for row in made.data["rows"]}
        assert len(re.findall("<script", made.text)) == 2 + len(made.timelines())
        parts = [part for told in made.timelines() for row in told["rows"] for part in row.get("was", ())]
        assert any(json.dumps(name, ensure_ascii=False)[1:-1].replace(name, shown) in text for _, text in parts)
        assert "img" not in made.texts

    def test_a_report_of_another_machine(self) -> None:
        """No folder of the machine that judged is in the page."""
        here = str(Path.cwd())
        made = page(runs_of(report_of(found(source=f"{here}/logs/1.loom.jsonl", message=f"see {here}/flows.py"))))
        assert here not in made.text


def test_without_jinja2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is missing is named, with what to type; nothing is written."""
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(Unsupported, match=r"pip install 'pytest-loom\[html\]'"):
        write_html(report_of(), tmp_path / "report.html", ok=True, extra={})
    assert list(tmp_path.iterdir()) == []
