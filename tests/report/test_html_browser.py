"""The HTML report in Chromium: by keyboard, in light and dark, on a narrow screen, with ten thousand runs.

``LOOM_SCREENSHOTS=1 python -m pytest tests/report/test_html_browser.py -k screenshots`` makes the pictures of the
documentation (``docs/images``) anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import DeployReport, __version__
from tests.report.sample import report_of

pytest.importorskip("jinja2", reason="the HTML report needs the extra html (Jinja2)")
playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")

from pytest_loom.report.html import write_html  # noqa: E402  # needs Jinja2
from pytest_loom.report.text import (  # noqa: E402
    MOST,
    PAINT,
    finding_lines,
    verdict_line,
    weight,
)

CHROMIUM = os.environ.get("LOOM_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("Chromium is not installed (apt-get install chromium, or LOOM_CHROMIUM)", allow_module_level=True)

ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
]
IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
SHOWN = IMAGES / "shown.json"
"""What each of them shows, in a word: its text and style."""

AGAIN = bool(os.environ.get("LOOM_SCREENSHOTS"))
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module", autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Paths of logs are shown from the root of the repository that pytest stands in."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("repository"))
    Path(".git").mkdir()
    yield
    os.chdir(before)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> DeployReport:
    """The deploy that goes wrong, for two thousand runs."""
    return report_of(2_000, tmp_path_factory.mktemp("contracts"))


@pytest.fixture(scope="module")
def page_file(report: DeployReport, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its page."""
    return written(report, tmp_path_factory.mktemp("page") / "report.html")


def written(report: DeployReport, path: Path) -> Path:
    """Write the page of a report."""
    write_html(report, path, ok=report.ok, extra={"logs": 93, "not_judged": 0})
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium, with an empty profile of its own."""
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, headless=True)
        yield found
        found.close()


class Reader:
    """Somebody who looks at a page: opens it, and sees that nothing went wrong and nothing was asked for."""

    def __init__(self, browser: Any, **how: Any) -> None:
        self.context = browser.new_context(viewport=how.pop("viewport", WIDE), **how)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def opens(self, file: Path, then: str = "") -> Any:
        """Open a page from the disk, as one from a CI job's artifacts is."""
        self.page.goto(f"{file.as_uri()}{then}")
        self.page.wait_for_selector("#found:not(:empty)")
        return self.page

    def leaves(self, file: Path) -> None:
        """Close it; nothing was said on the console, and nothing but the page itself was asked for."""
        self.context.close()
        assert self.said == []
        assert {address.partition("#")[0] for address in self.asked} <= {file.as_uri()}


@pytest.fixture
def reader(browser: Any, page_file: Path) -> Iterator[Any]:
    """The page, open on a wide screen in light."""
    one = Reader(browser, color_scheme="light", reduced_motion="reduce")
    yield one.opens(page_file)
    one.leaves(page_file)


