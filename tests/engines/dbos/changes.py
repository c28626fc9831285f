"""Applications on DBOS, and changes of them while a run waits, with what the real DBOS then does with the run.

What is pinned here was seen: each run was started by the old code, its process killed, and the run recovered by the new
code (``resumed.py``). ``lost`` says that it did not come to the same end with the same effects: it ended in ERROR,
ended without its remaining work, or stayed where it was. ``code`` is the finding that has to name it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

HEAD = """
import asyncio, dataclasses, os
from dbos import DBOS, DBOSConfig

config: DBOSConfig = {
    "name": "desk",
    "system_database_url": os.environ.get("DESK_DATABASE", "sqlite:///desk.sqlite"),
    "application_version": "1",
}

def outside(line):
    with open(os.environ["DESK_EFFECTS"], "a") as file:
        file.write(line + "\\n")
"""

CLAIM = """
@dataclasses.dataclass
class Claim:
    number: str
    cents: int

@DBOS.step()
def load(number):
    return Claim(number, 4999)

@DBOS.step()
def judge(claim):
    outside(f"judge {claim.number}")
    return "fair" if claim.cents < 10000 else "high"

@DBOS.step()
def pay(claim, by):
    outside(f"pay {claim.number} {claim.cents} by {by}")
    return claim.cents

@DBOS.step()
def tell(number):
    outside(f"tell {number}")

@DBOS.workflow()
def claim(number):
    found = load(number)
    verdict = judge(found)
    DBOS.set_event("verdict", verdict)
    answer = DBOS.recv("approval", timeout_seconds=200000000)
    if answer is None:
        return "nobody"
    paid = pay(found, answer)
    tell(number)
    return paid

flows = {"claim": claim}
"""

TRIAL = """
LONG = 200000000

@DBOS.step()
def welcome(user):
    outside(f"welcome {user}")

@DBOS.step()
def charge(user):
    outside(f"charge {user}")
    return 900

@DBOS.workflow()
def trial(user):
    welcome(user)
    DBOS.sleep(LONG)
    return charge(user)

flows = {"trial": trial}
"""

FANOUT = """
@DBOS.step()
async def fetch(part):
    return len(part)

@DBOS.step()
async def check(part):
    return part != ""

@DBOS.step()
async def publish(total):
    outside(f"publish {total}")
    return total

@DBOS.workflow()
async def digest(parts, title="untitled"):
    sizes = await asyncio.gather(*[fetch(part) for part in parts])
    fine = await check(title)
    go = await DBOS.recv_async("go", timeout_seconds=200000000)
    return await publish(sum(sizes)) if go and fine else 0

flows = {"digest": digest}
"""

PARENT = """
@DBOS.step()
def scan(name):
    outside(f"scan {name}")
    return "clear"

@DBOS.step()
def open_account(name, verdict):
    outside(f"open {name} {verdict}")
    return 7

@DBOS.step()
def boom(name):
    raise ValueError("no such register")

@DBOS.workflow()
def screen(name):
    return scan(name)

@DBOS.workflow()
def onboard(name):
    handle = DBOS.start_workflow(screen, name)
    verdict = handle.get_result()
    try:
        boom(name)
    except ValueError as problem:
        verdict += f" ({problem})"
    signed = DBOS.recv("signed", timeout_seconds=200000000)
    sealed = DBOS.recv("sealed", timeout_seconds=200000000)
    return open_account(name, verdict) if signed and sealed else 0

