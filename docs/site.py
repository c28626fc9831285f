"""The parts of the site that are kept elsewhere, made when it is built (hooks of mkdocs.yml).

- The README, cut into pages by its sections (``CUT``): nothing stands twice, and an anchor is found on its page.
- The Python API: each public name by its docstring, through mkdocstrings.
- The list of finding codes, by the short texts that every report has, and a line of those at the head of each page.
- CHANGELOG, CONTRIBUTING and SECURITY, which have to lie at the root of the repository.

Links to what is no page (the example project) keep their words only, unless ``repo_url`` says where the code is.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import pytest_loom
from pytest_loom.deploy.report import BREAKING, WARNING
from pytest_loom.report.codes import about, known_codes, remedy

ROOT = Path(__file__).resolve().parent.parent

CUT = {
    "": "index.md",
    "In your own project": "index.md",
    "Agents and graphs that wait": "index.md",
    "Record once, replay for ever": "record.md",
    "What is compared": "compare.md",
    "What the deploy simulation finds": "deploy-simulation.md",
    "Yesterday's runs": "yesterdays-runs.md",
    "Accepting a change": "accepting.md",
    "Formats": "formats.md",
    "Reference": "settings.md",
    "The log": "log.md",
    "Benchmarks": "benchmarks.md",
}
"""On which page a section of the README is; one that is not named here is on the first page."""

PAPERS = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}

GROUPS = {
    "Flows": ("pytest_loom.flow",),
    "Logs": ("pytest_loom.log", "pytest_loom.sources", "pytest_loom.fold", "pytest_loom.state"),
    "Comparing and scoring": ("pytest_loom.evals",),
    "Deploys and resumes": ("pytest_loom.deploy", "pytest_loom.resume", "pytest_loom.contract"),
    "Errors": ("pytest_loom.errors",),
}
"""The rooms that the public names come from, as the chapters of the API page."""


def slug(title: str) -> str:
    """The anchor of a heading, as GitHub and MkDocs make it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title.lower())).strip("-")


def readme() -> tuple[dict[str, str], dict[str, str]]:
    """The README's pages by name, and the page of each of its anchors."""
    pages: dict[str, str] = {}
    anchors: dict[str, str] = {}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for section in re.split(r"^(?=## )", text, flags=re.M):
        title = section.partition("\n")[0].removeprefix("## ") if section.startswith("## ") else ""
        page = CUT.get(title, "index.md")
        anchors |= dict.fromkeys(map(slug, re.findall(r"^#+ (.*)$", _prose(section), re.M)), page)
        if page != "index.md":  # a page of its own: its headings go up by one
            section = re.sub(r"^#(?=#+ )", "", section, flags=re.M)
        pages[page] = pages.get(page, "") + section
    return pages, anchors


def api() -> str:
    """Every public name, in chapters, to be filled in by mkdocstrings."""
    lines = ["# Python API", "", "All of it is imported from `pytest_loom`."]
    names = {name: module for module, some in pytest_loom._HOMES.items() for name in some}
    assert sorted(names) == pytest_loom.__all__
    for chapter, rooms in GROUPS.items():
        lines += ["", f"## {chapter}"]
        for name in sorted(names, key=str.lower):
            if names[name].startswith(rooms):
                lines += ["", f"::: {names.pop(name)}.{name}"]
    assert not names, f"no chapter for {sorted(names)}"
    return "\n".join(lines) + "\n"


def codes() -> str:
    """The list of finding codes."""
    lines = ["# Finding codes", "", "A finding of a deploy simulation has a code, and each code a page.", ""]
    lines += ["| code | weight | verdict | the run |", "| --- | --- | --- | --- |"]
    for code in (*BREAKING, *sorted(WARNING)):
        weight, verdict = ("breaking", BREAKING[code]) if code in BREAKING else ("warning", "")
        what = about(code).removeprefix("The run ").removesuffix(".")
        lines.append(f"| [`{code}`]({code}.md) | {weight} | {verdict} | {what} |")
    lines += ["", "What the verdicts mean: [Yesterday's runs](../../README.md#yesterdays-runs)."]
    lines += [
        "Checks of one's own give codes of their own: [own checks](../../README.md#what-the-deploy-simulation-finds)."
    ]
    return "\n".join(lines) + "\n"


def made() -> dict[str, str]:
    """Every page that is made here."""
    papers = {
        page: (ROOT / name).read_text(encoding="utf-8") for name, page in PAPERS.items() if (ROOT / name).is_file()
    }
    return readme()[0] | papers | {"api.md": api(), "codes/index.md": codes()}


def relinked(text: str, page: str, config: Any) -> str:
    """The text with its links as they are on the site, for a page that lies where ``page`` says."""
    _, anchors = readme()
    generated = page in anchors.values() or page in PAPERS.values()
    here = "" if generated else posixpath.join("docs", posixpath.dirname(page))
    papers = PAPERS | {"README.md": "index.md", "docs/codes": "codes/index.md"}

    def link(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        path, _, anchor = target.partition("#")
        file = posixpath.normpath(posixpath.join(here, path)) if path else ""
        if not path and not (generated and anchor in anchors):
            return match[0]
        if file in ("", "README.md"):
            new = anchors.get(anchor, "index.md")
        elif file in papers:
            new = papers[file]
        elif file.startswith("docs/") and file.endswith(".md"):
            new = file.removeprefix("docs/")
        elif config.repo_url:
            return f"[{words}]({config.repo_url.rstrip('/')}/{config.edit_uri or 'blob/main/'}{file})"
        else:
            return words
        new = posixpath.relpath(new, posixpath.dirname(page) or ".")
        return f"[{words}]({new}{'#' + anchor if anchor else ''})"

    return "".join(
        part if fenced else re.sub(r"\[([^\]]+)\]\((?!\w+:)([^)\s]+)\)", link, part) for fenced, part in _parts(text)
    )


def _parts(text: str) -> list[tuple[bool, str]]:
    """The text in parts: whether it is a fenced block, and the part."""
    parts = re.split(r"(^[ ]*```.*?^[ ]*```[ ]*$)", text, flags=re.M | re.S)
    return [(number % 2 == 1, part) for number, part in enumerate(parts)]


def _prose(text: str) -> str:
    """The text without its fenced blocks."""
    return "".join(part for fenced, part in _parts(text) if not fenced)


def on_config(config: Any) -> Any:
    """Leave out of the nav what is not there, and add the pages that are not in it."""
    docs = Path(config.docs_dir)
    there = {*made(), *(file.name for file in docs.glob("*.md"))}

    def kept(items: list[Any]) -> list[Any]:
        whole = []
        for item in items:
            ((title, value),) = item.items()
            if isinstance(value, list):
                whole.append({title: kept(value)})
            elif value in there:
                there.discard(value)
                whole.append(item)
        return whole

    config.nav = kept(config.nav)
    (guides,) = (item["Guides"] for item in config.nav if "Guides" in item)
    guides += sorted(there)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made."""
    for page, text in made().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Put a code's short text at the head of its page, and set links as they are on the site."""
    name = page.file.src_uri
    code = posixpath.basename(name).removesuffix(".md")
    if name.startswith("codes/") and code in known_codes():
        weight = f"breaking, verdict `{BREAKING[code]}`" if code in BREAKING else "warning"
        head, _, rest = markdown.partition("\n")
        markdown = f"{head}\n\n**{weight}.** {about(code)} *{remedy(code)}*\n{rest}"
    return relinked(markdown, name, config)