def tab_to(page: Any, selector: str, *, most: int = 60) -> None:
    """Press the tab key until an element has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"the tab key does not come to {selector}")


def says(page: Any, text: str) -> None:
    """Wait until the list says that it has found so many runs."""
    playwright.expect(page.locator("#found")).to_have_text(text)


class TestByKeyboard:
    def test_search(self, reader: Any) -> None:
        """From the top, by tab alone: the link that skips, then the field; typing finds, and finds all again."""
        reader.keyboard.press("Tab")
        assert reader.evaluate("document.activeElement.textContent") == "Skip to what was found"
        tab_to(reader, "#search")
        reader.keyboard.type("refund step-removed 2025")
        says(reader, "0 of 2,004 runs")
        for _ in range(5):
            reader.keyboard.press("Backspace")
        says(reader, "600 of 2,004 runs")
        tab_to(reader, "#clear")
        reader.keyboard.press("Enter")
        says(reader, "2,004 runs")

    def test_filters(self, reader: Any) -> None:
        """Each select takes an arrow key, and filters add up."""
        tab_to(reader, "#by-verdict")
        reader.keyboard.type("fork")
        says(reader, "304 of 2,004 runs")
        tab_to(reader, "#by-status")
        reader.keyboard.type("running")
        says(reader, "300 of 2,004 runs")

    def test_pages(self, reader: Any) -> None:
        """The list goes on by buttons; the first page has no previous one."""
        assert reader.is_disabled("#before")
        tab_to(reader, "#after", most=200)
        reader.keyboard.press("Enter")
        assert reader.text_content("#page-now") == "Page 2 of 41"
        assert reader.evaluate("document.activeElement.id") == "after"

    def test_a_run(self, reader: Any) -> None:
        """Enter opens it, the first divergence is in view, payloads are folded; Escape goes back to where one was."""
        tab_to(reader, ".glance a")
        tab_to(reader, "button.run")
        name = reader.evaluate("document.activeElement.textContent")
        reader.keyboard.press("Enter")
        assert reader.text_content("#run-title") == f"Run {name}"
        assert reader.is_visible("tr.first")
        assert "First divergence" in str(reader.text_content("tr.first"))
        box, window = reader.locator("tr.first").bounding_box(), reader.viewport_size
        assert 0 <= box["y"] <= window["height"] - box["height"]
        assert reader.locator("dialog details[open]").count() == 0
        tab_to(reader, "dialog summary")
        reader.keyboard.press("Enter")
        assert "amount_cents" in str(reader.text_content("dialog details[open] pre"))
        reader.keyboard.press("Escape")
        assert not reader.is_visible("dialog")
        assert reader.evaluate("document.activeElement.textContent") == name

    def test_from_a_run_to_its_cause(self, reader: Any) -> None:
        """What was found about a run leads to what to do about it."""
        reader.locator("#table button.run").first.focus()
        reader.keyboard.press("Enter")
        tab_to(reader, "dialog ul button")
        code = reader.evaluate("document.activeElement.textContent")
        reader.keyboard.press("Enter")
        playwright.expect(reader.locator("details[open] > summary:focus")).to_contain_text(code)
        assert not reader.is_visible("dialog")

    def test_all_runs_of_a_cause(self, reader: Any) -> None:
        """From a cause to its runs in the list."""
        tab_to(reader, ".more button")
        reader.keyboard.press("Enter")
        says(reader, "600 of 2,004 runs")
        assert reader.evaluate("document.activeElement.id") == "search"

    def test_what_a_strategy_strands(self, reader: Any) -> None:
        """From a number of the table to the runs that it counts."""
        reader.locator("td[data-strategy=pinned-workers][data-outcome=stranded] button").focus()
        reader.keyboard.press("Enter")
        says(reader, "1,000 of 2,004 runs")

    def test_from_a_line_to_its_cause(self, reader: Any) -> None:
        """A line of the first table opens the cause that it is about."""
        reader.locator(".glance a").nth(2).focus()
        reader.keyboard.press("Enter")
        playwright.expect(reader.locator("details[open] > summary:focus")).to_have_count(1)

    def test_copying(self, browser: Any, page_file: Path) -> None:
        """The lines to paste are copied, or selected where the browser does not let a page copy."""
        one = Reader(browser)
        page = one.opens(page_file)
        page.locator(".way .copy").first.focus()
        page.keyboard.press("Enter")
        playwright.expect(page.locator(".way .copy").first).to_have_text(re.compile("Copied|Selected"))
        one.leaves(page_file)


class TestScreens:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_light_and_dark(self, browser: Any, page_file: Path, scheme: str) -> None:
        """The page follows the system, all of it."""
        one = Reader(browser, color_scheme=scheme)
        page = one.opens(page_file)
        colours = page.evaluate(
            "getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color"
        )
        first, second = (sum(map(int, part.strip("rgb() ").split(","))) for part in colours.split(")")[:2])
        assert (first > second) is (scheme == "light")
        one.leaves(page_file)

    @pytest.mark.parametrize("width", [320, 390, 700, 1280])
    def test_no_width_scrolls_sideways(self, browser: Any, page_file: Path, width: int) -> None:
        """The page and an open run are as wide as the screen."""
        one = Reader(browser, viewport={"width": width, "height": 800})
        page = one.opens(page_file)
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.locator("#table button.run").first.click()
        page.evaluate("document.querySelectorAll('dialog details').forEach(one => { one.open = true; })")
        assert page.evaluate("document.querySelector('dialog').scrollWidth") <= width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        one.leaves(page_file)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_accessibility(browser: Any, page_file: Path, scheme: str, viewport: Any) -> None:
    """axe finds nothing: not in the page with all of it unfolded, not in an open run."""
    script = axe()
    one = Reader(browser, color_scheme=scheme, viewport=viewport, bypass_csp=True, reduced_motion="reduce")
    page = one.opens(page_file)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    page.evaluate(script)
    for what in ("page", "run"):
        if what == "run":
            page.locator(".examples button.run").first.click()
        result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        problems = [
            (rule["id"], rule["nodes"][0]["html"], rule["nodes"][0]["failureSummary"]) for rule in result["violations"]
        ]
        assert problems == [], what
        assert len(result["passes"]) > 20
    one.context.close()


def axe() -> str:
    """axe-core's script: LOOM_AXE names it, else the package axe-playwright-python has it."""
    named = os.environ.get("LOOM_AXE")
    if named:
        return Path(named).read_text(encoding="utf-8")
    spec = find_spec("axe_playwright_python")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("axe-core is not there: pip install axe-playwright-python, or LOOM_AXE=axe.min.js")
    return (Path(spec.submodule_search_locations[0]) / "axe.min.js").read_text(encoding="utf-8")


