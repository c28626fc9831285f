"""What changed between two contracts: each change has its place, whom it hurts, and the number that stood still."""

from __future__ import annotations

import copy
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from pytest_loom import Context, Contract, contract_of, flow, step, tool
from pytest_loom.contract.changes import ContractChange, compare_contracts, drift
from pytest_loom.contract.fingerprint import fingerprint

INT, TEXT, NUMBER = {"type": "integer"}, {"type": "string"}, {"type": "number"}


def thing(properties: dict[str, Any], required: list[str] | None = None, **more: Any) -> dict[str, Any]:
    """An object schema that requires all its properties, unless ``required`` says which."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        **more,
    }


CONTRACT: dict[str, Any] = {
    "workflowId": "order",
    "version": "7",
    "engine": "journal",
    "inputSchema": thing({"sku": TEXT, "count": INT}),
    "outputSchema": thing({"total": INT, "state": {"enum": ["open", "done"]}, "memo": TEXT}, ["total", "state"]),
    "stateSchema": thing({"lines": {"type": "array", "items": TEXT}, "note": TEXT}),
    "reducers": {"lines": "app.state.extend"},
    "steps": {"pack": {"inputSchema": thing({"sku": TEXT}), "outputSchema": thing({"weight": INT})}, "ship": {}},
    "gates": {"Signed": {"payloadSchema": thing({"by": TEXT})}},
    "joins": {"ship": ["pack", "sign"]},
    "tools": {
        "mail": {"schema": thing({"to": TEXT}), "version": "2", "approval": True, "permissions": ["net", "mail"]},
        "note": {"schema": thing({"text": TEXT}), "approval": False},
    },
    "agents": {
        "desk": {"tools": {}, "handoffs": {"over": "till"}, "inputGuardrails": ["polite"]},
        "till": {"tools": {"pay": {"schema": thing({"cents": INT})}}, "handoffs": {}},
    },
    "versions": {"state": 3, "plan": 1},
}

Row = tuple[str, list[tuple[str, str, str, str, str, str | None]]]
FLOW = "flowVersion"
ROWS: dict[str, Row] = {
    # name: (what is done to the contract; part, name, path, kind, effect, the number that should have moved)
    "nothing": ("pass", []),
    "another-id": ("c['workflowId'] = 'orders'", []),
    "another-version": ("c['version'] = '8'", []),
    # input: runs that were started are read again
    "input-new-optional": (
        "c['inputSchema']['properties']['memo'] = TEXT",
        [("input", "", "memo", "added-optional", "additive", FLOW)],
    ),
    "input-new-required": (
        "c['inputSchema'] = thing({'sku': TEXT, 'count': INT, 'to': TEXT})",
        [("input", "", "to", "added-required", "breaking", FLOW)],
    ),
    "input-wider": (
        "c['inputSchema']['properties']['count'] = NUMBER",
        [("input", "", "count", "wider-number", "additive", FLOW)],
    ),
    "input-optional-now": (
        "c['inputSchema'] = thing({'sku': TEXT, 'count': {**INT, 'default': 2}}, ['sku'])",
        [("input", "", "count", "widened", "additive", FLOW)],
    ),
    "input-cannot-be-told": (
        "c['inputSchema'] = {'not': TEXT}",
        [("input", "", "", "undecided", "unknown", FLOW), ("input", "", "", "widened", "additive", FLOW)],
    ),
    "input-words": (
        "c['inputSchema']['description'] = 'an order'",
        [("input", "", "", "cosmetic", "cosmetic", None)],
    ),
    "input-said-otherwise": (
        "c['inputSchema']['properties']['count'] = {**INT, 'default': None}",
        [("input", "", "", "restated", "additive", None)],
    ),
    "input-no-longer-said": ("del c['inputSchema']", [("input", "", "", "unsaid", "unknown", None)]),
    # output: it is still to be written, and who waits for it knows the old one
    "output-new-key": (
        "c['outputSchema'] = thing({**c['outputSchema']['properties'], 'tax': INT}, ['total', 'state', 'tax'])",
        [("output", "", "tax", "added-required", "additive", FLOW)],
    ),
    "output-key-gone": (
        "del c['outputSchema']['properties']['total']; c['outputSchema']['required'].remove('total')",
        [("output", "", "total", "ignored", "breaking", FLOW)],
    ),
    "output-optional-key-gone": (
        "del c['outputSchema']['properties']['memo']",
        [("output", "", "memo", "ignored", "breaking", FLOW)],
    ),
    "output-wider": (
        "c['outputSchema']['properties']['total'] = NUMBER",
        [("output", "", "total", "wider-number", "breaking", FLOW)],
    ),
    "output-new-member": (
        "c['outputSchema']['properties']['state']['enum'].append('lost')",
        [("output", "", "state", "widened", "breaking", FLOW)],
    ),
    "output-member-gone": (
        "c['outputSchema']['properties']['state']['enum'].remove('open')",
        [("output", "", "state", "narrowed", "additive", FLOW)],
    ),
    "output-with-a-default": (
        "c['outputSchema'] = thing({**c['outputSchema']['properties'], 'total': {**INT, 'default': 0}}, ['state'])",
        [("output", "", "total", "widened", "unknown", FLOW)],
    ),
    # state: it has a number of its own
    "state-key-gone": (
        "c['stateSchema'] = thing({'lines': c['stateSchema']['properties']['lines']})",
        [("state", "", "note", "ignored", "breaking", "stateSchemaVersion")],
    ),
    "state-key-gone-number-moved": (
        "c['stateSchema'] = thing({'lines': c['stateSchema']['properties']['lines']}); c['versions']['state'] = 4",
        [
            ("state", "", "note", "ignored", "breaking", None),
            ("versions", "state", "", "version", "unknown", None),
        ],
    ),
    "state-retyped-inside": (
        "c['stateSchema']['properties']['lines']['items'] = INT",
        [("state", "", "lines[]", "retyped", "breaking", "stateSchemaVersion")],
    ),
    "reducer-renamed": (
        "c['reducers']['lines'] = 'app.state.replace'",
        [("reducer", "lines", "", "changed", "breaking", FLOW)],
    ),
    "reducer-moved": (
        "c['reducers']['lines'] = 'app.reduce.extend'",
        [("reducer", "lines", "", "cosmetic", "cosmetic", None)],
    ),
    "reducer-gone": ("c['reducers'] = {}", [("reducer", "lines", "", "removed", "breaking", FLOW)]),
    "reducer-of-an-old-key": (
        "c['reducers']['note'] = 'add'",
        [("reducer", "note", "", "added", "breaking", FLOW)],
    ),
    "reducer-of-a-new-key": (
        "c['reducers']['tags'] = 'add'",
        [("reducer", "tags", "", "added", "additive", FLOW)],
    ),
    # steps
    "step-gone": ("del c['steps']['ship']", [("step", "ship", "", "removed", "breaking", FLOW)]),
    "step-new": ("c['steps']['bill'] = {}", [("step", "bill", "", "added", "additive", FLOW)]),
    "step-renamed": (
        "c['steps']['send'] = c['steps'].pop('ship')",
        [("step", "send", "", "added", "additive", FLOW), ("step", "ship", "", "removed", "breaking", FLOW)],
    ),
    "step-output-narrower": (
        "c['steps']['pack']['outputSchema']['properties']['weight'] = {**INT, 'minimum': 1}",
        [("step", "pack", "output.weight", "narrowed", "breaking", FLOW)],
    ),
    "step-output-wider": (
        "c['steps']['pack']['outputSchema']['properties']['weight'] = NUMBER",
        [("step", "pack", "output.weight", "wider-number", "additive", FLOW)],
    ),
    "step-output-another": (
        "c['steps']['pack']['outputSchema'] = TEXT",
        [("step", "pack", "output", "retyped", "breaking", FLOW)],
    ),
    "step-input-wider": (
        "c['steps']['pack']['inputSchema']['properties']['sku'] = {}",
        [("step", "pack", "input.sku", "widened", "additive", FLOW)],
    ),
    "step-words-twice": (
        "c['steps']['pack']['inputSchema']['title'] = c['steps']['pack']['outputSchema']['title'] = 'Box'",
        [("step", "pack", "", "cosmetic", "cosmetic", None)],
    ),
    "step-words-and-more": (
        "c['steps']['pack']['inputSchema']['title'] = 'Box'; c['steps']['pack']['outputSchema'] = TEXT",
        [("step", "pack", "output", "retyped", "breaking", FLOW)],
    ),
    "step-now-says-its-output": (
        "c['steps']['ship']['outputSchema'] = TEXT",
        [("step", "ship", "output", "said", "unknown", None)],
    ),
    "steps-no-longer-said": ("del c['steps']", [("step", "", "", "unsaid", "unknown", None)]),
    # gates: the answer is still to come, from somebody who knows the old form
    "gate-gone": ("c['gates'] = {}", [("gate", "Signed", "", "removed", "breaking", FLOW)]),
    "gate-new": ("c['gates']['Paid'] = {}", [("gate", "Paid", "", "added", "additive", FLOW)]),
    "gate-asks-more": (
        "c['gates']['Signed']['payloadSchema'] = thing({'by': TEXT, 'on': TEXT})",
        [("gate", "Signed", "on", "added-required", "breaking", FLOW)],
    ),
    # joins
    "join-waits-for-more": (
        "c['joins']['ship'].append('pay')",
        [("join", "ship", "", "changed", "breaking", FLOW)],
    ),
    "join-in-another-order": (
        "c['joins']['ship'].reverse()",
        [("join", "ship", "", "cosmetic", "cosmetic", None)],
    ),
    "join-of-an-old-step": (
        "c['joins']['pack'] = ['a', 'b']",
        [("join", "pack", "", "added", "breaking", FLOW)],
    ),
    "join-of-a-new-step": (
        "c['joins']['bill'] = ['pack', 'ship']; c['steps']['bill'] = {}",
        [("step", "bill", "", "added", "additive", FLOW), ("join", "bill", "", "added", "additive", FLOW)],
    ),
    # tools: what was approved runs on the new one
    "tool-gone": ("del c['tools']['mail']", [("tool", "mail", "", "removed", "breaking", FLOW)]),
    "tool-new": ("c['tools']['fax'] = {'version': '1'}", [("tool", "fax", "", "added", "additive", FLOW)]),
    "tool-argument-renamed": (
        "mail['schema'] = thing({'too': TEXT})",
        [("tool", "mail", "to", "renamed", "breaking", "toolSchemaVersions.mail")],
    ),
    "tool-argument-with-default": (
        "mail['schema']['properties']['copy'] = {'type': 'boolean', 'default': True}",
        [("tool", "mail", "copy", "added-default", "additive", "toolSchemaVersions.mail")],
    ),
    "tool-without-a-number": (
        "c['tools']['note']['schema'] = thing({})",
        [("tool", "note", "text", "ignored", "breaking", FLOW)],
    ),
    "tool-with-its-number-elsewhere": (
        "c['tools']['note']['schema'] = thing({}); c['versions']['tools'] = {'note': 5}",
        [
            ("tool", "note", "text", "ignored", "breaking", None),
            ("versions", "tools", "", "added", "additive", None),
        ],
    ),
    "tool-number-moved": ("mail['version'] = '3'", [("tool", "mail", "", "version", "breaking", None)]),
    "tool-changed-and-number-moved": (
        "mail['version'] = '3'; mail['schema'] = thing({})",
        [
            ("tool", "mail", "to", "ignored", "breaking", None),
            ("tool", "mail", "", "version", "breaking", None),
        ],
    ),
    "tool-without-approval": (
        "mail['approval'] = False",
        [("tool", "mail", "", "approval", "breaking", "toolSchemaVersions.mail")],
    ),
    "tool-with-approval": (
        "c['tools']['note']['approval'] = True",
        [("tool", "note", "", "approval", "additive", FLOW)],
    ),
    "tool-says-nothing-of-approval": ("del mail['approval']", [("tool", "mail", "", "unsaid", "unknown", None)]),
    "tool-is-external-now": (
        "c['tools']['note']['external'] = True",
        [("tool", "note", "", "external", "breaking", FLOW)],
    ),
    "tool-may-do-more": (
        "mail['permissions'].append('disk')",
        [("tool", "mail", "", "permissions", "breaking", "toolSchemaVersions.mail")],
    ),
    "tool-may-do-less": (
        "mail['permissions'].remove('net')",
        [("tool", "mail", "", "permissions", "additive", "toolSchemaVersions.mail")],
    ),
    "tool-may-do-other-things": (
        "mail['permissions'] = ['net', 'disk']",
        [
            ("tool", "mail", "", "permissions", "breaking", "toolSchemaVersions.mail"),
            ("tool", "mail", "", "permissions", "additive", "toolSchemaVersions.mail"),
        ],
    ),
    "tool-words": (
        "mail['permissions'].reverse(); mail['schema']['description'] = 'send'",
        [("tool", "mail", "", "cosmetic", "cosmetic", None)],
    ),
    # agents
    "agent-gone": ("del c['agents']['till']", [("agent", "till", "", "removed", "breaking", FLOW)]),
    "agent-more": ("c['agents']['new'] = {}", [("agent", "new", "", "added", "additive", FLOW)]),
    "agent-tool-gone": ("c['agents']['till']['tools'] = {}", [("agent", "till", "pay", "removed", "breaking", FLOW)]),
    "agent-tool-changed": (
        "c['agents']['till']['tools']['pay']['schema'] = thing({'cents': TEXT})",
        [("agent", "till", "pay.cents", "retyped", "breaking", FLOW)],
    ),
    "agent-handoff-elsewhere": (
        "c['agents']['desk']['handoffs']['over'] = 'desk'",
        [("agent", "desk", "over", "changed", "breaking", FLOW)],
    ),
    "agent-guardrail-gone": (
        "c['agents']['desk']['inputGuardrails'] = []",
        [("agent", "desk", "polite", "removed", "breaking", FLOW)],
    ),
    "agent-guardrail-new": (
        "c['agents']['desk']['inputGuardrails'].append('known')",
        [("agent", "desk", "known", "added", "additive", FLOW)],
    ),
    "agent-tools-not-listed": (
        "c['agents']['till']['moreTools'] = True",
        [("agent", "till", "", "changed", "unknown", FLOW)],
    ),
    # numbers and the rest
    "a-number-is-no-longer-said": (
        "del c['versions']['plan']",
        [("versions", "plan", "", "removed", "unknown", None)],
    ),
    "no-numbers-any-more": ("del c['versions']", [("versions", "", "", "unsaid", "unknown", None)]),
    "another-engine": ("c['engine'] = 'checkpoint'", [("engine", "", "", "changed", "breaking", FLOW)]),
    "no-engine": ("del c['engine']", [("engine", "", "", "unsaid", "unknown", None)]),
}


def edited(edit: str) -> Contract:
    """CONTRACT with some Python run on it, as ``c``; its tool mail is ``mail``."""
    data = copy.deepcopy(CONTRACT)
    names = {"c": data, "mail": data["tools"]["mail"], "INT": INT, "TEXT": TEXT, "NUMBER": NUMBER, "thing": thing}
    exec(edit, names)
    return Contract.model_validate(data)


def facts(changes: list[ContractChange]) -> list[tuple[str, str, str, str, str, str | None]]:
    """What changed, without the words."""
    return [(one.part, one.name, one.path, one.kind, one.effect, one.version) for one in changes]


@pytest.mark.parametrize("name", ROWS)
def test_a_change(name: str) -> None:
    """Each change has its part, place and kind, whom it hurts, and the number that should have moved."""
    edit, expected = ROWS[name]
    old, new = edited("pass"), edited(edit)
    found = compare_contracts(old, new)
    assert facts(found) == expected
    assert drift(old, new) == [one for one in found if one.version]
    assert (fingerprint(old) != fingerprint(new)) == any(one.effect != "cosmetic" for one in found)


@pytest.mark.parametrize("name", ROWS)
def test_it_speaks_of_the_same_parts_on_the_way_back(name: str) -> None:
    """A rollback is the same two contracts, turned round: the same parts change, if otherwise."""
    old, new = edited("pass"), edited(ROWS[name][0])
    there, back = compare_contracts(old, new), compare_contracts(new, old)
    assert {(one.part, one.name) for one in there} == {(one.part, one.name) for one in back}


@pytest.mark.parametrize("name", ROWS)
def test_with_the_flow_s_version_moved_only_parts_with_their_own_number_drift(name: str) -> None:
    """A new version of the flow says that it changed, but not that its state or a tool of its own number did."""
    old, new = edited("pass"), edited(f"c['version'] = '8'; {ROWS[name][0]}")
    assert {one.version for one in drift(old, new)} <= {"stateSchemaVersion", "toolSchemaVersions.mail"}


def test_without_a_version_of_the_flow_nothing_has_to_move() -> None:
    """Where one contract says no version, none is kept: no drift."""
    old = edited("del c['version']")
    new = edited("c['steps'] = {}")
    assert [one.version for one in compare_contracts(old, new)] == [None, None]
    assert drift(old, new) == drift(new, old) == []


def test_numbers_are_compared_exactly() -> None:
    """3 and "3" are two versions, as they are for migrations."""
    assert drift(edited("pass"), edited("c['stateSchema'] = TEXT; c['versions']['state'] = '3'")) == []


def test_a_state_without_a_number_is_told_by_the_flow_s() -> None:
    """The part's own number goes first; where neither contract says one, the flow's is asked."""
    old, new = edited("c['versions'] = {}"), edited("c['versions'] = {}; c['stateSchema'] = TEXT")
    assert [one.version for one in drift(old, new)] == [FLOW]


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ("del c['steps']['ship']", "step ship is gone"),
        ("c['steps']['bill'] = {}", "step bill is new"),
        ("mail['approval'] = False", "tool mail no longer asks for approval"),
        ("mail['permissions'] = ['net', 'mail', 'disk']", "tool mail: it may now also use disk"),
        ("c['joins']['ship'] = ['pack']", "join ship waited for pack, sign and waits for pack"),
        ("c['reducers']['lines'] = 'add'", "reducer lines was app.state.extend and is add"),
        ("c['versions']['state'] = 4", "version state was 3 and is 4"),
        ("c['engine'] = 'checkpoint'", "the engine was journal and is checkpoint"),
        ("c['inputSchema']['properties']['count'] = TEXT", "the input, count: was integer, is string"),
        ("c['steps']['pack']['outputSchema'] = TEXT", "step pack, output: was object, is string"),
        ("del c['gates']", "gates: the new contract does not speak of it, so it is not checked"),
        ("mail['schema']['title'] = 'Mail'", "tool mail: only words or order differ"),
    ],
)
def test_the_words(edit: str, says: str) -> None:
    """One sentence that names the part and the place, and says what it was and what it is."""
    (change,) = compare_contracts(edited("pass"), edited(edit))
    assert change.detail == says


@pytest.mark.parametrize(
    ("was", "now", "effect", "says"),
    [
        ({"next": ["pay"]}, {"next": []}, "unknown", "step ask led to pay and leads to the end"),
        ({"next": ["pay"]}, {"next": ["check"]}, "unknown", "step ask led to pay and leads to check"),
        ({"next": ["pay"]}, {"next": ["deny", "pay"]}, "additive", "step ask led to pay and leads to deny, pay"),
        ({"asks": True}, {"asks": False}, "unknown", "step ask asked a person and does not any more"),
    ],
)
def test_where_a_step_leads(was: dict[str, Any], now: dict[str, Any], effect: str, says: str) -> None:
    """A way that is gone, or a question, is no matter of words."""
    old, new = ({"workflowId": "refund", "engine": "checkpoint", "steps": {"ask": step}} for step in (was, now))
    (change,) = compare_contracts(Contract.model_validate(old), Contract.model_validate(new))
    assert (change.effect, change.detail) == (effect, says)


def test_names_from_a_contract_cannot_forge_a_line() -> None:
    """Captured contracts are untrusted: what is shown of them is on one line, without control characters."""
    bad = "x\n\x1b[2Jok \u202e"
    wild = {
        "steps": {bad: {}},
        "gates": {bad: {}},
        "tools": {bad: {"permissions": [bad], "version": bad}},
        "reducers": {bad: bad},
        "joins": {bad: [bad]},
        "versions": {bad: bad},
        "inputSchema": thing({bad: {"enum": [bad]}}),
    }
    tame = {
        "steps": {},
        "gates": {},
        "tools": {bad: {"permissions": [], "version": "1"}},
        "reducers": {bad: "y"},
        "joins": {bad: []},
        "versions": {bad: 1},
        "inputSchema": thing({bad: {"enum": ["y"]}}),
    }
    old, new = (Contract.model_validate({"workflowId": "w", **data}) for data in (wild, tame))
    for changes in (compare_contracts(old, new), compare_contracts(new, old)):
        assert len(changes) >= 8
        assert all(change.detail.isprintable() for change in changes)


def deep(levels: int) -> dict[str, Any]:
    """A schema of lists in lists."""
    schema: dict[str, Any] = INT
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    "hostile",
    [deep(300), {"type": 5}, {"$ref": "https://127.0.0.1:9/x"}, {"examples": deep(300)}],
    ids=["deep", "no-type", "elsewhere", "deep-words"],
)
def test_a_hostile_schema_gives_an_answer(hostile: dict[str, Any]) -> None:
    """What cannot be followed is unknown, never an error, and the same twice over is no change."""
    old = Contract(workflow_id="w", state_schema=INT, reducers={})
    new = Contract(workflow_id="w", state_schema=hostile, reducers={"a": "add"})
    again = Contract(workflow_id="w", state_schema=copy.deepcopy(hostile), reducers={"a": "add"})
    assert compare_contracts(new, again) == []
    for changes in (compare_contracts(old, new), compare_contracts(new, old)):
        assert {one.part for one in changes} == {"state", "reducer"}
        assert any(one.effect == "unknown" for one in changes) or "examples" in hostile


def test_what_is_too_deep_to_be_told_apart_is_not_the_same_for_that() -> None:
    """Two schemas without a digest are unknown; where only words are too deep, words may differ."""
    for one, other, effect in (
        (deep(300), deep(301), "unknown"),
        ({"examples": deep(3000)}, {"examples": deep(3001)}, "cosmetic"),
    ):
        old, new = Contract(workflow_id="w", state_schema=one), Contract(workflow_id="w", state_schema=other)
        assert [change.effect for change in compare_contracts(old, new)] == [effect]


ATOMS: list[Any] = [
    *(
        INT,
        TEXT,
        NUMBER,
        {},
        True,
        {"enum": ["a", 1]},
        {"enum": [1, "a"]},
        {**INT, "minimum": 1},
        {**INT, "title": "I"},
    ),
    *({"anyOf": [INT, TEXT]}, {"anyOf": [TEXT, INT]}, {**INT, "minimum": 1.0}, {**TEXT, "default": None}, {"not": INT}),
    *({**INT, "exclusiveMinimum": 0}, {**TEXT, "pattern": "^a"}, {**INT, "x-odd": 1}, {"type": ["integer", "null"]}),
]
SCHEMAS = st.none() | st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: (
        st.dictionaries(st.sampled_from(["a", "b", "ab"]), inner, max_size=3).flatmap(
            lambda properties: st.lists(st.sampled_from(sorted(properties) or ["a"]), unique=True, max_size=2).map(
                lambda required: thing(properties, required)
            )
        )
        | inner.map(lambda one: {"type": "array", "items": one})
    ),
    max_leaves=4,
)


def named(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Some parts by name, or nothing said of them."""
    return st.none() | st.dictionaries(st.sampled_from(["a", "b"]), values, max_size=2)


