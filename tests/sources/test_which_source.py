"""Which source takes a file: each file of the corpus by one source alone, and by the right one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_loom.log.files import read_head
from pytest_loom.sources import sources
from pytest_loom.sources.outline import outline

SOURCES = {
    "aws_durable": {"aws-durable"},
    "inspect_ai": {"inspect"},
    "langgraph": {"langgraph"},
    "openai_agents": {"openai-agents"},
    "pydantic_ai": {"pydantic_ai"},
    "temporal": {"temporal"},
    "trajectories": {"trajectories", "inspect"},
}
"""The source of each folder of the corpus. Folders whose source is tested elsewhere need only be taken once."""

NO_LOGS = {
    "LICENSE": "a licence",
    "MANIFEST.tsv": "counts of the Temporal files",
    "PROVENANCE.md": "where the trajectories come from",
    "README.md": "prose",
    "VERSIONS.json": "which versions made the stores",
    "gt_tau_retail.json": "what people said about runs, not the runs",
    "magentic_one_ground_truth.json": "what people said about runs, not the runs",
    "missing_version.json": "upstream's example of what no SDK takes",
}
"""Files of the corpus that no source takes, with the reason."""


def takers(path: Path) -> list[str]:
    """The names of the sources that take a file."""
    head = read_head(path)
    return [source.name for source in sources() if source.sniff(path, head)]


def test_each_file_of_the_corpus_is_taken_by_one_source_the_right_one(cases: Path) -> None:
    """No source takes what is another's, however the sources are ordered; what none takes is listed with a reason."""
    wrong = {}
    seen: set[tuple[str, str]] = set()
    for path in sorted(path for path in (cases / "corpus").rglob("*") if path.is_file()):
        folder = path.relative_to(cases / "corpus").parts[0]
        found = takers(path)
        if path.name in NO_LOGS:
            expected = found == []
        else:
            expected = len(found) == 1 and found[0] in SOURCES.get(folder, set(found))
        seen.update((folder, name) for name in found)
        if not expected and (folder in SOURCES or len(found) > 1):
            wrong[str(path)] = found
    assert wrong == {}
    assert {("inspect_ai", "inspect"), ("aws_durable", "aws-durable"), ("trajectories", "trajectories")} <= seen


QUOTED = {
    "eval": {"task": "t", "created": "2026-01-01", "task_id": "x"},
    "Operations": [{"Id": "1", "Type": "STEP"}],
    "Events": [{"EventType": "StepStarted", "EventId": 1, "EventTimestamp": 1}],
    "traj": [{"role": "user", "content": "x"}],
    "messages": [{"role": "user", "content": "x"}],
}


@pytest.mark.parametrize("key", QUOTED)
def test_a_format_that_is_only_quoted_is_not_taken_for_it(key: str, tmp_path: Path) -> None:
    """Words of a format in a text, or deep in something else, make no file of that format."""
    path = tmp_path / "x.json"
    inner = json.dumps({key: QUOTED[key], "task_id": 1})
    for whole in ({"note": inner}, {"a": {"b": json.loads(inner)}}):
        path.write_text(json.dumps(whole), encoding="utf-8")
        assert takers(path) == []


class TestOutline:
    def test_it_lists_keys_by_their_place(self) -> None:
        """Objects give their keys, lists a pair of brackets; values that look like keys are none."""
        text = b'[{"a": {"b": [{"c": 1}, {"d": "\\"e\\": 2"}]}, "f": "g"}]'
        assert outline(text) == {"[].a", "[].a.b", "[].a.b[].c", "[].a.b[].d", "[].f"}

    def test_it_takes_what_is_cut_off(self) -> None:
        """A head ends anywhere: in a key, in a text, after a backslash."""
        text = b'{"a": 1, "b\\"c": "d\\\\", "e": ["f"'
        assert {frozenset(outline(text[:end])) for end in range(1, len(text))} <= {
            frozenset(),
            frozenset({"a"}),
            frozenset({"a", 'b\\"c'}),
            frozenset({"a", 'b\\"c', "e"}),
        }

    def test_it_bears_what_is_hostile(self) -> None:
        """Nesting, closing brackets and quotes without end take no more than a look."""
        for text in (b"[" * 60_000, b"{" * 10 + b"}" * 60_000, b'{"' + b'\\"' * 30_000, b'["' * 30_000):
            assert outline(text) == set()

    def test_it_is_empty_for_other_files(self) -> None:
        """A file that does not begin as JSON has no keys."""
        assert outline(b'"a": {"b": 1}') == outline(b"") == outline(b"PK\x03\x04") == set()
