"""The fingerprint of a contract moves when a promise does, and not when words, names or orders do."""

from __future__ import annotations

import copy
import json
import types
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loom import Contract, FlowError
from pytest_loom.contract.fingerprint import fingerprint, schema_digest
from pytest_loom.contract.resolve import contract_of

SCHEMA: dict[str, Any] = {
    "$defs": {
        "Case": {
            "type": "object",
            "title": "Case",
            "description": "a case",
            "properties": {
                "id": {"type": "string", "title": "Id", "format": "uuid"},
                "amount": {"type": "integer", "minimum": 1, "default": 5},
                "mode": {"enum": ["fast", "slow"], "type": "string", "default": "fast"},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                "title": {"type": "string", "examples": ["Dr"], "default": "Ms"},
                "parts": {"type": "array", "items": {"$ref": "#/$defs/Case"}, "maxItems": 3},
            },
            "required": ["id", "amount"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/Case",
}
CONTRACT: dict[str, Any] = {
    "workflowId": "refund",
    "version": "1.0.0",
    "engine": "journal",
    "inputSchema": SCHEMA,
    "outputSchema": {"type": "string"},
    "stateSchema": {"type": "object", "properties": {"seen": {"type": "array"}}},
    "reducers": {"seen": "app.state.append"},
    "steps": {"assess": {"inputSchema": {"type": "object"}, "outputSchema": {"type": "string"}}, "pay": {}},
    "gates": {"Approved": {"payloadSchema": {"type": "object", "properties": {"by": {"type": "string"}}}}},
    "joins": {"pay": ["assess", "approve"]},
    "tools": {"charge": {"schema": SCHEMA, "version": 2, "approval": True, "permissions": ["mail", "money"]}},
    "versions": {"state": 3, "plan": 1},
}


def print_of(data: dict[str, Any]) -> str:
    """The fingerprint of contract JSON."""
    return fingerprint(Contract.model_validate(data))


def edited(edit: str, data: dict[str, Any] = CONTRACT) -> dict[str, Any]:
    """A copy of ``data`` with one line of Python run on it, as ``c``; its input's Case is ``case``."""
    copied = copy.deepcopy(data)
    exec(edit, {"c": copied, "case": copied["inputSchema"]["$defs"]["Case"], "charge": copied["tools"]["charge"]})
    return copied


def test_it_is_short_and_always_the_same() -> None:
    """16 hex digits, pinned: captured contracts are files of this name, found again by later versions."""
    assert print_of(CONTRACT) == print_of(copy.deepcopy(CONTRACT)) == "f1f3b97a2213bd23"


@pytest.mark.parametrize(
    "edit",
    [
        "case['description'] = 'a very special case'",
        "del case['description']",
        "case['title'] = 'app.cases.Case'",
        "case['properties']['amount']['examples'] = [1]",
        "case['properties']['amount']['description'] = 'in cents'",
        "case['properties']['amount']['deprecated'] = True",
        "case['$comment'] = 'x'",
        "c['inputSchema']['$schema'] = 'https://json-schema.org/draft/2020-12/schema'",
        "case['required'].reverse()",
        "case['properties']['mode']['enum'].reverse()",
        "case['properties']['note']['anyOf'].reverse()",
        "case['properties'] = dict(reversed(case['properties'].items()))",
        "c['steps'] = dict(reversed(c['steps'].items()))",
        "charge['permissions'].reverse()",
        "c['joins']['pay'].reverse()",
        "c['reducers']['seen'] = 'app.moved.append'",
        "c['workflowId'] = 'refunds'",
        "c['version'] = '1.0.1'",
        "case['properties']['amount']['minimum'] = 1.0",
        "case['properties']['parts']['items'] = {'allOf': [{'$ref': '#/$defs/Case'}]}",
        "c['inputSchema']['$defs']['Unused'] = {'type': 'null'}",
        "c['outputSchema'] = {'type': ['string']}",
        "c['stateSchema']['properties']['seen']['items'] = {}",
    ],
)
def test_words_and_orders_do_not_move_it(edit: str) -> None:
    """What is not a promise does not count."""
    assert print_of(edited(edit)) == print_of(CONTRACT)


@pytest.mark.parametrize(
    "edit",
    [
        "case['properties']['amount']['type'] = 'number'",
        "case['properties']['amount']['minimum'] = 2",
        "case['properties']['amount']['default'] = 6",
        "case['properties']['amount']['default'] = 5.0",
        "del case['properties']['amount']['default']",
        "case['properties']['note']['default'] = 'x'",
        "case['properties']['title']['default'] = 'Mr'",
        "del case['properties']['title']",
        "case['properties']['total'] = case['properties'].pop('amount')",
        "case['properties']['id']['format'] = 'uuid4'",
        "case['properties']['mode']['enum'].append('none')",
        "case['properties']['mode']['enum'].pop()",
        "case['properties']['note']['anyOf'].append({'type': 'integer'})",
        "case['properties']['parts']['maxItems'] = 4",
        "case['properties']['parts']['items'] = {'type': 'string'}",
        "case['required'].append('mode')",
        "case['required'].pop()",
        "case['additionalProperties'] = True",
        "del case['additionalProperties']",
        "c['outputSchema'] = {'type': 'integer'}",
        "c['outputSchema'] = False",
        "del c['outputSchema']",
        "c['stateSchema']['properties']['heard'] = {}",
        "c['reducers']['seen'] = 'app.state.replace'",
        "c['reducers']['heard'] = 'append'",
        "c['steps']['assess']['outputSchema'] = {'type': 'integer'}",
        "c['steps']['assessment'] = c['steps'].pop('assess')",
        "del c['steps']['pay']",
        "c['gates']['Approved']['payloadSchema'] = {'type': 'object'}",
        "c['gates']['Granted'] = c['gates'].pop('Approved')",
        "c['joins']['pay'].pop()",
        "c['engine'] = 'checkpoint'",
        "c['versions']['state'] = 4",
        "charge['version'] = 3",
        "charge['version'] = '2'",
        "charge['approval'] = False",
        "charge['permissions'].append('admin')",
        "charge['permissions'].pop()",
        "charge['schema']['$defs']['Case']['properties']['amount']['minimum'] = 0",
        "c['tools']['refund'] = c['tools'].pop('charge')",
    ],
)
def test_each_promise_moves_it(edit: str) -> None:
    """A change that a run could feel counts, though no version number was moved (seed 003, second question)."""
    assert print_of(edited(edit)) != print_of(CONTRACT)


def shuffled(value: Any, random: Any) -> Any:
    """``value`` with the keys of every object in another order."""
    if isinstance(value, dict):
        items = [(key, shuffled(part, random)) for key, part in value.items()]
        random.shuffle(items)
        return dict(items)
    return [shuffled(part, random) for part in value] if isinstance(value, list) else value


LEAF = st.sampled_from(
    [{"type": "string"}, {"type": "integer", "minimum": 1}, {"enum": [1, "a"]}, True, {"$ref": "#/$defs/A"}]
)
NAME = st.sampled_from(["a", "b", "title", "default", "$ref", "properties"])
SCHEMAS = st.recursive(
    LEAF,
    lambda inner: (
        st.builds(lambda props: {"type": "object", "properties": props}, st.dictionaries(NAME, inner, max_size=3))
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda members: {"anyOf": members}, st.lists(inner, min_size=1, max_size=3))
    ),
    max_leaves=8,
).map(lambda schema: {"$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}}}, "allOf": [schema]})


@settings(deadline=None, max_examples=150)
@given(schema=SCHEMAS, random=st.randoms(use_true_random=False))
def test_the_order_of_keys_never_moves_it(schema: Any, random: Any) -> None:
    """Whatever the schema: another order of the keys of its objects is the same schema."""
    assert schema_digest(shuffled(schema, random)) == schema_digest(schema)


@settings(deadline=None, max_examples=150)
@given(schema=SCHEMAS, name=st.text(min_size=1, max_size=5))
def test_the_names_of_definitions_never_move_it(schema: Any, name: str) -> None:
    """Whatever the schema: pydantic names a definition after its module when two classes share a name."""
    pointer = json.dumps("#/$defs/" + name.replace("~", "~0").replace("/", "~1"))
    text = json.dumps(schema["allOf"]).replace('"#/$defs/A"', pointer)
    renamed = {
        "$defs": {name: {"type": "array", "items": {"$ref": json.loads(pointer)}}},
        "allOf": json.loads(text),
    }
    assert schema_digest(renamed) == schema_digest(schema)


@settings(deadline=None, max_examples=150)
@given(one=SCHEMAS, other=SCHEMAS)
def test_only_equal_schemas_share_it(one: Any, other: Any) -> None:
    """Two generated schemas with the same digest are the same once the order of their choices is left out."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            made = {key: plain(part) for key, part in value.items()}
            if "anyOf" in made and isinstance(made["anyOf"], list):
                made["anyOf"] = sorted(made["anyOf"], key=json.dumps)
                if len(made["anyOf"]) == 1 and len(made) == 1:
                    return made["anyOf"][0]
            return made
        return [plain(part) for part in value] if isinstance(value, list) else value

    same = plain(one["allOf"]) == plain(other["allOf"])
    assert (schema_digest(one) == schema_digest(other)) == same


class TestReferences:
    def test_inlined_or_not(self) -> None:
        """A reference is what it leads to."""
        by_name = {"$defs": {"N": {"type": "integer"}}, "type": "array", "items": {"$ref": "#/$defs/N"}}
        assert schema_digest(by_name) == schema_digest({"type": "array", "items": {"type": "integer"}})

    def test_each_parameter_may_bring_its_own_definitions(self) -> None:
        """The same name in two documents put together means two things, each its own."""

        def both(one: str, other: str) -> dict[str, Any]:
            parts = [{"$defs": {"N": {"type": kind}}, "$ref": "#/$defs/N"} for kind in (one, other)]
            return {"type": "object", "properties": {"a": parts[0], "b": parts[1]}}

        assert schema_digest(both("integer", "string")) != schema_digest(both("integer", "integer"))
        assert schema_digest(both("integer", "string")) != schema_digest(both("string", "integer"))

    def test_a_part_with_definitions_still_sees_those_around_it(self) -> None:
        """The nearest document that knows a name is meant, and only where none does is a reference lost."""

        def nested(kind: str) -> dict[str, Any]:
            inner = {"$defs": {"M": True}, "items": {"$ref": "#/$defs/N"}}
            return {"$defs": {"N": {"type": kind}}, "properties": {"a": inner}}

        plain = {"properties": {"a": {"items": {"type": "integer"}}}}
        assert schema_digest(nested("integer")) == schema_digest(plain) != schema_digest(nested("string"))

    def test_definitions_that_lead_to_each_other(self) -> None:
        """In a ring of definitions a change in any of them counts, and a change of their names does not."""

        def ring(names: list[str], odd: int | None = None) -> dict[str, Any]:
            defs = {
                name: {
                    "type": "object",
                    "properties": {"next": {"$ref": f"#/$defs/{names[(index + 1) % len(names)]}"}},
                    "maxProperties": 7 if index == odd else index,
                }
                for index, name in enumerate(names)
            }
            return {"$defs": defs, "$ref": f"#/$defs/{names[0]}"}

        plain = schema_digest(ring(["a", "b", "c", "d"]))
        assert schema_digest(ring(["d", "c", "b", "a"])) == plain
        assert len({plain, *(schema_digest(ring(["a", "b", "c", "d"], odd)) for odd in range(4))}) == 5


SOURCE = '''
from pydantic import BaseModel
from pytest_loom import Context, flow, step, tool

class {name}(BaseModel):
    """{words}"""
    id: str
    amount: int = 5
    parts: "list[{name}]" = []

@step
async def assess(case: {name}) -> str:
    """{words}"""
    return case.id

@tool(version=1, approval=True)
async def pay(case: {name}, memo: str | None = None) -> None:
    """{words}"""

@flow(id="refund", version="1.0.0", steps=[assess], gates={{"Approved": {name}}}, tools=[pay])
async def refund(ctx: Context, case: {name}) -> str:
    """{words}"""
    return await ctx.run(assess, case)
'''


def flow_in(module: str, **parts: str) -> Any:
    """The flow that a module of this name would hold."""
    import sys

    made = types.ModuleType(module)
    sys.modules[module] = made
    try:
        exec(compile(SOURCE.format(**parts), module, "exec", dont_inherit=True), made.__dict__)
        return fingerprint(contract_of(made.refund))
    finally:
        del sys.modules[module]


def test_equal_flows_in_two_modules() -> None:
    """A flow that was moved to another module, with its class renamed and its words rewritten, is the same."""
    first = flow_in("app_flows", name="Case", words="A case.")
    assert flow_in("other_place_flows", name="RefundCase", words="What is refunded.") == first


class TestHostile:
    def test_nested_without_end(self) -> None:
        """A schema too deep to follow is said, not a crash."""
        schema: dict[str, Any] = {}
        for _ in range(5000):
            schema = {"items": schema}
        with pytest.raises(FlowError, match="nested more than 200 deep"):
            schema_digest(schema)

    def test_not_json(self) -> None:
        """A value that JSON cannot say is named."""
        with pytest.raises(FlowError, match="not plain JSON"):
            schema_digest({"default": object()})

    def test_definitions_that_unfold_without_end(self) -> None:
        """A chain of definitions that doubles forty times is hashed as what it is: forty short schemas."""
        bomb = {
            "$ref": "#/$defs/a0",
            "$defs": {f"a{n}": {"prefixItems": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)} | {"a40": {}},
        }
        assert len(schema_digest(bomb)) == 64

    def test_entangled(self) -> None:
        """A ring of definitions that takes too many rounds to tell apart is refused."""
        size = 700
        defs = {f"d{n}": {"items": {"$ref": f"#/$defs/d{(n + 1) % size}"}} for n in range(size)}
        defs["d0"]["maxItems"] = 3  # type: ignore[assignment]
        with pytest.raises(FlowError, match="too entangled"):
            schema_digest({"$defs": defs, "$ref": "#/$defs/d0"})

    @pytest.mark.parametrize(
        "schema",
        [5, "x", [], None, {"properties": 1}, {"$ref": {}}, {"$defs": 1, "$ref": "#/$defs/a"}, {"anyOf": {"a": 1}}],
    )
    def test_what_is_no_schema(self, schema: Any) -> None:
        """Nonsense has a digest of its own: it is not taken for a schema that says nothing."""
        assert schema_digest(schema) == schema_digest(copy.deepcopy(schema)) != schema_digest({})

    def test_a_reference_out_of_the_document(self) -> None:
        """Nothing is fetched: such a reference counts by its text."""
        one, other = ({"$ref": f"https://127.0.0.1:9/{name}.json"} for name in "ab")
        assert schema_digest(one) != schema_digest(other)
