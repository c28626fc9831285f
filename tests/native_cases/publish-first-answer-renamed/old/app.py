"""Publishing: draft, let the lawyer and then the editor read it, print. A sync flow with two gates in a row."""

from __future__ import annotations

import os
from dataclasses import dataclass

from pytest_loom import SyncContext, flow, step


@dataclass
class Opinion:
    fine: bool
    note: str


def outside(line: str) -> None:
    with open(os.environ["EFFECTS_LOG"], "a") as file:
        file.write(f"{line}\n")


@step
def draft(title: str) -> str:
    outside(f"draft {title}")
    return f"{title}, 400 words"


@step
def typeset(text: str) -> int:
    outside(f"typeset {text}")
    return 3


@step
def press(title: str, pages: int, imprint: str) -> str:
    outside(f"print {title}, {pages} pages, {imprint}")
    return f"{title}, first edition"


@flow(
    id="publish",
    version="1.0.0",
    steps=[draft, typeset, press],
    gates={"LawyerSaid": Opinion, "EditorSaid": Opinion},
)
def publish(ctx: SyncContext, title: str) -> str:
    text = ctx.run(draft, title)
    lawyer = ctx.suspend("LawyerSaid", correlation_key=title, kind="question")
    if not lawyer.fine:
        return f"withdrawn: {lawyer.note}"
    pages = ctx.run(typeset, text)
    editor = ctx.suspend("EditorSaid", correlation_key=title, kind="question")
    if not editor.fine:
        return f"sent back: {editor.note}"
    return ctx.run(press, title, pages, f"{lawyer.note}; {editor.note}")


flows = {"publish": publish}
