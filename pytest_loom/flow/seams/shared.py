"""What the seams of agent frameworks share: methods of a class family patched, values shown as data, errors kept.

A framework's models and tools are classes that anybody may derive from, and each overrides the method that counts.
So that method is wrapped in every class of the family, those defined while a run goes on too.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import functools
import inspect
import sys
import typing
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, nullcontext
from types import FunctionType, ModuleType
from typing import Any

from pytest_loom.errors import RecordingError, printable
from pytest_loom.flow import seam
from pytest_loom.flow.branches import here
from pytest_loom.flow.values import codec_for, is_json, plain, type_name

Wrap = Callable[[Any], Callable[..., Any]]


def patch_family(
    base: Any, wraps: Mapping[str, Wrap], skip: Callable[[Any], bool] = lambda cls: False
) -> Callable[[], None]:
    """Wrap the methods named in ``wraps`` in ``base`` and every class derived from it; what is returned undoes it.

    ``skip`` leaves a class alone (not those derived from it). Abstract methods are left alone as well.
    """
    patched: list[tuple[Any, str, Any, Any]] = []

    def patch(cls: Any) -> None:
        for name, wrap in wraps.items():
            original = vars(cls).get(name)
            if (
                isinstance(original, FunctionType)
                and not getattr(original, "__isabstractmethod__", False)
                and not skip(cls)
            ):
                wrapper = functools.wraps(original)(wrap(original))
                setattr(cls, name, wrapper)
                patched.append((cls, name, original, wrapper))

    own_hook = vars(base).get("__init_subclass__")

    def hook(cls: Any, /, **kwargs: Any) -> None:
        if own_hook is None:
            super(base, cls).__init_subclass__(**kwargs)
        else:
            own_hook.__get__(None, cls)(**kwargs)
        patch(cls)

    for cls in _family(base):
        patch(cls)
    base.__init_subclass__ = classmethod(hook)

    def undo() -> None:
        if own_hook is None:
            del base.__init_subclass__
        else:
            base.__init_subclass__ = own_hook
        for cls, name, original, wrapper in reversed(patched):
            if vars(cls).get(name) is wrapper:  # else somebody has replaced it since, and that stays
                setattr(cls, name, original)

    return undo


def _family(base: Any) -> Iterator[Any]:
    todo, seen = [base], set()
    while todo:
        cls = todo.pop()
        if cls not in seen:
            seen.add(cls)
            yield cls
            todo.extend(type.__subclasses__(cls))


def undo_all(undos: Iterable[Callable[[], None]]) -> Callable[[], None]:
    """One function that undoes all, the last first."""
    undos = list(undos)

    def undo() -> None:
        for one in reversed(undos):
            one()

    return undo


def replaying() -> bool:
    """Whether the running code is a run's own, and that run is a replay."""
    branch = here.get()
    return branch is not None and branch.run.replaying