flows = {"onboard": onboard, "screen": screen}
"""

APPS = {"claim": HEAD + CLAIM, "trial": HEAD + TRIAL, "digest": HEAD + FANOUT, "onboard": HEAD + PARENT}
ARGUMENTS: dict[str, list[Any]] = {"claim": ["C-1"], "trial": ["ada"], "digest": [["a", "bcd"]], "onboard": ["acme"]}
ANSWERS: dict[str, list[list[str]]] = {
    "claim": [["approval", "ada"]],
    "trial": [],
    "digest": [["go", "yes"]],
    "onboard": [["signed", "s.pdf"], ["sealed", "w.pdf"]],
}


@dataclass(frozen=True)
class Change:
    """A change of an application, and what became of the run that waited.

    ``mail`` came before the new code started, so that it lies unread in the store; ``answers`` come afterwards, the
    usual ones unless said. ``more``: the run does what it did, and what is new comes on top.
    """

    app: str
    edits: tuple[tuple[str, str], ...]
    lost: bool
    code: str = ""
    mail: tuple[tuple[str, str], ...] = ()
    answers: tuple[tuple[str, str], ...] | None = None
    more: bool = False
    contract: bool = False
    """Told only beside a captured contract."""


RECV = 'DBOS.recv("approval"'
LOAD = "found = load(number)"

CHANGES: dict[str, Change] = {
    "nothing": Change("claim", (), False),
    "a step renamed": Change("claim", (("judge", "assess"),), True, "replay-diverged"),
    "a step renamed, its old name kept": Change(
        "claim", (("@DBOS.step()\ndef judge", '@DBOS.step(name="judge")\ndef assess'), ("= judge(", "= assess(")), False
    ),
    "a step inserted at the start": Change(
        "claim", ((LOAD, "tell(number)\n    found = load(number)"),), True, "replay-diverged"
    ),
    "a step inserted right before the wait": Change(
        "claim", (("    answer = DBOS.recv", "    tell(number)\n    answer = DBOS.recv"),), True, "replay-diverged"
    ),
    "a patch right before the wait": Change(
        "claim",
        (("    answer = DBOS.recv", '    if DBOS.patch("tell"): tell(number)\n    answer = DBOS.recv'),),
        True,
        "replay-diverged",
    ),
    "a patch at the start": Change(
        "claim", ((LOAD, 'if DBOS.patch("tell"): tell(number)\n    found = load(number)'),), False
    ),
    "an event removed": Change("claim", (('    DBOS.set_event("verdict", verdict)\n', ""),), True, "replay-diverged"),
    "an event of another key": Change("claim", (('"verdict", verdict', '"opinion", verdict'),), False),
    "the wait is gone": Change(
        "claim", (('DBOS.recv("approval", timeout_seconds=200000000)', '"ada"'),), True, "replay-diverged"
    ),
    "the code ends before the wait": Change(
        "claim",
        (("    answer = DBOS", '    if verdict == "fair": return 0\n    answer = DBOS'),),
        True,
        "frontier-missing",
    ),
    "a step appended": Change(
        "claim", (("    tell(number)\n    return", "    tell(number)\n    load(number)\n    return"),), False
    ),
    "the topic renamed": Change("claim", ((RECV, 'DBOS.recv("answer"'),), True, "gate-removed", contract=True),
    "the topic renamed, mail waits": Change(
        "claim", ((RECV, 'DBOS.recv("answer"'),), True, "gate-removed", mail=(("approval", "ada"),), answers=()
    ),
    "mail waits for the code as it is": Change("claim", (), False, mail=(("approval", "ada"),), answers=()),
    "a field that is read renamed": Change(
        "claim",
        (
            ("    cents: int", "    amount: int"),
            ("claim.cents", "claim.amount"),
            ("verdict = judge(found)", "verdict = judge(found) if found.amount else 0"),
        ),
        True,
        "replay-diverged",
    ),
    "a field that is read after the wait renamed": Change(
        "claim", (("    cents: int", "    amount: int"), ("claim.cents", "claim.amount")), True, "output-contract"
    ),
    "a field renamed, with a default": Change(
        "claim",
        (
            ("    cents: int", "    amount: int = 0"),
            ("Claim(number, 4999)", "Claim(number, amount=4999)"),
            ("claim.cents", "claim.amount"),
        ),
        True,
        "output-contract",
    ),
    "a field added, with a default": Change(
        "claim",
        (("    cents: int", '    cents: int\n    kind: str = "car"'), ("by {by}", "by {by}{claim.kind[3:]}")),
        False,
    ),
    "a field added that is made anew": Change(
        "claim",
        (
            ("    cents: int", "    cents: int\n    notes: list = dataclasses.field(default_factory=list)"),
            ("by {by}", "by {by}{len(claim.notes) or str()}"),
        ),
        True,
        "output-contract",
    ),
    "a field renamed, the old one read": Change(
        "claim",
        (
            (
                "    cents: int",
                "    amount: int = 0\n\n    def __setstate__(self, old):\n"
                "        self.__dict__ |= {**old, 'amount': old['cents']}",
            ),
            ("Claim(number, 4999)", "Claim(number, amount=4999)"),
            ("claim.cents", "claim.amount"),
        ),
        False,
    ),
    "a class renamed": Change("claim", (("Claim", "Damage"),), True, "output-contract"),
    "a class renamed, its old name kept": Change(
        "claim", (("Claim", "Damage"), ("@DBOS.step()\ndef load", "Claim = Damage\n\n@DBOS.step()\ndef load")), False
    ),
    "a topic put together, renamed, mail waits": Change(
        "claim",
        ((RECV, 'DBOS.recv(f"answer-{number}"'),),
        True,
        "gate-removed",
        mail=(("approval", "ada"),),
        answers=(),
    ),
    "a topic put together as before, mail waits": Change(
        "claim", ((RECV, 'DBOS.recv("appro" + "val"'),), False, mail=(("approval", "ada"),), answers=()
    ),
    "an argument added": Change(
        "claim", (("def claim(number)", "def claim(number, currency)"),), True, "input-contract"
    ),
    "an argument with a default": Change("claim", (("def claim(number)", 'def claim(number, currency="EUR")'),), False),
    "the argument renamed": Change(
        "claim", (("def claim(number)", "def claim(n)"), (LOAD, "number = n\n    found = load(number)")), False
    ),
    "the workflow renamed": Change(
        "claim",
        (("def claim(number)", "def settle(number)"), ('"claim": claim', '"claim": settle')),
        True,
        "flow-missing",
    ),
    "the version raised": Change(
        "claim", (('"application_version": "1"', '"application_version": "2"'),), True, "flow-missing"
    ),
    "comments and bodies": Change(
        "claim",
        ((LOAD, "# from the ledger\n    found = load(number)"), ('outside(f"judge', 'outside("" or f"judge')),
        False,
    ),
    "a shorter sleep": Change("trial", (("LONG = 200000000", "LONG = 5"),), False),
    "the sleep is gone": Change("trial", (("    DBOS.sleep(LONG)\n", ""),), True, "replay-diverged"),
    "a step inserted after the sleep": Change(
        "trial", (("    return charge", "    welcome(user)\n    return charge"),), False, more=True
    ),
    "a second sleep first": Change(
        "trial", (("    welcome(user)\n", "    DBOS.sleep(1)\n    welcome(user)\n"),), True, "replay-diverged"
    ),
    "branches in another order": Change(
        "digest", (("fetch(part) for part in parts", "fetch(part) for part in reversed(parts)"),), False
    ),
    "one more branch of another kind": Change(
        "digest",
        (("*[fetch(part) for part in parts]", "check(title), *[fetch(part) for part in parts]"),),
        True,
        "replay-diverged",
    ),
    "an async step renamed": Change("digest", (("fetch(", "measure("),), True, "replay-diverged"),
    "an async step after the wait": Change(
        "digest", (("    return await publish", "    await check(title)\n    return await publish"),), False
    ),
    "an async step before the wait": Change(
        "digest", (("    go = await", "    await check(title)\n    go = await"),), True, "replay-diverged"
    ),
    "the child renamed": Change(
        "onboard", (("screen", "sift"), ('"sift": sift', '"screen": sift')), True, "replay-diverged"
    ),
    "the child waited for later": Change(
        "onboard",
        (
            ("    verdict = handle.get_result()\n", '    verdict = ""\n'),
            ("    signed = ", "    verdict = handle.get_result() + verdict\n    signed = "),
        ),
        True,
        "replay-diverged",
    ),
    "the error caught as another one": Change(
        "onboard", (("except ValueError as", "except KeyError as"),), True, "replay-diverged"
    ),
    "the two waits swapped": Change(
        "onboard",
        (
            ('signed = DBOS.recv("signed"', 'sealed = DBOS.recv("sealed"'),
            (
                '    sealed = DBOS.recv("sealed", timeout_seconds=200000000)\n    return',
                '    signed = DBOS.recv("signed", timeout_seconds=200000000)\n    return',
            ),
        ),
        False,
    ),
    "the second topic renamed, its mail came early": Change(
        "onboard",
        (('DBOS.recv("sealed"', 'DBOS.recv("stamped"'),),
        True,
        "gate-removed",
        mail=(("sealed", "w.pdf"),),
        answers=(("signed", "s.pdf"),),
    ),
}
"""By what is changed."""


def changed(change: Change) -> str:
    """The text of the application after a change."""
    text = APPS[change.app]
    for old, new in change.edits:
        assert old in text, old
        text = text.replace(old, new)
    return text
