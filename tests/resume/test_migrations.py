"""Migrations: saved state, plans and tool arguments carried across versions, closed by default (DESIGN section 5)."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_loom import LogBuilder, LoomError, Unsupported
from pytest_loom.errors import MigrationError, StateMigrationError
from pytest_loom.log.migrations import chain, isolated_migrations, migrate, migration, registered
from pytest_loom.log.pure import first_difference
from pytest_loom.resume.helpers import Change, add, compose, merge, rename, retype, split

COUNTER = itertools.count()


@pytest.fixture(autouse=True)
def _isolated() -> Iterator[None]:
    """No test sees another's migrations."""
    with isolated_migrations():
        yield


def same(value: Any) -> Any:
    """Nothing to do."""
    return value


def gives(value: Any) -> Callable[[Any], Any]:
    """A migration that gives that value."""
    return lambda _: value


def text(value: Any) -> str:
    """A value as JSON text, however its keys are ordered."""
    return json.dumps(value, sort_keys=True)


class TestChain:
    def test_a_v2_checkpoint_migrates_losslessly_to_v3(self) -> None:
        """Seed 003, first fixture: out of a log's snapshot, there and back again, and the log stays as it is."""
        migration("state", from_version=2)(
            compose(
                rename("tool.args.env", "tool.args.environment"),
                add("tool.args.region", "eu"),
                split("approver", "by", "role"),
            )
        )
        saved = {"tool": {"name": "deploy", "args": {"env": "prod"}}, "approver": {"by": "Ann", "role": "lead"}}
        builder = LogBuilder("run-1", "release")
        builder.add("STATE_SNAPSHOT", {"stateSchemaVersion": 2, "state": saved}, timestamp=1)
        state = builder.log().state
        raw = bytes(state.first_event.raw)
        migrated = migrate("state", state.state, state.state_schema_version, 3)
        assert migrated == {
            "tool": {"name": "deploy", "args": {"environment": "prod", "region": "eu"}},
            "by": "Ann",
            "role": "lead",
        }
        assert migrate("state", migrated, 3, 2) == state.state == saved
        assert bytes(state.first_event.raw) == raw

    def test_numbers_chain_by_one_and_texts_by_what_was_registered(self) -> None:
        """``chain`` gives the steps in order, over mixed versions too; 3 and "3" are two versions."""
        migration("plan", from_version=1)(same)
        migration("plan", from_version=2)(same)
        migration("plan", from_version=3, to_version="2026-01")(same)
        migration("plan", from_version="2026-01", to_version="2026-07")(same)
        steps = chain("plan", 1, "2026-07")
        assert steps is not None
        assert [(step.from_version, step.to_version) for step in steps] == [
            (1, 2),
            (2, 3),
            (3, "2026-01"),
            ("2026-01", "2026-07"),
        ]
        assert chain("plan", 2, 3) == steps[1:2]
        assert (chain("plan", 2, 2), chain("plan", "never seen", "never seen")) == ([], [])
        assert (chain("plan", 1, "3"), chain("plan", 3, 1), chain("state", 1, 2)) == (None, None, None)
        assert (chain("plan", True, 2), chain("plan", None, 2), chain("plan", [1], 2)) == (None, None, None)

    def test_each_thing_has_its_own_migrations(self) -> None:
        """State, plan and each tool's arguments are versioned apart."""
        for what, value in (("state", "s"), ("plan", "p"), ("tool:pay", "pay"), ("tool:refund", "refund")):
            migration(what, from_version=1)(gives({"by": value}))
        found = [migrate(what, {}, 1, 2) for what in ("state", "plan", "tool:pay", "tool:refund")]
        assert [value["by"] for value in found] == ["s", "p", "pay", "refund"]

    def test_equal_versions_give_a_copy(self) -> None:
        """Nothing has to be done, and what one does to the result does not reach the saved value."""
        saved = {"items": [1]}
        migrate("state", saved, 3, 3)["items"].append(2)
        assert saved == {"items": [1]}

    def test_the_value_and_the_migrations_own_objects_stay_as_they_are(self) -> None:
        """The result shares nothing with either."""
        default: list[int] = []
        saved = {"items": [1]}
        migration("state", from_version=1)(lambda state: {**state, "tags": default})
        result = migrate("state", saved, 1, 2)
        result["items"].append(2)
        result["tags"].append(3)
        assert (saved, default) == ({"items": [1]}, [])

    def test_a_circle_of_versions_ends(self) -> None:
        """Two migrations that lead to each other are each other's way back, and nothing hangs."""
        migration("plan", from_version="a", to_version="b")(same)
        migration("plan", from_version="b", to_version="a")(same)
        assert [step.to_version for step in chain("plan", "a", "b") or []] == ["b"]
        assert [step.to_version for step in chain("plan", "b", "a") or []] == ["a"]
        with pytest.raises(MigrationError, match=r'chain: "a" -> "b" -> \? -> "c"'):
            migrate("plan", {}, "a", "c")
        with pytest.raises(MigrationError, match=r'chain: "c" -> \? -> "b" -> "a"'):
            migrate("plan", {}, "c", "a")


