"""The input of a run: what is given, as it is recorded, and what is recorded, as today's flow takes it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from pytest_loom.errors import FlowError, LoomError, ReplayDivergence, printable
from pytest_loom.evals.values import MISSING
from pytest_loom.flow.definition import Flow
from pytest_loom.flow.history import History
from pytest_loom.flow.values import encode, why_not


def given(flow: Flow[..., Any], input: Any) -> tuple[tuple[Any, ...], dict[str, Any], bytes]:
    """The arguments that an input means, and the input as it is recorded."""
    parameters = named_parameters(flow)
    if input is MISSING:
        missing = _missing(parameters, {})
        if missing:
            raise FlowError(f"flow {flow.id} needs its input {missing[0]}", hint="record(flow, input)")
        return (), {}, b""
    if not parameters:
        if input is None:
            return (), {}, b""
        raise FlowError(f"flow {flow.id} takes no input", hint="record(flow)")
    names = {part.name for part in parameters}
    try:
        if len(parameters) == 1:
            value = flow.input.parse(input)
            return *_placed(flow, {parameters[0].name: value}), encode(flow.input.dump(value))
        if not (isinstance(input, Mapping) and set(input) <= names):
            input = {parameters[0].name: input}
        missing = _missing(parameters, input)
        if missing:
            raise FlowError(f"flow {flow.id} needs its input {missing[0]}", hint="Give a dict of all inputs by name.")
        values = {name: flow.input_parts[name].parse(value) for name, value in input.items()}
        raw = encode({name: flow.input_parts[name].dump(value) for name, value in values.items()})
        return *_placed(flow, values), raw
    except ValueError as problem:
        if isinstance(problem, LoomError):
            raise
        raise FlowError(
            f"the input does not fit flow {flow.id}: {why_not(problem)}", hint="Give what its annotation says."
        ) from None


def named_parameters(flow: Flow[..., Any]) -> list[inspect.Parameter]:
    """What the flow takes by name or place."""
    return [part for part in flow.parameters if part.kind not in (part.VAR_POSITIONAL, part.VAR_KEYWORD)]


def _missing(parameters: list[inspect.Parameter], given: Mapping[str, Any]) -> list[str]:
    """The parameters that have no default and are not given."""
    return [part.name for part in parameters if part.default is part.empty and part.name not in given]


def _placed(flow: Flow[..., Any], values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs as the flow's parameters take them, by place or by name; those left out by their defaults."""
    placed = [part for part in flow.parameters if part.kind in (part.POSITIONAL_ONLY, part.POSITIONAL_OR_KEYWORD)]
    named = [part for part in flow.parameters if part.kind is part.KEYWORD_ONLY and part.name in values]
    args = tuple(values.get(part.name, part.default) for part in placed)
    return args, {part.name: values[part.name] for part in named}


def recorded_input(flow: Flow[..., Any], history: History) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that a recorded input means to today's flow."""
    raw = history.raw_input
    parameters = named_parameters(flow)
    try:
        if not raw:
            missing = _missing(parameters, {})
            if missing:
                raise ValueError(f"{missing[0]} is missing")
            return (), {}
        if not parameters and raw != b"null":
            raise ValueError("it takes no input any more")
        if len(parameters) == 1:
            return _placed(flow, {parameters[0].name: flow.input.load_raw(raw)})
        data = msgspec.json.decode(raw)
        if not isinstance(data, dict):
            data = {} if data is None else {parameters[0].name: data}
        unknown = [name for name in data if name not in flow.input_parts]
        missing = _missing(parameters, data)
        if unknown or missing:
            raise ValueError(f"{printable(unknown[0])} is unknown" if unknown else f"{missing[0]} is missing")
        return _placed(flow, {name: flow.input_parts[name].load(value) for name, value in data.items()})
    except ValueError as problem:
        error = ReplayDivergence(
            f"the recorded input does not fit today's flow {flow.id}: {why_not(problem)}",
            path=history.log.path,
            line=history.log.events[0].line,
            execution_id=history.log.execution_id,
            hint="A waiting run could not be resumed on this code: keep the input readable, or migrate it:\n"
            "  resume_as(log, flow, transform_state=lambda old: …)",
        )
        error.kind = "input-contract"
        raise error from None


def flow_at(flow: Flow[..., Any], namespace: str | None) -> Flow[..., Any]:
    """The sub-flow whose effects are recorded under a namespace (``child#2/grandchild``); the flow where none is."""
    for part in (namespace or "").split("/"):
        inner = flow.steps.get(re.sub(r"^[\d.]+:|#\d+$", "", part))
        if isinstance(inner, Flow):
            flow = inner
    return flow
