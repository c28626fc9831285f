"""What each finding code means: all of them, in the words of the pages, with a page where there is a site."""

from __future__ import annotations

import re
from email.message import Message

import pytest

from pytest_loom.deploy.report import BREAKING, WARNING
from pytest_loom.report import codes
from pytest_loom.report.codes import CODES, about, help_uri, known_codes, remedy
from tests.pages import PAGES


def test_every_code_is_told() -> None:
    """Each code that can be found is known, and no other."""
    assert known_codes() == sorted(CODES) == sorted({*BREAKING, *WARNING})


def test_in_the_words_of_the_pages() -> None:
    """The table of codes says the same, in the same words: one of the two must not go out of date."""
    rows = re.findall(r"^\| `([\w-]+)` \| (?:breaking|warning) \| (.*) \| (.*) \|$", "\n".join(PAGES.values()), re.M)
    said = {code: (what.replace("`", ""), todo.replace("`", "")) for code, what, todo in rows}
    told = {
        code: (what, said[code][1] if said[code][1] == "the same" else todo) for code, (what, todo) in CODES.items()
    }
    assert told == said


def test_sentences() -> None:
    """What a code means and what to do are sentences; a check of one's own is told as that."""
    assert about("tool-missing") == "The run has a pending call of a tool that is gone."
    assert remedy("tool-missing") == "Keep the tool, or ask again."
    assert (about("long-name"), remedy("long-name")) == ("A check of this project found it.", "")


@pytest.mark.parametrize(
    ("links", "uri"),
    [
        (
            ["Source, https://example.org/x", "Documentation, https://docs.example.org/"],
            "https://docs.example.org/codes/tool-args/",
        ),
        (["Source, https://example.org/x"], None),
        ([], None),
    ],
)
def test_the_page_is_where_the_package_says(links: list[str], uri: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The site is the one that the installed package names as its documentation; without any there is no link."""
    facts = Message()
    for link in links:
        facts["Project-URL"] = link
    monkeypatch.setattr("importlib.metadata.metadata", lambda name: facts)
    codes._site.cache_clear()
    try:
        assert help_uri("tool-args") == uri
        assert help_uri("long-name") is None
    finally:
        codes._site.cache_clear()