def outside(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call something that is no part of the run that calls it: what starts a thread of its own, for telemetry."""
    return contextvars.Context().run(call, *args, **kwargs)


def closing(pieces: Any) -> Any:
    """A context manager that closes an async stream at its end, if it can be closed."""
    return aclosing(pieces) if hasattr(pieces, "aclose") else nullcontext(pieces)


async def in_one_task(source: Callable[[], Any]) -> AsyncGenerator[Any, None]:
    """The pieces of an async stream, all got by one task, however many tasks ask for them.

    A run may ask for each piece from another task, and frameworks keep context variables and cancel scopes open from
    one piece to the next.
    """
    asked: asyncio.Queue[bool] = asyncio.Queue()
    given: asyncio.Queue[Any] = asyncio.Queue()
    over = object()

    async def work() -> None:
        async with closing(source()) as pieces:
            while await asked.get():
                given.put_nowait(await anext(pieces, over))

    task = asyncio.create_task(work())
    task.add_done_callback(lambda _: given.put_nowait(over))
    try:
        while True:
            asked.put_nowait(True)
            piece = await given.get()
            if piece is over:
                break
            yield piece
    except GeneratorExit:
        asked.put_nowait(False)
        await task
        raise
    except BaseException:
        task.cancel()
        with contextlib.suppress(BaseException):
            await task
        raise
    asked.put_nowait(False)
    await task  # raises what the stream raised


def shown(value: Any) -> Any:
    """``value`` as plain data for a request, whatever it is: a class as its schema, a function as its name.

    Of dataclasses only what differs from the default is shown, of mappings what is not None.
    """
    if isinstance(value, type):
        schema = getattr(value, "model_json_schema", None)
        return schema() if callable(schema) else type_name(value)
    if isinstance(value, Mapping):
        return {str(key): shown(part) for key, part in value.items() if part is not None}
    if isinstance(value, (list, tuple)):
        return [shown(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted((shown(part) for part in value), key=repr)
    if dataclasses.is_dataclass(value):
        fields = {
            field.name: getattr(value, field.name, None)
            for field in dataclasses.fields(value)
            if not _default(value, field)
        }
        return shown(fields)
    if hasattr(type(value), "model_fields"):
        return shown(
            {name: getattr(value, name) for name in type(value).model_fields if name in value.model_fields_set}
        )
    try:
        return plain(value, "the request")
    except RecordingError:
        return type_name(value if isinstance(value, type) else type(value)) if not callable(value) else _called(value)


def _default(value: Any, field: dataclasses.Field[Any]) -> bool:
    if field.name.startswith("_"):
        return True
    found = getattr(value, field.name, None)
    default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
    return found is default or (type(found) is type(default) and bool(found == default))


def _called(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def compact(**parts: Any) -> dict[str, Any]:
    """The parts that say something: not None, not empty."""
    return {name: part for name, part in parts.items() if part is not None and part not in ([], {}, "")}


def numbered(found: Any, keys: frozenset[str], opaque: frozenset[str], names: dict[str, str] | None = None) -> Any:
    """Plain data with the ids under ``keys`` replaced by call_1, call_2, ... in the order in which they appear.

    What is under ``opaque`` keys (arguments, contents) stays as it is.
    """
    names = {} if names is None else names
    if isinstance(found, list):
        return [numbered(part, keys, opaque, names) for part in found]
    if not isinstance(found, dict):
        return found
    replaced = {}
    for key, part in found.items():
        if key in keys and isinstance(part, str):
            replaced[key] = names.setdefault(part, f"call_{len(names) + 1}")
        else:
            replaced[key] = part if key in opaque else numbered(part, keys, opaque, names)
    return replaced


def returned(function: Any) -> Any:
    """What a function is annotated to return, or Any."""
    function = inspect.unwrap(function) if callable(function) else function
    try:
        return typing.get_type_hints(function, include_extras=True).get("return", Any)
    except Exception:  # an annotation that names what is not there
        return Any


def dump_result(value: Any, annotation: Any, where: str, known: Mapping[str, Any] | None = None) -> Any:
    """What a tool gave, by its annotation. Text in place of something else (an error told to the model) is marked.

    ``known`` are annotations by a name of ours, tried where the tool's own does not fit.
    """
    if type(value) is str and annotation is not str and not is_json(annotation):
        return {"$type": "str", "$via": "text", "$value": value}
    try:
        return codec_for(annotation, where).dump(value)
    except RecordingError:
        for name, kind in (known or {}).items():
            with contextlib.suppress(RecordingError):
                return {"$type": name, "$via": "known", "$value": codec_for(kind, where).dump(value)}
        raise


def load_result(data: Any, annotation: Any, where: str, known: Mapping[str, Any] | None = None) -> Any:
    """The other way round."""
    if isinstance(data, dict) and data.get("$type") == "str" and data.get("$via") == "text":
        return data.get("$value")
    if isinstance(data, dict) and data.get("$via") == "known" and data.get("$type") in (known or {}):
        return codec_for((known or {})[data["$type"]], where).load(data.get("$value"))
    return codec_for(annotation, where).load(data)


def wire(
    where: str,
    dump: Callable[[Any], Any],
    load: Callable[[Any], Any],
    load_error: Callable[[str, str, Any], Exception | None],
) -> seam.Wire[Any]:
    """A wire that raises RecordingError where a value cannot be dumped, ValueError where data is of another shape."""

    def checked_dump(value: Any) -> Any:
        try:
            return dump(value)
        except RecordingError:
            raise
        except Exception as problem:
            raise RecordingError(
                f"{where} cannot be recorded: {printable(str(problem), 300)}", hint="Make the call inside a step."
            ) from problem

    def checked_load(data: Any) -> Any:
        try:
            return load(data)
        except (AttributeError, LookupError, TypeError) as problem:
            raise ValueError(f"{where} is not of the recorded shape: {problem!r}") from problem

    return seam.Wire(checked_dump, checked_load, dump_error, load_error)


_CLIENTS = ("openai", "anthropic")
"""The SDKs under the frameworks, whose errors a framework may let through."""


def dump_error(problem: Exception) -> Any:
    """What is plain data of an exception's attributes, and the server's answer where it has one."""
    facts: dict[str, Any] = {}
    for name, value in getattr(problem, "__dict__", {}).items():
        if name == "headers" and isinstance(value, Mapping):  # of a server: cookies are none of a log's business
            value = _kept(value)
        with contextlib.suppress(RecordingError):
            facts[name] = plain(value, "the error")
    response: Any = getattr(problem, "response", None)
    if hasattr(response, "status_code") and hasattr(response, "headers"):
        facts.pop("response", None)
        return {"attributes": facts, "response": {"status": response.status_code, "headers": _kept(response.headers)}}
    return {"attributes": facts} if facts else None


def _kept(headers: Any) -> dict[str, str]:
    wanted = ("content-type", "request-id", "x-request-id", "retry-after", "retry-after-ms", "x-should-retry")
    return {name: headers[name] for name in wanted if name in headers}


def error_loader(*names: str, by: Any = None) -> Callable[[str, str, Any], Exception | None]:
    """Makes recorded exceptions again, where code at hand has their class; for any other it gives None.

    At hand are the modules ``names``, those in which ``by`` is defined (a model with its base classes, a function), and
    the SDKs; of all these what is imported already.
    """

    def load(name: str, message: str, data: Any) -> Exception | None:
        definers = by.__mro__ if isinstance(by, type) else (by,)
        places = (*names, *_CLIENTS, *(getattr(each, "__module__", "") for each in definers))
        modules = [sys.modules[each] for each in dict.fromkeys(places) if each in sys.modules]
        kind = next((kind for module in modules for kind in _exceptions(module) if type_name(kind) == name), None)
        if kind is None:
            return None
        facts = data if isinstance(data, dict) else {}
        try:
            problem = kind.__new__(kind)
            problem.args = (message,)
            problem.__dict__.update(facts.get("attributes", {}))
            if "response" in facts:
                _give_response(problem, facts["response"])
        except (AttributeError, LookupError, TypeError, ValueError):  # a class of another kind, a log that was edited
            return None
        return problem

    return load


def _exceptions(module: ModuleType) -> Iterator[type[Exception]]:
    for kind in list(vars(module).values()):
        if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, ExceptionGroup):
            yield kind


def _give_response(problem: Any, facts: dict[str, Any]) -> None:
    """The SDKs' errors hold the HTTP response: one with the recorded status and headers."""
    roots = (each.__module__.partition(".")[0] for each in type(problem).__mro__)
    sdk = next((root for root in roots if root in _CLIENTS), None)
    if sdk is None:
        return
    raised_in = vars(sys.modules[f"{sdk}._exceptions"])
    http = raised_in.get("httpx2") or raised_in["httpx"]
    problem.request = http.Request("POST", "http://recorded")
    problem.response = http.Response(facts["status"], headers=facts["headers"], request=problem.request)
