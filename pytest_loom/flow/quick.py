"""The way that most effects of a replay take: the next recorded step, asked the same, is answered at once.

It does nothing that the ordinary way (``perform``) would not do, and leaves to it whatever is not that plain.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pytest_loom.errors import FlowError, RecordingError
from pytest_loom.flow import diverge
from pytest_loom.flow.branches import Branch
from pytest_loom.flow.definition import Step
from pytest_loom.flow.run import Run
from pytest_loom.flow.turns import Stop
from pytest_loom.flow.values import plain

SLOWLY = object()
"""What ``quickly`` gives where the ordinary way has to be taken."""

said = msgspec.json.Encoder(enc_hook=lambda value: plain(value, "")).encode
"""A value as JSON text, fast: where this is what was recorded, the value is. But it says null of NaN, too."""

UNSAID = (TypeError, ValueError, OverflowError, RecursionError, RecordingError)
"""What encoding raises for what it cannot say."""


def quickly(run: Run, branch: Branch, step: Step[..., Any], value: Any) -> Any:
    """The recorded answer to a step that is given one argument, or SLOWLY. Raises Stop where it fits no annotation."""
    effects, position = branch.effects, branch.position
    if position >= len(effects) or run.stopping or run.concurrent:
        return SLOWLY
    effect = effects[position]
    recorded = effect.input
    if (
        effect.name != step.id
        or effect.start.sequence > run.barrier
        or effect.order != run.cursor
        or effect.kind != "step"
        or effect.outcome != "completed"
        or effect.between is not None
        or not effect.output
        or not recorded
        or b'"kwargs"' in recorded  # several arguments
    ):
        return SLOWLY
    try:
        if b"null" in recorded:
            import pydantic_core  # which says NaN of NaN; most runs need none of it

            asked = pydantic_core.to_json(value, inf_nan_mode="strings", bytes_mode="base64")
        else:
            asked = said(value)
    except UNSAID:
        return SLOWLY
    if asked != recorded:
        return SLOWLY
    branch.position = position + 1
    effect.taken = True
    run.cursor += 1
    run.jumps = 0
    events = run.recorder.events
    events.append(effect.start)
    events.append(effect.end)  # type: ignore[arg-type]
    try:
        return step.output.load_raw(effect.output)
    except (ValueError, TypeError, FlowError) as problem:
        run.fail(diverge.unfit(run, effect, problem))
        raise Stop from None