class TestGaps:
    @pytest.mark.parametrize(
        ("known", "start", "goal", "expected"),
        [
            ([(1, 2), (3, 4)], 1, 4, "no migration takes state from version 2 to 3 (chain: 1 -> 2 -> ? -> 3 -> 4)"),
            ([], 1, 3, "no migration takes state from version 1 to 2 (chain: 1 -> ? -> 3)"),
            ([(1, 2)], 9, 2, "no migration takes state back from version 9 to 2 (chain: 9 -> ? -> 2)"),
            ([(1, 2)], 0, 2, "no migration takes state from version 0 to 1 (chain: 0 -> ? -> 1 -> 2)"),
            (
                [("a", "b"), ("x", "y")],
                "a",
                "y",
                'no migration takes state from version "b" to "y" (chain: "a" -> "b" -> ? -> "x" -> "y")',
            ),
            ([(1, 2)], "1", 2, 'no migration takes state from version "1" to 2 (chain: "1" -> ? -> 1 -> 2)'),
            ([], None, 3, "state says no version"),
            ([], 2.0, 3, "state has the version 2.0, which is neither a whole number nor a text"),
            ([], {"v": 1}, 3, "state has the version {'v': 1}, which is neither a whole number nor a text"),
        ],
    )
    def test_an_unknown_version_fails_closed_and_shows_the_chain(
        self, known: list[tuple[Any, Any]], start: Any, goal: Any, expected: str
    ) -> None:
        """Seed 003, fourth fixture: no migration is run at all, and nothing is filled in."""
        saved = {"order": 7}
        for from_version, to_version in known:
            migration("state", from_version=from_version, to_version=to_version)(lambda _: pytest.fail("was run"))
        with pytest.raises(StateMigrationError) as caught:
            migrate("state", saved, start, goal)
        assert caught.value.what == expected
        assert "nothing is guessed" in caught.value.hint
        assert saved == {"order": 7}

    def test_the_hint_is_what_to_type(self) -> None:
        """Both for numbers and where the next version has to be said."""
        with pytest.raises(MigrationError, match=r'@migration\("tool:pay", from_version=1\)'):
            migrate("tool:pay", {}, 1, 2)
        with pytest.raises(MigrationError, match=r"@migration\(\"plan\", from_version='a', to_version='b'\)"):
            migrate("plan", {}, "a", "b")

    def test_without_an_inverse_nothing_leads_back(self) -> None:
        """The step that lacks one is named."""
        migration("state", from_version=1)(same)
        migration("state", from_version=2, inverse=same)(same)
        with pytest.raises(StateMigrationError) as caught:
            migrate("state", {}, 3, 1)
        assert caught.value.what.startswith(f"the migration of state from version 1 to 2 (same, {__file__}:")
        assert caught.value.what.endswith(" has no inverse, so nothing leads back (chain: 3 -> 2 -> ?)")

    @pytest.mark.parametrize(
        ("what", "kind"), [("state", StateMigrationError), ("plan", MigrationError), ("tool:pay", MigrationError)]
    )
    def test_only_a_runs_state_has_the_error_of_adr_0056(self, what: str, kind: type[LoomError]) -> None:
        """Whoever refuses a run for its state catches one class, and MigrationError catches all of them."""
        with pytest.raises(MigrationError) as caught:
            migrate(what, {}, 1, 2)
        assert type(caught.value) is kind
        again = pickle.loads(pickle.dumps(caught.value))
        assert (type(again), str(again)) == (kind, str(caught.value))


def gives_up(value: Any) -> Any:
    """No lossless way."""
    raise Unsupported("the ticket is not known")


def changes_its_input(value: Any) -> Any:
    """Changes what it was given, and gives nothing."""
    value["order"] = 8


def counts(value: Any) -> Any:
    """Another number each time."""
    return {"id": next(COUNTER)}


