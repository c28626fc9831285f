"""Save a ticket that waits anew, with last week's code: ``python make_tickets.py [FOLDER]``.

It needs the OpenAI Agents SDK, and no key: a scripted model says what the real one said.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from agents import Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import ResponseFunctionToolCall

from tickets_v1.desk import front

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("transfer_to_refunds", {}),
    ("refund", {"order": "A-17", "cents": 4999}),
)
"""What the model asks for, turn by turn."""


class Scripted(Model):
    """Asks for one call a turn."""

    def __init__(self) -> None:
        self.left = list(enumerate(CALLS, 1))

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """The next one."""
        turn, (name, arguments) = self.left.pop(0)
        call = ResponseFunctionToolCall(
            type="function_call", call_id=f"call-{turn}", name=name, arguments=json.dumps(arguments)
        )
        return ModelResponse(output=[call], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        """Not used here."""
        raise NotImplementedError


def make_tickets(folder: Path) -> None:
    """Let last week's desk work up to where it asks a person, and save its run as an application would."""
    config = RunConfig(model=Scripted(), tracing_disabled=True)
    result = asyncio.run(Runner.run(front, "Order A-17 arrived broken", run_config=config))
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result.to_state().to_json(), indent=1) + "\n"
    (folder / "ticket-17.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    make_tickets(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "tests" / "logs" / "tickets")
