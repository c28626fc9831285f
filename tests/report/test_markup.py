"""Text from logs in Markdown: it shows as what it is, and nothing else happens."""

from __future__ import annotations

import re

import pytest

from pytest_loom.report.markup import code, fenced, prose


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("today's code has no such step.", "today's code has no such step."),
        (
            "assess_risk, *all* of [it](x), `y` ~z~ $1$ a|b \\",
            r"assess\_risk, \*all\* of \[it\](x), \`y\` \~z\~ \$1\$ a\|b \\",
        ),
        ("<img src=x onerror=alert(1)> & <!-- -->", "&lt;img src=x onerror=alert(1)&gt; &amp; &lt;!-- --&gt;"),
        (
            "ask @ann, see #12, !3 and %4; ann@example.org",
            "ask @&#8203;ann, see #&#8203;12, !&#8203;3 and %&#8203;4; ann@&#8203;example.org",
        ),
        ("HTTPS://evil.example and www.evil.example", "HTTPS&#8203;://evil.example and www&#8203;.evil.example"),
        ("/close", r"\/close"),
        ("# a title", r"\# a title"),
        ("- an item", r"\- an item"),
        ("12. an item", r"12\. an item"),
        ("> a quotation", "&gt; a quotation"),
        ("=== a ruler", r"\=== a ruler"),
        ("two\nlines\x1b[0m", r"two\\nlines\\x1b\[0m"),
    ],
)
def test_prose(text: str, written: str) -> None:
    """Formatting, HTML, mentions, references, addresses and commands are text."""
    assert prose(text) == written


def test_prose_is_cut() -> None:
    """Long text is cut before it is escaped, so that no escape is cut in two."""
    assert prose("*" * 50, 10) == r"\*" * 9 + "…"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("assess_risk", "`assess_risk`"),
        ("a`b", "`` a`b ``"),
        ("``", "``` `` ```"),
        (" x", "`  x `"),
        ("", "`  `"),
        ("two\nlines", r"`two\nlines`"),
    ],
)
def test_code_spans(text: str, written: str) -> None:
    """A name is one code span, whatever backticks are in it, on one line."""
    assert code(text) == written


def test_fences() -> None:
    """Lines of code begin at the margin and stay in their block, whatever they hold."""
    assert fenced(["    a = 1", "      b"], "python") == "```python\na = 1\n  b\n```\n\n"
    block = fenced(["```", "@ann", "````"], "sh")
    assert re.findall("^`{5}", block, re.M) == ["`" * 5] * 2
    assert fenced(["a\x1b\n```"], "sh").count("\n```") == 1