class TestProof:
    @pytest.mark.parametrize(
        ("function", "expected"),
        [
            (gives_up, "says that there is no lossless way: the ticket is not known"),
            (lambda value: value["gone"], "raised KeyError: 'gone'"),
            (changes_its_input, "changed the value that it was given, at args.order"),
            (counts, "gave two different results for one input, at args.id"),
            (gives(None), "returned None"),
            (gives({"a": [math.nan]}), "gave nan at args.a[0], which JSON cannot say"),
            (gives({"a": ()}), "gave a tuple at args.a, which is not plain JSON data"),
        ],
    )
    def test_what_is_not_pure_or_not_plain_fails_closed(self, function: Callable[[Any], Any], expected: str) -> None:
        """The migration, its place, what it did and where, and the chain up to it."""
        migration("tool:pay", from_version=1)(same)
        migration("tool:pay", from_version=2)(function)
        migration("tool:pay", from_version=3)(same)
        with pytest.raises(MigrationError) as caught:
            migrate("tool:pay", {"order": 7}, 1, 4)
        assert caught.value.what.startswith("the migration of the arguments of pay from version 2 to 3 (")
        assert f"{__file__}:" in caught.value.what
        assert caught.value.what.endswith(f") {expected} (chain: 1 -> 2 -> ? -> 4)")

    def test_a_value_that_is_not_plain_is_refused_before_anything_runs(self) -> None:
        """What came out of a log is plain JSON data; anything else was not decoded."""
        migration("state", from_version=1)(lambda _: pytest.fail("was run"))
        with pytest.raises(StateMigrationError, match=r"state to be migrated holds a tuple at state\.a"):
            migrate("state", {"a": (1,)}, 1, 2)

    def test_a_value_need_not_be_an_object(self) -> None:
        """State is any JSON value; only None as a result means that a return was forgotten."""
        migration("state", from_version=1)(lambda value: [value])
        values: list[Any] = [None, 0, "a", []]
        assert [migrate("state", value, 1, 2) for value in values] == [[None], [0], ["a"], [[]]]


class TestInverse:
    def test_it_takes_values_back_through_the_chain(self) -> None:
        """In reverse order, each by its own inverse."""
        migration("state", from_version=1, inverse=lambda value: value[:-1])(lambda value: [*value, 2])
        migration("state", from_version=2, inverse=lambda value: value[:-1])(lambda value: [*value, 3])
        assert migrate("state", [1], 1, 3) == [1, 2, 3]
        assert migrate("state", [1, 2, 3], 3, 1) == [1]
        assert [str(step).split(" (")[0] for step in chain("state", 3, 1) or []] == [
            "the inverse of the migration of state from version 2 to 3",
            "the inverse of the migration of state from version 1 to 2",
        ]

    @pytest.mark.parametrize(
        ("inverse", "expected"),
        [
            (gives({"cents": 8}), "does not round trip: taken back, state.cents is not what it was"),
            (gives({"cents": 7.0}), "does not round trip: taken back, state.cents is not what it was"),
            (gives({"cents": 7, "more": 1}), "does not round trip: taken back, state.more is not what it was"),
            (gives_up, "does not round trip: the way back says that there is no lossless way: the ticket is not known"),
            (counts, "does not round trip: the way back gave two different results for one input, at state.id"),
        ],
        ids=["another value", "another type", "more", "no way", "impure"],
    )
    def test_what_does_not_round_trip_is_refused(self, inverse: Callable[[Any], Any], expected: str) -> None:
        """A step that loses something is told, unless the caller wants no proof."""
        migration("state", from_version=1, inverse=inverse)(gives({"euros": "0.07"}))
        with pytest.raises(StateMigrationError) as caught:
            migrate("state", {"cents": 7}, 1, 2)
        assert caught.value.what.endswith(f") {expected} (chain: 1 -> ?)")
        assert migrate("state", {"cents": 7}, 1, 2, verify=False) == {"euros": "0.07"}

    def test_the_order_of_keys_is_no_part_of_the_round_trip(self) -> None:
        """An object is the same in any order."""
        migration("state", from_version=1, inverse=lambda value: {"a": 1, "b": 2})(same)
        assert migrate("state", {"b": 2, "a": 1}, 1, 2) == {"a": 1, "b": 2}

    def test_going_back_is_proven_too(self) -> None:
        """What the older version has no place for is not dropped silently."""
        migration("state", from_version=1, inverse=lambda value: {})(lambda value: {"currency": "EUR"})
        assert migrate("state", {"currency": "EUR"}, 2, 1) == {}
        with pytest.raises(StateMigrationError, match=r"the inverse of .* taken back, state\.currency is not what it"):
            migrate("state", {"currency": "USD"}, 2, 1)


