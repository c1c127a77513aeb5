"""frozen: the decorator of the package's records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TypeVar, dataclass_transform, overload

_Record = TypeVar("_Record")


@overload
def frozen(record: type[_Record], /) -> type[_Record]: ...


@overload
def frozen(
    *, repr: bool = True, eq: bool = True, kw_only: bool = False
) -> Callable[[type[_Record]], type[_Record]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(
    record: type[_Record] | None = None,
    /,
    *,
    repr: bool = True,
    eq: bool = True,
    kw_only: bool = False,
) -> type[_Record] | Callable[[type[_Record]], type[_Record]]:
    """Make a class a dataclass whose instances are immutable and take no other attributes.

    The options are those of `dataclass`.  Comparison, hash and text are generated on their first
    call, since most of the hundreds of records are only constructed."""

    def made(stated: type[_Record]) -> type[_Record]:
        options = {"frozen": True, "slots": True, "kw_only": kw_only}
        found = dataclass(**options, repr=False, eq=False)(stated)
        for name, wanted in (("__repr__", repr), ("__eq__", eq), ("__hash__", eq)):
            if wanted and vars(stated).get(name) is None:
                setattr(found, name, _generated_later(found, name))
        return found

    return made if record is None else made(record)


def _generated_later(record: type, name: str) -> Callable[..., object]:
    """Return the method `name` of a dataclass, which its first call replaces by a generated one."""

    def method(self: object, *others: object) -> object:
        every = {f.name: field(compare=f.compare, repr=f.repr, hash=f.hash) for f in fields(record)}
        types = dict.fromkeys(every, object)
        alike = type("", (), {**every, "__annotations__": types, "__doc__": record.__doc__ or name})
        options = {"repr": name == "__repr__", "eq": name == "__eq__", "init": False}
        generated = vars(dataclass(**options, unsafe_hash=name == "__hash__")(alike))[name]
        setattr(record, name, generated)
        return generated(self, *others)

    return method