def test_ten_thousand_runs(browser: Any, report: DeployReport, tmp_path: Path) -> None:
    """The page opens in less than two seconds, list and all, and finds one run among all of them at once."""
    large = DeployReport(examined=5 * report.examined, in_flight=5 * report.in_flight, changed=report.changed)
    for number in range(5):
        large.finding_rows += (replace(one, execution_id=f"{one.execution_id}-{number}") for one in report.findings)
        large.run_rows += (replace(one, execution_id=f"{one.execution_id}-{number}") for one in report.runs)
    file = written(large, tmp_path / "large.html")
    one = Reader(browser)
    page = one.opens(file)
    page.wait_for_load_state("load")
    milliseconds = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    print(f"10,020 runs, {file.stat().st_size:,} bytes: open after {milliseconds:.0f} ms")
    says(page, "10,020 runs")
    assert milliseconds < 2_000 * slowness()
    page.fill("#search", "refund-1010-4")
    says(page, "1 of 10,020 runs")
    one.leaves(file)


def slowness() -> float:
    """How much more work this machine has than processors: a laptop's two seconds are more on a crowded one."""
    try:
        return max(1.0, 2 * os.getloadavg()[0] / (os.cpu_count() or 1))
    except OSError:
        return 1.0


def test_a_link_to_a_run(browser: Any, page_file: Path) -> None:
    """The address of an open run opens it, for whoever it is sent to; one of no run opens the page."""
    one = Reader(browser)
    page = one.opens(page_file, "#run=refund-10")
    assert page.text_content("#run-title") == "Run refund-10"
    page.keyboard.press("Escape")
    page.wait_for_function("location.hash === ''")
    one.leaves(page_file)
    two = Reader(browser)
    assert not two.opens(page_file, "#run=nobody").is_visible("dialog")
    two.leaves(page_file)


EVIL = "\"><img src=x onerror=alert(1)></script><script>alert(2)</script><!--'"