class TestRegistering:
    def test_two_for_one_version_are_an_error_that_names_both(self) -> None:
        """Wherever they lead; the first stays."""
        migration("tool:pay", from_version=1)(same)
        with pytest.raises(MigrationError) as caught:
            migration("tool:pay", from_version=1, to_version=3)(rename("a", "b"))
        assert caught.value.what.startswith("two migrations take the arguments of pay from version 1: same, ")
        assert "rename('a', 'b'), " in caught.value.what
        assert caught.value.what.count(f"{__file__}:") == 2
        assert [(step.what, step.to_version) for step in registered()] == [("tool:pay", 2)]

    def test_a_module_may_be_loaded_again(self) -> None:
        """Reloaded, or imported under a second name: the newest counts."""
        line = "from pytest_loom.log.migrations import migration; migration('plan', from_version=1)(lambda _: name)"
        for name in ("one", "two"):
            exec(compile(line, "/app/migrations.py", "exec"), {"name": name})
        assert migrate("plan", {}, 1, 2) == "two"

    @pytest.mark.parametrize(
        ("what", "versions", "error"),
        [
            ("states", {"from_version": 1}, ValueError),
            ("tool:", {"from_version": 1}, ValueError),
            (None, {"from_version": 1}, ValueError),
            ("state", {"from_version": "a"}, ValueError),
            ("state", {"from_version": 1, "to_version": 1}, ValueError),
            ("state", {"from_version": True}, TypeError),
            ("state", {"from_version": 1.0}, TypeError),
            ("state", {"from_version": 1, "to_version": None, "inverse": "back"}, TypeError),
        ],
    )
    def test_what_cannot_be_meant_is_refused_at_once(
        self, what: Any, versions: dict[str, Any], error: type[Exception]
    ) -> None:
        """A migration that could never be asked is a mistake where it is written."""
        with pytest.raises(error):
            migration(what, **versions)(same)
        assert registered() == []

    def test_isolation_is_undone(self) -> None:
        """What was registered before is there again, what came within is gone."""
        migration("plan", from_version=1)(same)
        with isolated_migrations():
            assert registered() == []
            migration("plan", from_version=1)(gives(2))
        assert [step.function for step in registered()] == [same]


OLD = {"id": 1, "order": {"amount": "7", "note": "x"}}


class TestHelpers:
    @pytest.mark.parametrize(
        ("change", "new"),
        [
            (add("order.currency", "EUR"), {"id": 1, "order": {"amount": "7", "note": "x", "currency": "EUR"}}),
            (add("tags", []), {**OLD, "tags": []}),
            (rename("id", "key"), {"key": 1, "order": {"amount": "7", "note": "x"}}),
            (rename("order.note", "note"), {"id": 1, "note": "x", "order": {"amount": "7"}}),
            (retype("order.amount", int, str), {"id": 1, "order": {"amount": 7, "note": "x"}}),
            (split("order", "amount", "note"), {"id": 1, "amount": "7", "note": "x"}),
            (
                split("order.note", "order.a", "order.b", by=lambda note: [note, 1], inverse=lambda note, _: note),
                {"id": 1, "order": {"amount": "7", "a": "x", "b": 1}},
            ),
            (merge(["order.amount", "order.note"], "order.all"), {"id": 1, "order": {"all": OLD["order"]}}),
            (
                merge(["id", "order.note"], "id", lambda one, two: f"{one}{two}", lambda both: [int(both[0]), both[1]]),
                {"id": "1x", "order": {"amount": "7"}},
            ),
            (
                compose(rename("id", "key"), add("key2", 2), compose(rename("order", "o"))),
                {"key": 1, "key2": 2, "o": {"amount": "7", "note": "x"}},
            ),
        ],
        ids=str,
    )
    def test_a_change_and_its_way_back(self, change: Change, new: Any) -> None:
        """Each gives a new value, is proven pure, and knows its inverse, whose inverse is the change again."""
        migration("state", from_version=1)(change)
        assert migrate("state", OLD, 1, 2) == new
        assert migrate("state", new, 2, 1) == OLD
        assert change.inverse is not None
        assert change.inverse(change(OLD)) == OLD
        assert change.inverse.inverse is not None
        assert change.inverse.inverse(OLD) == new

    def test_a_change_without_a_way_back_has_none(self) -> None:
        """And neither has what is composed of it."""
        changes = [
            retype("id", str),
            merge(["a", "b"], "c", lambda a, b: a),
            split("a", "b", "c", by=list),
            compose(rename("a", "b"), same),
        ]
        assert [change.inverse for change in changes] == [None] * 4
        assert compose(rename("id", "key"), lambda value: {**value, "more": 1})(OLD)["more"] == 1

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            (add("id", 2), "id is there already, and is not overwritten"),
            (add("customer.name", ""), "there is no customer for customer.name"),
            (add("id.name", ""), "there is no object around id.name"),
            (rename("gone", "new"), "there is no gone for gone"),
            (rename("id", "order"), "order is there already"),
            (rename("order.gone", "new"), "there is no gone for order.gone"),
            (retype("gone", int), "there is no gone for gone"),
            (split("order", "amount"), "order is not an object with just amount"),
            (split("id", "a", "b"), "id is not an object with just a, b"),
            (split("order.note", "a", "b", by=list), "order.note became 1 values for 2 keys"),
            (merge(["id", "gone"], "all"), "there is no gone for gone"),
            (rename("note", "text").inverse, "there is no text for text"),
        ],
    )
    def test_nothing_is_filled_in_or_overwritten(self, change: Change, why: str) -> None:
        """A value that does not have the shape that the change is for is refused."""
        with pytest.raises(Unsupported) as caught:
            change(OLD)
        assert caught.value.what.startswith(why)
        others: list[Any] = [None, [], "text"]
        for value in others:
            with pytest.raises(Unsupported, match="there is no object around"):
                change(value)

    def test_what_was_added_is_only_removed_while_it_says_nothing(self) -> None:
        """Going back with another value than the default would lose it; 1 and true are two values."""
        back = add("flag", 1).inverse
        assert back is not None
        assert back({"flag": 1}) == {}
        for other in (2, True, 1.0, None):
            with pytest.raises(Unsupported, match="flag is not its default"):
                back({"flag": other})
        zero = add("flag", 0.0).inverse
        assert zero is not None
        with pytest.raises(Unsupported, match="flag is not its default"):
            zero({"flag": -0.0})

    def test_a_default_is_a_value_of_its_own_each_time(self) -> None:
        """Two states that got it do not share it, nor is it whatever becomes of the list it was written as."""
        default = [1]
        change = add("tags", default)
        default.append(2)
        change({})["tags"].append(3)
        assert change({}) == {"tags": [1]}

    def test_mistakes_are_refused_where_they_are_written(self) -> None:
        """A default that no log can hold; two keys that would fall together."""
        with pytest.raises(ValueError, match=r"add\('a'\): a tuple at default"):
            add("a", ())
        with pytest.raises(ValueError, match="end with the same key"):
            merge(["a.id", "b.id"], "ids")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=5,
)