TOOLS = named(
    st.fixed_dictionaries(
        {
            "schema": SCHEMAS,
            "version": st.sampled_from([None, 1, "1"]),
            "approval": st.sampled_from([None, True, False]),
            "permissions": st.none() | st.lists(st.sampled_from("pq"), max_size=3),
            "external": st.sampled_from([None, True, False]),
        }
    )
)
AGENT = {
    "tools": TOOLS,
    "handoffs": named(st.sampled_from("xy")),
    "outputSchema": SCHEMAS,
    "inputGuardrails": st.none() | st.lists(st.sampled_from("pq"), max_size=3),
    "moreTools": st.sampled_from([None, True, False]),
}
CONTRACTS = st.fixed_dictionaries(
    {
        "workflowId": st.just("w"),
        "version": st.sampled_from([None, "1", "2"]),
        "engine": st.sampled_from([None, "journal", "checkpoint"]),
        "inputSchema": SCHEMAS,
        "outputSchema": SCHEMAS,
        "stateSchema": SCHEMAS,
        "reducers": named(st.sampled_from(["m.add", "n.add", "last"])),
        "steps": named(st.fixed_dictionaries({"inputSchema": SCHEMAS, "outputSchema": SCHEMAS})),
        "gates": named(st.fixed_dictionaries({"payloadSchema": SCHEMAS})),
        "joins": named(st.lists(st.sampled_from("xy"), max_size=3)),
        "tools": TOOLS,
        "moreTools": st.sampled_from([None, True, False]),
        "agents": named(st.fixed_dictionaries(AGENT)),
        "versions": named(st.sampled_from([None, 1, 1.0, True, "1", {"a": 1}])),
    }
).map(Contract.model_validate)


