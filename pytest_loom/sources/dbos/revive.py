"""Recorded values as objects again, for a replay in a process of its own only.

DBOS would unpickle them. Here only classes are looked up that the application has loaded itself and that are plain
holders of data (dataclasses, pydantic models, enums, named tuples, exceptions, some of the standard library); their
instances are filled without any of their code being run. Whatever else is an ``Unknown``: it may be handed on, and
whoever looks into it ends the replay.
"""

from __future__ import annotations

import base64
import enum
import sys
from dataclasses import is_dataclass
from typing import Any, NoReturn

from pytest_loom.sources.dbos.pickles import is_typed

MARK = "<a value that is not in the record>"

_CALLED = frozenset(
    {
        "builtins.bytearray",
        "builtins.complex",
        "datetime.datetime",
        "datetime.date",
        "datetime.time",
        "datetime.timedelta",
        "datetime.timezone",
        "decimal.Decimal",
        "fractions.Fraction",
        "ipaddress.IPv4Address",
        "ipaddress.IPv6Address",
        "pathlib.PosixPath",
        "pathlib.PurePosixPath",
        "uuid.UUID",
        "zoneinfo.ZoneInfo._unpickle",
    }
)
"""Of the standard library: what does nothing but hold what it is called with."""


_CONTAINERS: dict[str, Any] = {"builtins.tuple": tuple, "builtins.set": set, "builtins.frozenset": frozenset}


class Untold(BaseException):
    """The code looked into a value that is not known."""


class Unknown:
    """Stands for a value that is not known: it can be handed on, and any look into it raises Untold."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Unknown, ())

    def __str__(self) -> str:
        return MARK

    __repr__ = __str__

    def __format__(self, _: str) -> str:
        return MARK

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        raise Untold

    def __hash__(self) -> NoReturn:
        raise Untold


def _look(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise Untold


for _name in (
    *("bool", "eq", "ne", "lt", "le", "gt", "ge", "iter", "next", "len", "contains", "getitem", "setitem", "call"),
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "mod", "neg", "and", "or"),
    *("int", "float", "index", "enter", "exit", "await", "aenter", "aiter", "anext", "delitem", "abs", "round"),
):
    setattr(Unknown, f"__{_name}__", _look)


def revived(value: Any) -> Any:
    """A value of the log as the application would get it."""
    if isinstance(value, list):
        return [revived(item) for item in value]
    if not isinstance(value, dict):
        return value
    if not is_typed(value):
        return {key: revived(item) for key, item in value.items()}
    try:
        return _built(value["$type"], str(value["$via"]), value["$value"])
    except Exception:
        return Unknown()


def _built(name: str, via: str, content: Any) -> Any:
    if via == "base64":
        data = base64.b64decode(content)
        kinds = {"builtins.bytes": bytes, "builtins.bytearray": bytearray}
        return data.decode("utf-8", "surrogatepass") if name == "builtins.str" else kinds[name](data)
    if via == "text":
        return float(content) if name == "builtins.float" else int(content, 16)
    if via == "items":
        if name == "builtins.dict":
            return {revived(key): revived(item) for key, item in content}
        return _CONTAINERS[name](map(revived, content))
    if via == "method:fromisoformat" and name in _CALLED:
        return _loaded(name).fromisoformat(content)
    if via == "call" and name in _CALLED:
        return _loaded(name)(content)
    if via != "pickle":
        return Unknown()
    args = [revived(item) for item in content.get("args", [])]
    if name in _CALLED and "state" not in content:
        return _loaded(name)(*args)
    return _object(_loaded(name), args, content)


def _loaded(name: str) -> Any:
    """What of that name the process has loaded already. Raises LookupError; nothing is imported or run."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:count]))
        if module is not None:
            found: Any = module
            for part in parts[count:]:
                found = vars(found)[part]
            return found.__func__ if isinstance(found, staticmethod | classmethod) else found
    raise LookupError(name)


def _object(cls: Any, args: list[Any], content: dict[str, Any]) -> Any:
    if not isinstance(cls, type) or any("__del__" in vars(base) for base in cls.__mro__):
        return Unknown()
    state = revived(content["state"]) if "state" in content else None
    if isinstance(state, Unknown):
        return state
    if issubclass(cls, enum.Enum):
        return cls(*args)
    if issubclass(cls, BaseException):
        made: Any = BaseException.__new__(cls, *args) if not _own_new(cls) else Unknown()
    elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return tuple.__new__(cls, args)
    elif (is_dataclass(cls) or hasattr(cls, "__pydantic_fields__")) and not args and not _own_new(cls):
        made = object.__new__(cls)
    else:
        return Unknown()
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
        state = {**(state[0] or {}), **state[1]}  # with slots
    elif isinstance(state, list):
        names = list(getattr(cls, "__dataclass_fields__", ()))
        state = dict(zip(names, state, strict=True))
    for key, item in (state or {}).items():
        object.__setattr__(made, key, item)
    return made


def _own_new(cls: type) -> bool:
    """Whether making an instance would run code of the class."""
    return any("__new__" in vars(base) for base in cls.__mro__ if base.__module__ not in ("builtins", "typing"))