@st.composite
def checkpoints(draw: st.DrawFn) -> tuple[dict[str, Any], list[Change]]:
    """A state, and changes that can be applied to it one after the other."""
    state = {f"k{number}": draw(VALUES) for number in range(draw(st.integers(2, 4)))}
    keys, changes = list(state), []
    for number in range(draw(st.integers(1, 5))):
        kind, new = draw(st.sampled_from(["add", "rename", "retype", "merge", "nest"])), f"n{number}"
        key = draw(st.sampled_from(keys))
        if kind == "add":
            changes.append(add(new, draw(VALUES)))
            keys.append(new)
        elif kind == "retype":
            changes.append(retype(key, lambda value: [value], lambda value: value[0]))
        elif kind == "merge" and len(keys) > 2:
            other = draw(st.sampled_from([each for each in keys if each != key]))
            changes.append(merge([key, other], new))
            keys = [each for each in keys if each not in (key, other)] + [new]
        elif kind == "nest":
            changes.append(compose(merge([key], new), rename(f"{new}.{key}", f"{new}.inner")))
            keys = [each for each in keys if each != key] + [new]
        else:
            changes.append(rename(key, new))
            keys = [each for each in keys if each != key] + [new]
    return state, changes


class TestGeneratedCheckpoints:
    @given(checkpoints(), st.data())
    @settings(max_examples=200, deadline=None)
    def test_two_stretches_of_the_chain_are_the_whole_and_the_composition(
        self, checkpoint: tuple[dict[str, Any], list[Change]], data: st.DataObject
    ) -> None:
        """Migrating twice equals once through the composition, and all of it can be taken back."""
        state, changes = checkpoint
        last, half = len(changes) + 1, data.draw(st.integers(1, len(changes) + 1))
        before = text(state)
        with isolated_migrations():
            for version, change in enumerate(changes, 1):
                migration("state", from_version=version)(change)
            whole = migrate("state", state, 1, last)
            halves = migrate("state", migrate("state", state, 1, half), half, last)
            assert text(whole) == text(halves) == text(compose(*changes)(state))
            assert text(state) == before
            assert first_difference(migrate("state", whole, last, 1), state, "state") is None
        with isolated_migrations():
            migration("state", from_version=1)(compose(*changes))
            assert text(migrate("state", state, 1, 2)) == text(whole)
            assert text(migrate("state", whole, 2, 1)) == before