@settings(deadline=None, max_examples=150)
@given(contract=CONTRACTS, one=CONTRACTS, other=CONTRACTS, pick=st.sets(st.sampled_from(sorted(Contract.model_fields))))
def test_what_moves_the_fingerprint_is_said(contract: Contract, one: Contract, other: Contract, pick: set[str]) -> None:
    """The fingerprint moves just when there is a change that is not cosmetic, and nothing differs from itself."""
    near = contract.model_copy(update={name: getattr(one, name) for name in pick})
    for old, new in ((contract, near), (near, contract), (one, other)):
        found = compare_contracts(old, new)
        assert (fingerprint(old) != fingerprint(new)) == any(change.effect != "cosmetic" for change in found)
        assert all((change.kind == "cosmetic") == (change.effect == "cosmetic") for change in found)
        assert all(change.detail.isprintable() for change in found)
    assert compare_contracts(contract, contract) == []
    assert compare_contracts(contract, Contract.model_validate(contract.model_dump(by_alias=True))) == []


class Order(BaseModel):
    sku: str
    count: int = 1


class OrderOfUnits(BaseModel):
    """An order, in units."""

    sku: str
    units: int


class OrderSigned(Order):
    signed_by: str | None = None


def declared(kind: type[BaseModel], *, version: str = "1", approval: bool = True, number: int = 1) -> Contract:
    """The contract of a flow as it is written, its steps and gates about ``kind``."""

    @step
    def fetch(sku: str) -> kind:  # type: ignore[valid-type]
        return kind()

    @tool(version=number, approval=approval)
    def send(order: kind, fast: bool = False) -> Literal["sent"]:  # type: ignore[valid-type]
        return "sent"

    @flow(id="order", version=version, steps=[fetch], gates={"Signed": kind}, tools=[send])
    async def order(ctx: Context, sku: str) -> str:
        return sku

    return contract_of(order)


