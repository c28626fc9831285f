# ruff: noqa: E501
"""Small LangGraph applications, and what may be changed in them while a run waits.

Each change says which breaking findings it has to give; [] is a harmless one. What the real library does with the
waiting run was tried for each. The texts are applications of users, kept as text because two versions of each are run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

HEAD = """
import os, operator
from typing import Annotated, TypedDict, Optional, Literal
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt, Command, Send
def act(line):
    if p := os.environ.get("EFFECTS_LOG"):
        open(p,"a").write(line+"\\\\n")
"""

APPS: dict[str, str] = {}

APPS["fan_in"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
def a(s): return {"log":["a"]}
def b(s):
    v=interrupt({"ask":"b?"}); return {"log":[f"b={v}"]}
def join(s):
    act(f"join {sorted(s['log'])}"); return {"log":["join"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("join",join)
g.add_edge(START,"a"); g.add_edge(START,"b")
g.add_edge(["a","b"],"join"); g.add_edge("join",END)
flows={"par":g.compile()}
"""
APPS["chain"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
def a(s): return {"log":["a"]}
def b(s):
    v=interrupt({"ask":"b?"}); return {"log":[f"b={v}"]}
def c(s):
    act(f"c {s['log']}"); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["chain_2"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
def a(s): return {"log":["a"]}
def b(s):
    v=interrupt("Approve the transfer of 4999?"); return {"log":[f"b={v}"]}
def c(s):
    act(f"c {s['log']}"); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["chain_3"] = """
class S(TypedDict, total=False):
    x: int
    legacy: str
    log: Annotated[list[str], operator.add]
def a(s): return {"log":["a"]}
def b(s):
    v=interrupt({"ask":"b?"}); return {"log":[f"b={v}"]}
def c(s):
    act(f"c {s['log']}"); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["chain_4"] = """
from pydantic import BaseModel
class S(BaseModel):
    x: int = 0
    log: Annotated[list[str], operator.add] = []
def a(s): return {"log":["a"]}
def b(s):
    v=interrupt({"ask":"b?"}); return {"log":[f"b={v}"]}
def c(s):
    act(f"c {s.log}"); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["chain_5"] = """
from pydantic import BaseModel
class S(BaseModel):
    x: int = 0
    log: Annotated[list[str], operator.add] = []
def a(s): return {"log":["a"]}
def b(s):
    v=interrupt({"ask":"b?"}); return {"log":[f"b={v}"]}
def c(s):
    act(f"c {s.x}"); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["chain_6"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
def a(s): return {"log":["a"]}
def b(s):
    v=interrupt({"ask":"b?"}); return {"log":[f"b={v}"]}
def c(s):
    act('c '+str(s['x'])); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["chain_7"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
    tags: str
def a(s): return {"log":["a"],"tags":"q"}
def b(s):
    v=interrupt({"ask":"b?"}); return {"log":[f"b={v}"],"tags":["t"]}
def c(s):
    act(f"c {s['log']}"); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["own_tools"] = """
class S(TypedDict, total=False):
    messages: Annotated[list, operator.add]
def refund(order_id: str, amount_cents: int) -> str:
    act(f"refund {order_id} {amount_cents}"); return "ok"
def email(to: str) -> str:
    act(f"email {to}"); return "ok"
TOOLS={"refund":refund,"email":email}
def agent(s): return {"messages":[{"role":"ai","tool_calls":[{"name":"refund","args":{"order_id":"A","amount_cents":4999},"id":"c1"}]}]}
def approve(s):
    call=s["messages"][-1]["tool_calls"][0]
    v=interrupt({"approve":call["name"],"args":call["args"]})
    if v!="yes": return Command(goto=END)
    return Command(goto="execute")
def execute(s):
    out=[]
    for call in s["messages"][-1]["tool_calls"]:
        out.append({"role":"tool","tool_call_id":call["id"],"content":TOOLS[call["name"]](**call["args"])})
    return {"messages":out}
g=StateGraph(S)
g.add_node("agent",agent); g.add_node("approve",approve,destinations=("execute",END)); g.add_node("execute",execute)
g.add_edge(START,"agent"); g.add_edge("agent","approve"); g.add_edge("execute",END)
flows={"own":g.compile()}
"""
APPS["agent"] = '''
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
@tool
def refund(order_id: str, amount_cents: int) -> str:
    """r"""
    act(f"refund {order_id} {amount_cents}"); return "ok"
@tool
def email(to: str) -> str:
    """e"""
    act(f"email {to}"); return "ok"
class M(GenericFakeChatModel):
    def bind_tools(self, tools, **k): return self
    def _generate(self, messages, stop=None, run_manager=None, **k):
        done=[m for m in messages if isinstance(m,ToolMessage)]
        r=AIMessage(content="done "+";".join(str(m.content) for m in done)) if done else AIMessage(content="",tool_calls=[{"name":"refund","args":{"order_id":"A","amount_cents":4999},"id":"c1"},{"name":"email","args":{"to":"x"},"id":"c2"}])
        return ChatResult(generations=[ChatGeneration(message=r)])
agent=create_agent(M(messages=iter(())),[refund,email],middleware=[HumanInTheLoopMiddleware(interrupt_on={"refund":True,"email":True})])
flows={"lc":agent}
'''
APPS["subgraph"] = """
class S(TypedDict, total=False):
    topic: str
    draft: str
def write(s): return {"draft":"all "+s["topic"]}
def review(s):
    v=interrupt({"edit":s["draft"]}); return {"draft":v}
def publish(s):
    act("publish "+s["draft"]); return {}
d=StateGraph(S); d.add_node("write",write); d.add_node("review",review); d.add_edge(START,"write"); d.add_edge("write","review"); d.add_edge("review",END)
sub=d.compile()
g=StateGraph(S); g.add_node("writer",sub); g.add_node("publish",publish); g.add_edge(START,"writer"); g.add_edge("writer","publish"); g.add_edge("publish",END)
flows={"sub":g.compile()}
"""
APPS["subgraph_2"] = """
class S(TypedDict, total=False):
    topic: str
    draft: str
def write(s): return {"draft":"all "+s["topic"]}
def review(s):
    v=interrupt({"edit":s["draft"]}); return {"draft":v}
def publish(s):
    act("publish "+s["draft"]); return {}
d=StateGraph(S); d.add_node("write",write); d.add_node("review",review); d.add_edge(START,"write"); d.add_edge("write","review"); d.add_edge("review",END)
sub=d.compile()
g=StateGraph(S); g.add_node("writer",lambda s: sub.invoke(s)); g.add_node("publish",publish); g.add_edge(START,"writer"); g.add_edge("writer","publish"); g.add_edge("publish",END)
flows={"sub":g.compile()}
"""
APPS["fan_out"] = """
class S(TypedDict, total=False):
    title: str
    pages: Annotated[list[str], operator.add]
def plan(s): return {"pages":[]}
def fan(s): return [Send("tr",{"title":s["title"],"lang":l}) for l in ("de","pt")]
def tr(job):
    t=interrupt({"lang":job["lang"],"translate":job["title"]}); return {"pages":[job["lang"]+":"+t]}
def asm(s):
    act("print %s"%sorted(s["pages"])); return {}
g=StateGraph(S); g.add_node("plan",plan); g.add_node("tr",tr); g.add_node("asm",asm)
g.add_edge(START,"plan"); g.add_conditional_edges("plan",fan,["tr"]); g.add_edge("tr","asm"); g.add_edge("asm",END)
flows={"send":g.compile()}
"""
APPS["functional"] = """
from langgraph.func import entrypoint, task
@task
def fetch(x):
    act(f"buy {x}"); return x*2
@task
def pay(x):
    act(f"pay {x}"); return "paid"
@entrypoint()
def flow(x):
    a=fetch(x).result()
    ok=interrupt({"pay":a})
    if ok!="yes": return "held"
    return pay(a).result()
flows={"fun":flow}
"""
APPS["functional_2"] = """
from langgraph.func import entrypoint, task
@task
def fetch(x):
    act(f"buy {x}"); return x*2
@task
def pay(x):
    act(f"pay {x}"); return "paid"
@task
def notify(x):
    act(f'notify {x}'); return 1
@entrypoint()
def flow(x):
    a=fetch(x).result()
    z=notify(x).result()
    ok=interrupt({"pay":a})
    if ok!="yes": return "held"
    return pay(a).result()
flows={"fun":flow}
"""
APPS["breakpoint"] = """
class S(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    note: str
def first(s): return {"log":["first"],"note":"x"}
def last(s):
    act("last"); return {"log":["last"]}
g=StateGraph(S); g.add_node("first",first); g.add_node("last",last); g.add_edge(START,"first"); g.add_edge("first","last"); g.add_edge("last",END)
flows={"brk":g.compile(interrupt_before=["last"])}
"""
APPS["routes"] = """
class S(TypedDict, total=False):
    x: int
    desk: str
    ok: str
def tri(s): return {"desk":"small"}
def adj(s):
    v=interrupt({"x":s["x"]}); return {"ok":v}
def small(s):
    act("small"); return {}
def large(s):
    act("large"); return {}
g=StateGraph(S); g.add_node("tri",tri); g.add_node("adj",adj); g.add_node("small",small); g.add_node("large",large)
g.add_edge(START,"tri"); g.add_edge("tri","adj"); g.add_conditional_edges("adj",lambda s: s["desk"],{"small":"small","large":"large"})
flows={"route":g.compile()}
"""
APPS["routes_2"] = """
class S(TypedDict, total=False):
    x: int
    desk: str
    ok: str
def tri(s): return {"ok":"pending"}
def adj(s):
    v=interrupt({"x":s["x"]}); return {"ok":v}
def small(s):
    act("small"); return {}
def large(s):
    act("large"); return {}
g=StateGraph(S); g.add_node("tri",tri); g.add_node("adj",adj); g.add_node("small",small); g.add_node("large",large)
g.add_edge(START,"tri"); g.add_edge("tri","adj"); g.add_conditional_edges("adj",lambda s: s["ok"],{"yes":"small","no":"large"})
flows={"route":g.compile()}
"""
APPS["classes"] = """
from dataclasses import dataclass
from enum import Enum
from pydantic import BaseModel
class Color(Enum):
    RED="red"; BLUE="blue"
@dataclass
class P:
    code: str
    w: int
class Q(BaseModel):
    amount: int
    cur: str = "EUR"
class S(TypedDict, total=False):
    p: P
    c: Color
    q: Q
    v: str
def load(s): return {"p":P("a",1),"c":Color.RED,"q":Q(amount=5)}
def wait(s): return {"v":interrupt("go?")}
def done(s):
    act(f"{s['p'].code} {s['c'].value} {s['q'].amount} {s['q'].cur}"); return {}
g=StateGraph(S); g.add_node("load",load); g.add_node("wait",wait); g.add_node("done",done); g.add_edge(START,"load"); g.add_edge("load","wait"); g.add_edge("wait","done")
flows={"cls":g.compile()}
"""
APPS["chain_8"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
def a(s): return {"log":["a"]}
def b(s):
    v=interrupt({"ask":f"Pay {s['x']*2} EUR?"}); return {"log":[f"b={v}"]}
def c(s):
    act(f'pay {s["x"]*2}'); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["chain_9"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
def a(s): return {"log":["a"]}
def b(s):
    v=interrupt({"ask":"b?","at":__import__("datetime").datetime.now().isoformat()}); return {"log":[f"b={v}"]}
def c(s):
    act(f"c {s['log']}"); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["fan_in_2"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
def a(s):
    v=interrupt({"ask":"a?"}); return {"log":[f"a={v}"]}
def b(s):
    v=interrupt({"ask":"b?"}); return {"log":[f"b={v}"]}
def join(s):
    act(f"join {sorted(s['log'])}"); return {"log":["join"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("join",join)
g.add_edge(START,"a"); g.add_edge(START,"b")
g.add_edge(["a","b"],"join"); g.add_edge("join",END)
flows={"par":g.compile()}
"""
APPS["crash"] = """
class S(TypedDict, total=False):
    x: int
    total: int
    log: Annotated[list[str], operator.add]
def comp(s): return {"total":s["x"]*2,"log":["comp"]}
def send(s):
    if os.environ.get("DOWN"): raise TimeoutError("down")
    act(f"send {s['total']}"); return {"log":["send"]}
g=StateGraph(S); g.add_node("comp",comp); g.add_node("send",send); g.add_edge(START,"comp"); g.add_edge("comp","send"); g.add_edge("send",END)
flows={"crash":g.compile()}
"""
APPS["chain_10"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
def a(s): return {"log":["a"]}
def b(s):
    n=interrupt({"field":"name"}); a=interrupt({"field":"age"}); return {"log":[f"{n} {a}"]}
def c(s):
    act(f"c {s['log']}"); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["chain_11"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
def a(s): return {"log":["a"]}
def b(s):
    v=""
    while v!="yes": v=interrupt({"ask":"b?"}); return {"log":[f"b={v}"]}
def c(s):
    act(f"c {s['log']}"); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["asking_tool"] = '''
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import tool
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
class S(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
@tool
def refund(order_id: str, amount: int) -> str:
    """r"""
    v=interrupt({"refund":order_id,"amount":amount})
    if v!="yes": return "declined"
    act(f"refund {order_id} {amount}"); return "ok"
def agent(s):
    return {"messages":[AIMessage(content="",tool_calls=[{"name":"refund","args":{"order_id":"A","amount":5},"id":"c1"}])]}
g=StateGraph(S); g.add_node("agent",agent); g.add_node("tools",ToolNode([refund])); g.add_edge(START,"agent"); g.add_edge("agent","tools"); g.add_edge("tools",END)
flows={"ti":g.compile()}
'''
APPS["chain_12"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
def a(s): return {"log":["a"]}
from langgraph.runtime import Runtime
from dataclasses import dataclass
@dataclass
class Ctx:
    who: str = 'ann'
def b(s, runtime: Runtime[Ctx]):
    who=runtime.context.who if runtime.context else 'nobody'
    v=interrupt({"ask":"b?","who":who}); return {"log":[f"b={v}"]}
def c(s):
    act(f"c {s['log']}"); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["chain_13"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
def a(s): return {"log":["a"]}
def b(s):
    v=interrupt({"ask":"b?","options":["yes","no"]}); return {"log":[f"b={v}"]}
def c(s):
    act(f"c {s['log']}"); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["chain_14"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
def a(s): return {"log":["a"]}
FIELDS=["name","age"]
def b(s):
    got={}
    for f in FIELDS: got[f]=interrupt({"field":f})
    return {"log":[str(sorted(got.items()))]}
def c(s):
    act(f"c {s['log']}"); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["chain_15"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
def a(s): return {"log":["a"]}
def b(s):
    v=interrupt({"ask":"b?","ref":__import__("uuid").uuid4().hex}); return {"log":[f"b={v}"]}
def c(s):
    act(f"c {s['log']}"); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["chain_16"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
def a(s): return {"log":["a"]}
def b(s):
    v=interrupt({"ask":"b?","reviewer":"legal"}); return {"log":[f"b={v}"]}
def c(s):
    act(f"c {s['log']}"); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["chain_17"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
def a(s): return {"log":["a"]}
def b(s):
    v=interrupt({"ask":f"Pay {s['x']} cents?"}); return {"log":[f"b={v}"]}
def c(s):
    act(f"c {s['log']}"); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""
APPS["chain_18"] = """
class S(TypedDict, total=False):
    x: int
    log: Annotated[list[str], operator.add]
def a(s): return {"log":["a"]}
def b(s):
    v=interrupt({"ask":f"Pay {s.get('x',0)} cents?"}); return {"log":[f"b={v}"]}
def c(s):
    act(f"c {s['log']}"); return {"log":["c"]}
g=StateGraph(S)
g.add_node("a",a); g.add_node("b",b); g.add_node("c",c)
g.add_edge(START,"a"); g.add_edge("a","b"); g.add_edge("b","c"); g.add_edge("c",END)
flows={"chain":g.compile()}
"""


class Change(NamedTuple):
    """A change of an application: texts to replace, and the breaking findings that a run waiting in the old one gets."""

    name: str
    app: str
    replace: list[tuple[str, str]]
    codes: list[str]
    input: Any = None
    answers: list[Any] = []
    env: dict[str, str] = {}


CHANGES = [
    Change("join-swapped", "fan_in", [('["a","b"]', '["b","a"]')], ["join-broken"], {"x": 1}, [], {}),
    Change(
        "edge-to-join",
        "chain",
        [('g.add_edge("b","c")', 'g.add_edge(["a","b"],"c")')],
        ["join-broken"],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "join-gains",
        "fan_in",
        [
            (
                'g.add_edge(["a","b"],"join")',
                'g.add_node("d",a); g.add_edge(START,"d"); g.add_edge(["a","b","d"],"join")',
            )
        ],
        ["join-broken"],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "gate-inserted-in-node",
        "chain",
        [('v=interrupt({"ask":"b?"})', 'w=interrupt({"consent":"gdpr ok?"}); v=interrupt({"ask":"b?"})')],
        ["answer-misrouted"],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "str-question-inserted",
        "chain_2",
        [("v=interrupt(", 'w=interrupt("Has the budget owner signed?"); v=interrupt(')],
        ["answer-misrouted"],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "question-appended",
        "chain",
        [('v=interrupt({"ask":"b?"})', 'v=interrupt({"ask":"b?"}); w=interrupt({"note":"anything else?"})')],
        [],
        {"x": 1},
        [],
        {},
    ),
    Change("key-dropped-unused", "chain_3", [("\n    legacy: str", "")], [], {"x": 1, "legacy": "L"}, [], {}),
    Change(
        "key-dropped-and-new-optional",
        "chain_3",
        [
            ("\n    legacy: str", "\n    note: str"),
            ("act(f\"c {s['log']}\")", 'act(f"c {s[\'log\']}" + (s.get("note") or ""))'),
        ],
        [],
        {"x": 1, "legacy": "L"},
        [],
        {},
    ),
    Change(
        "pyd-new-required", "chain_4", [("x: int = 0", "x: int = 0\n    cur: str")], ["state-type"], {"x": 1}, [], {}
    ),
    Change("pyd-new-default", "chain_4", [("x: int = 0", "x: int = 0\n    cur: str = 'EUR'")], [], {"x": 1}, [], {}),
    Change(
        "pyd-key-renamed",
        "chain_5",
        [("x: int = 0", "amount: int = 0"), ("s.x", "s.amount")],
        ["state-key-lost"],
        {"x": 5},
        [],
        {},
    ),
    Change("pyd-type-narrow", "chain_4", [("x: int = 0", "x: Literal[1,2] = 1")], ["state-type"], {"x": 5}, [], {}),
    Change(
        "int-to-str", "chain_6", [("x: int", "x: str"), ("str(s['x'])", "s['x']")], ["state-type"], {"x": 5}, [], {}
    ),
    Change(
        "reducer-added",
        "chain_7",
        [("tags: str", "tags: Annotated[list[str], operator.add]")],
        ["reducer-changed", "state-type"],
        {"x": 5},
        [],
        {},
    ),
    Change(
        "own-arg-required",
        "own_tools",
        [("def refund(order_id: str, amount_cents: int)", "def refund(order_id: str, amount: int, amount_cents: int)")],
        ["tool-args"],
        {"messages": []},
        [],
        {},
    ),
    Change(
        "own-arg-default",
        "own_tools",
        [
            (
                'def refund(order_id: str, amount_cents: int) -> str:\n    act(f"refund {order_id} {amount_cents}")',
                'def refund(order_id: str, amount: int=0, **kw) -> str:\n    act(f"refund {order_id} {amount}")',
            )
        ],
        ["tool-args"],
        {"messages": []},
        [],
        {},
    ),
    Change(
        "own-tool-removed",
        "own_tools",
        [('{"refund":refund,"email":email}', '{"email":email}')],
        ["tool-missing"],
        {"messages": []},
        [],
        {},
    ),
    Change(
        "own-ok",
        "own_tools",
        [('{"refund":refund,"email":email}', '{"email":email,"refund":refund}')],
        [],
        {"messages": []},
        [],
        {},
    ),
    Change(
        "hitl-one-left",
        "agent",
        [('{"refund":True,"email":True}', '{"email":True}')],
        ["approval-bypassed"],
        {"messages": [{"role": "user", "content": "go"}]},
        [],
        {},
    ),
    Change(
        "hitl-mw-removed",
        "agent",
        [(',middleware=[HumanInTheLoopMiddleware(interrupt_on={"refund":True,"email":True})]', "")],
        ["frontier-missing"],
        {"messages": [{"role": "user", "content": "go"}]},
        [],
        {},
    ),
    Change(
        "hitl-narrowed",
        "agent",
        [('{"refund":True,"email":True}', '{"refund":{"allowed_decisions":["reject"]},"email":True}')],
        ["gate-changed"],
        {"messages": [{"role": "user", "content": "go"}]},
        [],
        {},
    ),
    Change(
        "hitl-arg-default",
        "agent",
        [
            (
                'amount_cents: int) -> str:\n    """r"""\n    act(f"refund {order_id} {amount_cents}")',
                'amount: int = 0) -> str:\n    """r"""\n    act(f"refund {order_id} {amount}")',
            )
        ],
        ["tool-args"],
        {"messages": [{"role": "user", "content": "go"}]},
        [],
        {},
    ),
    Change(
        "hitl-reorder-ok",
        "agent",
        [('{"refund":True,"email":True}', '{"email":True,"refund":True}'), ("[refund,email]", "[email,refund]")],
        [],
        {"messages": [{"role": "user", "content": "go"}]},
        [],
        {},
    ),
    Change(
        "hitl-when-false",
        "agent",
        [
            (
                '{"refund":True,"email":True}',
                '{"refund":{"allowed_decisions":["approve","reject"],"when":lambda r: r.tool_call["args"]["amount_cents"]>5000},"email":{"allowed_decisions":["approve","reject"],"when":lambda r: False}}',
            )
        ],
        ["approval-bypassed"],
        {"messages": [{"role": "user", "content": "go"}]},
        [],
        {},
    ),
    Change(
        "hitl-model-node-hook-added",
        "agent",
        [
            (
                "agent=create_agent",
                "from langchain.agents.middleware import AgentMiddleware\nclass Lim(AgentMiddleware):\n    def before_model(self, state, runtime): return None\nagent=create_agent",
            ),
            ("middleware=[", "middleware=[Lim(),"),
        ],
        [],
        {"messages": [{"role": "user", "content": "go"}]},
        [],
        {},
    ),
    Change(
        "sub-inlined",
        "subgraph",
        [
            ('g.add_node("writer",sub)', 'g.add_node("write",write); g.add_node("review",review)'),
            (
                'g.add_edge(START,"writer"); g.add_edge("writer","publish")',
                'g.add_edge(START,"write"); g.add_edge("write","review"); g.add_edge("review","publish")',
            ),
        ],
        ["frontier-missing"],
        {"topic": "t"},
        [],
        {},
    ),
    Change(
        "subf-inner-renamed",
        "subgraph_2",
        [
            ('d.add_node("review",review)', 'd.add_node("edit",review)'),
            (
                'd.add_edge("write","review"); d.add_edge("review",END)',
                'd.add_edge("write","edit"); d.add_edge("edit",END)',
            ),
        ],
        ["frontier-missing"],
        {"topic": "t"},
        [],
        {},
    ),
    Change(
        "subf-ok",
        "subgraph_2",
        [("lambda s: sub.invoke(s)", "(lambda graph: (lambda s: graph.invoke(s)))(sub)")],
        [],
        {"topic": "t"},
        [],
        {},
    ),
    Change(
        "sub-became-function",
        "subgraph",
        [('g.add_node("writer",sub)', 'g.add_node("writer",lambda s: {"draft":"auto "+s["topic"]})')],
        ["approval-bypassed"],
        {"topic": "t"},
        [],
        {},
    ),
    Change(
        "send-arg-renamed",
        "fan_out",
        [('"lang":l', '"language":l'), ('job["lang"]', 'job["language"]')],
        ["state-key-lost"],
        {"title": "t"},
        [],
        {},
    ),
    Change("send-ok", "fan_out", [('("de","pt")', '("de","pt","fr")')], [], {"title": "t"}, [], {}),
    Change("send-asm-renamed", "fan_out", [('"asm"', '"assemble"')], [], {"title": "t"}, [], {}),
    Change(
        "fun-entry-renamed",
        "functional",
        [("def flow(x)", "def flow2(x)"), ('"fun":flow}', '"fun":flow2}')],
        ["frontier-missing"],
        21,
        [],
        {},
    ),
    Change(
        "fun-interrupt-gone", "functional", [('ok=interrupt({"pay":a})', 'ok="yes"')], ["approval-bypassed"], 21, [], {}
    ),
    Change(
        "fun-new-task-before-question",
        "functional",
        [
            ("    ok=interrupt", "    c=check(a).result()\n    ok=interrupt"),
            ("@entrypoint()", "@task\ndef check(x): return True\n@entrypoint()"),
        ],
        [],
        21,
        [],
        {},
    ),
    Change("fun-task-body", "functional", [("return x*2", "y=x*2\n    return y")], [], 21, [], {}),
    Change(
        "fun-tasks-swapped",
        "functional_2",
        [("    a=fetch(x).result()\n    z=notify(x).result()", "    z=notify(x).result()\n    a=fetch(x).result()")],
        ["effect-repeated"],
        21,
        [],
        {},
    ),
    Change(
        "brk-key-removed",
        "breakpoint",
        [("\n    note: str", ""), (',"note":"x"', "")],
        ["gate-changed"],
        {"log": []},
        [],
        {},
    ),
    Change(
        "brk-moved",
        "breakpoint",
        [('interrupt_before=["last"]', 'interrupt_before=["first"]')],
        [],
        {"log": []},
        [],
        {},
    ),
    Change(
        "brk-to-interrupt",
        "breakpoint",
        [
            ('g.compile(interrupt_before=["last"])', "g.compile()"),
            ('    act("last")', '    interrupt("go?"); act("last")'),
        ],
        [],
        {"log": []},
        [],
        {},
    ),
    Change(
        "map-key-gone",
        "routes",
        [('"desk":"small"', '"desk":"fast"'), ('{"small":"small"', '{"fast":"small"')],
        ["frontier-missing"],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "map-renamed-node",
        "routes",
        [('g.add_node("small",small)', 'g.add_node("tiny",small)'), ('{"small":"small"', '{"small":"tiny"')],
        [],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "decision-initial-pending",
        "routes_2",
        [("def small(s):", "def small(s):\n    # changed")],
        [],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "enum-member-gone",
        "classes",
        [('RED="red"', 'CRIMSON="crimson"'), ("Color.RED", "Color.CRIMSON")],
        ["state-type"],
        {"v": ""},
        [],
        {},
    ),
    Change("enum-added", "classes", [('RED="red"', 'RED="red"; GREEN="green"')], [], {"v": ""}, [], {}),
    Change(
        "pydf-renamed-default",
        "classes",
        [
            ("    amount: int\n", "    cents: int = 0\n"),
            ("Q(amount=5)", "Q(cents=5)"),
            ("s['q'].amount", "s['q'].cents"),
        ],
        ["state-type"],
        {"v": ""},
        [],
        {},
    ),
    Change(
        "pydf-required",
        "classes",
        [
            ("    amount: int\n", "    amount: int\n    vat: int\n"),
            ("Q(amount=5)", "Q(amount=5,vat=1)"),
            ("s['q'].cur", "s['q'].vat"),
        ],
        ["state-type"],
        {"v": ""},
        [],
        {},
    ),
    Change(
        "pydf-added", "classes", [("    amount: int\n", "    amount: int\n    vat: int = 19\n")], [], {"v": ""}, [], {}
    ),
    Change(
        "enum-renamed-same-value",
        "classes",
        [('RED="red"', 'ROT="red"'), ("Color.RED", "Color.ROT")],
        [],
        {"v": ""},
        [],
        {},
    ),
    Change(
        "closure-refactor",
        "chain",
        [
            (
                'def b(s):\n    v=interrupt({"ask":"b?"}); return {"log":[f"b={v}"]}',
                'def make(q):\n    def inner(s):\n        v=interrupt({"ask":q}); return {"log":[f"b={v}"]}\n    return inner\nb=make(\'b?\')',
            )
        ],
        [],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "question-in-helper",
        "chain",
        [("def b(s):\n    v=interrupt(", "def ask(q): return interrupt(q)\ndef b(s):\n    v=ask(")],
        [],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "amount-shown-changed", "chain_8", [("s['x']*2", "s['x']*3"), ('s["x"]*2', 's["x"]*3')], [], {"x": 5}, [], {}
    ),
    Change(
        "time-in-question",
        "chain_9",
        [('return {"log":["c"]}', 'return {"log":["cc"][:0]+["c"]}')],
        [],
        {"x": 5},
        [],
        {},
    ),
    Change(
        "par-one-removed",
        "fan_in_2",
        [
            ('g.add_node("a",a); ', ""),
            ('g.add_edge(START,"a"); ', ""),
            ('g.add_edge(["a","b"],"join")', 'g.add_edge("b","join")'),
        ],
        ["frontier-missing"],
        {"x": 1},
        [],
        {},
    ),
    Change("par-swap-both-waiting", "fan_in_2", [('["a","b"]', '["b","a"]')], [], {"x": 1}, [], {}),
    Change(
        "crash-key-renamed",
        "crash",
        [("total: int", "sum_: int"), ('"total":', '"sum_":'), ("s['total']", "s.get('sum_',0)")],
        ["state-key-lost"],
        {"x": 5},
        [],
        {"DOWN": "1"},
    ),
    Change(
        "crash-extra-step",
        "crash",
        [
            (
                'g.add_edge("comp","send")',
                'g.add_node("log",lambda s: {}); g.add_edge("comp","log"); g.add_edge("log","send")',
            )
        ],
        [],
        {"x": 5},
        [],
        {"DOWN": "1"},
    ),
    Change(
        "positional-insert-first",
        "chain_10",
        [('n=interrupt({"field":"name"})', 'c=interrupt({"field":"consent"}); n=interrupt({"field":"name"})')],
        ["answer-misrouted"],
        {"x": 1},
        ["Ada"],
        {},
    ),
    Change(
        "positional-second-removed",
        "chain_10",
        [('a=interrupt({"field":"age"})', 'a="?"')],
        ["approval-bypassed"],
        {"x": 1},
        ["Ada"],
        {},
    ),
    Change(
        "positional-first-removed",
        "chain_10",
        [('n=interrupt({"field":"name"})', 'n="?"')],
        ["approval-bypassed"],
        {"x": 1},
        ["Ada"],
        {},
    ),
    Change("loop-question", "chain_11", [("def c(s):", "def c(s):\n    # x")], [], {"x": 1}, [], {}),
    Change(
        "toolint-ask-removed",
        "asking_tool",
        [('    v=interrupt({"refund":order_id,"amount":amount})\n    if v!="yes": return "declined"\n', "")],
        ["approval-bypassed"],
        {"messages": []},
        [],
        {},
    ),
    Change("toolint-ok", "asking_tool", [('"""r"""', '"""refund it"""')], [], {"messages": []}, [], {}),
    Change(
        "toolint-renamed",
        "asking_tool",
        [("def refund(", "def refund2("), ("ToolNode([refund])", "ToolNode([refund2])")],
        ["tool-missing"],
        {"messages": []},
        [],
        {},
    ),
    Change(
        "async-same",
        "chain",
        [("def b(s):", "async def b(s):"), ("def c(s):", "async def c(s):")],
        [],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "async-gone",
        "chain",
        [('def b(s):\n    v=interrupt({"ask":"b?"})', "async def b(s):\n    v='yes'")],
        ["approval-bypassed"],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "async-inserted",
        "chain",
        [("def b(s):\n    v=", "async def b(s):\n    w=interrupt({'first':1}); v=")],
        ["answer-misrouted"],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "bound-config",
        "chain",
        [('{"chain":g.compile()}', '{"chain":g.compile().with_config({"tags":["x"]})}')],
        [],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "stategraph-itself",
        "chain",
        [
            ('{"chain":g.compile()}', '{"chain":g}'),
            ('g.add_node("b",b)', 'g.add_node("bb",b)'),
            ('g.add_edge("a","b"); g.add_edge("b","c")', 'g.add_edge("a","bb"); g.add_edge("bb","c")'),
        ],
        ["frontier-missing"],
        {"x": 1},
        [],
        {},
    ),
    Change("runtime-node", "chain_12", [("def c(s):", "def c(s):\n    # x")], [], {"x": 1}, [], {}),
    Change(
        "retry-policy-added",
        "chain",
        [
            (
                'g.add_node("b",b)',
                'from langgraph.types import RetryPolicy; g.add_node("b",b,retry_policy=RetryPolicy(max_attempts=3))',
            )
        ],
        [],
        {"x": 1},
        [],
        {},
    ),
    Change("defer-added", "chain", [('g.add_node("c",c)', 'g.add_node("c",c,defer=True)')], [], {"x": 1}, [], {}),
    Change(
        "partial-node",
        "chain",
        [('g.add_node("b",b)', 'import functools; g.add_node("b",functools.partial(lambda k,s: b(s),1))')],
        [],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "class-node",
        "chain",
        [
            ("g=StateGraph(S)", "class B:\n    def __call__(self,s): return b(s)\ng=StateGraph(S)"),
            ('g.add_node("b",b)', 'g.add_node("b",B())'),
        ],
        [],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "raises-before-asking",
        "chain",
        [('v=interrupt({"ask":"b?"})', 'z=s["missing"]["y"]; v=interrupt({"ask":"b?"})')],
        ["state-key-lost"],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "env-before-asking",
        "chain",
        [('v=interrupt({"ask":"b?"})', 'z=os.environ["HOST_NAME_X"]; v=interrupt({"ask":"b?"})')],
        [],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "net-before-asking",
        "chain",
        [
            (
                'v=interrupt({"ask":"b?"})',
                'import urllib.request\n    try: urllib.request.urlopen("http://127.0.0.1:9/")\n    except OSError: pass\n    v=interrupt({"ask":"b?"})',
            )
        ],
        [],
        {"x": 1},
        [],
        {},
    ),
    Change(
        "effect-before-asking",
        "chain",
        [('v=interrupt({"ask":"b?"})', 'act("slack"); v=interrupt({"ask":"b?"})')],
        [],
        {"x": 1},
        [],
        {},
    ),
    Change("ask-options-lost", "chain_13", [('["yes","no"]', '["approve","hold"]')], [], {"x": 1}, [], {}),
    Change(
        "subgraph-extra-node-before",
        "subgraph",
        [
            (
                'd.add_edge(START,"write"); d.add_edge("write","review")',
                'd.add_node("spell",lambda s:{}); d.add_edge(START,"write"); d.add_edge("write","spell"); d.add_edge("spell","review")',
            )
        ],
        [],
        {"topic": "t"},
        [],
        {},
    ),
    Change(
        "loop-fields-inserted",
        "chain_14",
        [('["name","age"]', '["consent","name","age"]')],
        ["answer-misrouted"],
        {"x": 1},
        ["Ada"],
        {},
    ),
    Change(
        "loop-fields-swapped",
        "chain_14",
        [('["name","age"]', '["age","name"]')],
        ["answer-misrouted"],
        {"x": 1},
        ["Ada"],
        {},
    ),
    Change(
        "loop-fields-appended", "chain_14", [('["name","age"]', '["name","age","email"]')], [], {"x": 1}, ["Ada"], {}
    ),
    Change(
        "uuid-in-question",
        "chain_15",
        [('return {"log":["c"]}', 'return {"log":["cc"][:0]+["c"]}')],
        [],
        {"x": 5},
        [],
        {},
    ),
    Change("label-renamed", "chain_16", [('"legal"', '"counsel"')], [], {"x": 5}, [], {}),
    Change("unit-shown", "chain_17", [("{s['x']} cents", "{s['x']/100} EUR")], [], {"x": 500}, [], {}),
    Change("zeroed", "chain_18", [("s.get('x',0)", "s.get('xx',0)")], ["approval-stale"], {"x": 500}, [], {}),
]
