"""A Temporal namespace by its address. There is no server here: a stand-in for temporalio's client is asked instead.

It has the calls that are made of the real one: ``Client.connect``, ``list_workflows(query)`` and ``map_histories()``.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pytest_loom import load_logs
from pytest_loom.cli import main
from pytest_loom.errors import LogError

HISTORY = (Path(__file__).parent / "temporal_history.json").read_text()
ADDRESS = "temporal://temporal.example:7234/desk?query=WorkflowType%3D%22Order%22"


class History:
    """What ``fetch_history`` gives, as far as it is used."""

    def __init__(self, text: str) -> None:
        self.text = text

    def to_json(self) -> str:
        """The history's events as JSON."""
        return self.text


class Client:
    """Stands for temporalio's client."""

    asked: dict[str, Any] = {}
    histories: list[str] = []
    problem: Exception | None = None

    @classmethod
    async def connect(cls, target: str, **options: Any) -> Client:
        """Connect to nothing."""
        cls.asked = {"target": target, **options}
        return cls()

    def list_workflows(self, query: str | None) -> Client:
        """Note the query."""
        self.asked["query"] = query
        return self

    async def map_histories(self) -> AsyncIterator[History]:
        """The histories, one at a time."""
        for number, text in enumerate(self.histories):
            self.asked["fetched"] = number + 1
            yield History(text)
        if self.problem is not None:
            raise self.problem


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> type[Client]:
    """The stand-in, in the place of temporalio.client."""
    module = types.ModuleType("temporalio.client")
    module.Client = Client  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "temporalio", types.ModuleType("temporalio"))
    monkeypatch.setitem(sys.modules, "temporalio.client", module)
    monkeypatch.delenv("TEMPORAL_API_KEY", raising=False)
    Client.histories, Client.problem = [HISTORY, "{}", HISTORY], None
    return Client


def test_each_history_is_a_run(client: type[Client]) -> None:
    """A query gives live runs by a masked address, one history fetched at a time; a broken one hides no other."""
    logs = load_logs(ADDRESS)
    log = next(logs)
    assert client.asked["fetched"] == 1
    assert (log.workflow_id, log.source, log.engine, log.live) == ("Order", "temporal", "journal", True)
    assert log.path == ADDRESS
    with pytest.raises(LogError, match="events"):
        next(logs)
    assert next(logs).workflow_id == "Order"
    asked = {key: client.asked[key] for key in ("target", "namespace", "query", "tls")}
    assert asked == {
        "target": "temporal.example:7234",
        "namespace": "desk",
        "query": 'WorkflowType="Order"',
        "tls": False,
    }


def test_tls_and_the_api_key(client: type[Client], monkeypatch: pytest.MonkeyPatch) -> None:
    """The API key is in the environment, as for Temporal's own command line, and is in no text."""
    monkeypatch.setenv("TEMPORAL_API_KEY", "s3cret-key")
    client.histories, client.problem = [], RuntimeError("cannot connect with s3cret-key")
    with pytest.raises(LogError) as caught:
        list(load_logs("temporal://host"))
    assert (client.asked["api_key"], client.asked["tls"], client.asked["namespace"]) == ("s3cret-key", True, "default")
    assert "s3cret" not in str(caught.value)
    assert "temporal://host" in str(caught.value)


@pytest.mark.parametrize(
    "address", ["temporal://", "temporal://h?querry=x", "temporal://u:s3cret@h/n", "temporal://h:port/n"]
)
def test_addresses_that_are_none(address: str) -> None:
    """What cannot be meant is refused with an example, and no password is shown."""
    with pytest.raises(LogError) as caught:
        list(load_logs(address))
    assert "s3cret" not in str(caught.value)


def test_without_temporalio(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install is said."""
    monkeypatch.setitem(sys.modules, "temporalio.client", None)
    with pytest.raises(LogError, match="pip install 'pytest-loom\\[temporal\\]'"):
        list(load_logs(ADDRESS))


def test_import_of_a_query(client: type[Client], tmp_path: Path) -> None:
    """The goldens of a query are those of the same histories as files, and the sidecar names the query."""
    client.histories = [HISTORY]
    (tmp_path / "order-7.json").write_text(HISTORY)
    assert main(["import", ADDRESS, "-o", str(tmp_path / "a")]) == 0
    assert main(["import", str(tmp_path / "order-7.json"), "-o", str(tmp_path / "b")]) == 0
    a, b = (next((tmp_path / name).rglob("*.loom.jsonl")) for name in "ab")
    assert a.read_bytes() == b.read_bytes()
    (entry,) = json.loads((tmp_path / "a" / "loom-import.json").read_text())["imports"]
    assert entry["sources"] == [ADDRESS]