class TestDeclaredFlows:
    def test_the_same_flow_declared_twice(self) -> None:
        """Nothing changed."""
        assert compare_contracts(declared(Order), declared(Order)) == []

    def test_a_field_of_another_name(self) -> None:
        """It breaks what was recorded, what is answered and what was approved; both numbers stood still."""
        found = compare_contracts(declared(Order), declared(OrderOfUnits))
        assert {(one.part, one.name, one.effect) for one in found} == {
            ("step", "fetch", "breaking"),
            ("gate", "Signed", "breaking"),
            ("tool", "send", "breaking"),
        }
        assert {one.version for one in found} == {"flowVersion", "toolSchemaVersions.send"}

    def test_a_new_field_with_a_null_default(self) -> None:
        """Everything from before is still read; a number that moved tells of it."""
        found = compare_contracts(declared(Order), declared(OrderSigned, version="2", number=2))
        assert {(one.part, one.path, one.kind) for one in found if one.effect != "breaking"} == {
            ("step", "output.signed_by", "added-null-default"),
            ("gate", "signed_by", "added-null-default"),
            ("tool", "order.signed_by", "added-null-default"),
        }
        assert [(one.part, one.kind) for one in found if one.effect == "breaking"] == [("tool", "version")]
        assert drift(declared(Order), declared(OrderSigned, version="2", number=2)) == []

    def test_an_approval_that_is_no_longer_asked_for(self) -> None:
        """The tool's own number should have told."""
        (change,) = drift(declared(Order), declared(Order, approval=False, version="2"))
        assert (change.kind, change.effect, change.version) == ("approval", "breaking", "toolSchemaVersions.send")