def test_hostile_names(browser: Any, tmp_path: Path) -> None:
    """What a log says is shown as text: no element of it comes to be, nothing of it runs, in the list and in a run."""
    (tmp_path / "contracts").mkdir()
    file = written(report_of(40, tmp_path / "contracts", hostile=EVIL), tmp_path / "evil.html")
    one = Reader(browser)
    page = one.opens(file)
    assert page.locator("img").count() == 0
    page.fill("#search", "refund-10")
    says(page, "1 of 44 runs")
    assert page.text_content("#table button.run") == f"refund-10{EVIL}"
    page.click("#table button.run")
    assert page.text_content("#run-title") == f"Run refund-10{EVIL}"
    page.evaluate("document.querySelectorAll('dialog details').forEach(one => { one.open = true; })")
    shown = str(page.inner_text("dialog"))
    assert json.dumps(f"A-10{EVIL}")[1:-1] in shown
    assert page.locator("dialog img, dialog script").count() == 0
    one.leaves(file)


def test_without_script(browser: Any, page_file: Path) -> None:
    """A reader that runs no script still has the verdict, the causes with their ways out, contracts and strategies."""
    one = Reader(browser, java_script_enabled=False)
    one.page.goto(page_file.as_uri())
    text = str(one.page.inner_text("body"))
    for part in ("NOT SAFE TO DEPLOY", "step-removed", "needs JavaScript", "pinned-workers", "side by side"):
        assert part in text
    one.leaves(page_file)


@pytest.mark.parametrize("name", ["report-light", "report-dark", "report-narrow", "report-run", "terminal"])
def test_screenshots(browser: Any, report: DeployReport, page_file: Path, name: str, tmp_path: Path) -> None:
    """The pictures of the documentation show what the page says today, in the style that it has today."""
    how = {"color_scheme": "dark" if name == "report-dark" else "light", "reduced_motion": "reduce"}
    one = Reader(browser, viewport=NARROW if name == "report-narrow" else {"width": 1100, "height": 800}, **how)
    page = one.opens(page_file)
    if name == "report-run":
        page.locator(".examples button.run", has_text="payout-0").first.evaluate("button => button.click()")
    shown = page
    if name == "terminal":
        page.goto("about:blank")
        page.set_content(terminal(report))
        shown = page.locator("pre")
    made = IMAGES / f"{name}.png" if AGAIN else tmp_path / f"{name}.png"
    shown.screenshot(path=made)
    text = page.locator("dialog" if name == "report-run" else "body").inner_text().replace(__version__, "")
    digest = hashlib.sha256((text + page.locator("style").first.inner_text()).encode()).hexdigest()[:16]
    one.asked = [address for address in one.asked if address != "about:blank"]
    one.leaves(page_file)
    known = json.loads(SHOWN.read_text(encoding="utf-8"))
    if AGAIN:
        SHOWN.write_text(json.dumps(known | {name: digest}, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    else:
        assert known[name] == digest, f"{name}.png shows what was: look at it once LOOM_SCREENSHOTS=1 has made it anew"
    assert size(made) == size(IMAGES / f"{name}.png")
    assert (IMAGES / f"{name}.png").stat().st_size < 200_000


def terminal(report: DeployReport) -> str:
    """What pytest -q prints of the report, as a terminal shows it."""
    title = " pytest-loom: deploy simulation of 93 log files ".center(80, "=")
    blocking = (found for found in report.findings if found.blocks)
    lines = [title, *finding_lines(blocking, most=MOST, changed=report.changed), verdict_line(report)]
    painted = []
    for line in lines:
        word = weight(line)
        colour = next((name for name in ("red", "yellow", "green") if PAINT.get(word, {}).get(name)), "")
        painted.append(f'<b class="{colour}">{escape(word)}</b>{escape(line[len(word) :])}')
    style = (
        "body { margin: 0 } pre { display: inline-block; margin: 0; padding: 12px; background: #16181d; color: #d8dce2;"
        " font: 13px/1.3 'DejaVu Sans Mono', monospace } b { color: #fff } .red { color: #ff7b72 }"
        " .yellow { color: #e3b341 } .green { color: #56d364 }"
    )
    return f"<style>{style}</style><pre>{chr(10).join(painted)}</pre>"


def size(image: Path) -> bytes:
    """Width and height, as a PNG file has them."""
    return image.read_bytes()[16:24]
