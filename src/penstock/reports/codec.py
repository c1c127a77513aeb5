"""Records as JSON and back.

A record becomes an object with a key for each field, a tuple a list, an enumeration its value. The
type annotations of the fields tell how to read it back. A field states in its metadata if its key
has another name (`named`), or if it has none because it refers to other records (`LINKED`). Records
that write more than their fields define `as_json`; the further keys are ignored when it is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import (
    Final,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

# The values of JSON, as reports return them.
Json = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None

# Metadata of a field that has no key; whoever reads the record sets it.
LINKED: Final[Mapping[str, str | None]] = {"key": None}
_Record = TypeVar("_Record")
_NUMBERS = re.compile(r'\[\n\s*([^][{}"]*?)\n\s*\]')


def named(key: str) -> Mapping[str, str | None]:
    """Metadata of a field with a key of another name."""
    return {"key": key}


def _keys(record: object) -> Mapping[str, str]:
    assert is_dataclass(record)
    keys = ((one.name, one.metadata.get("key", one.name)) for one in fields(record))
    return {name: key for name, key in keys if key is not None}


class NotDecodedError(ValueError):
    """A JSON value is not that of a record; its text says where and why."""


@runtime_checkable
class _SelfEncoding(Protocol):
    def as_json(self) -> Json: ...


def encoded(value: object) -> Json:
    """Return a record, or a container of records, as JSON."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, _SelfEncoding):
        return value.as_json()
    if is_dataclass(value) and not isinstance(value, type):
        return encoded_fields(value)
    if isinstance(value, Mapping):
        return {str(key): encoded(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, tuple | list):
        return [encoded(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    raise TypeError(f"{value!r} is no value of JSON")


def encoded_fields(record: object) -> dict[str, Json]:
    return {key: encoded(getattr(record, name)) for name, key in _keys(record).items()}


def decoded(kind: type[_Record], value: Json) -> _Record:
    """Return the record of this class that a JSON value contains.

    Raises NotDecodedError if a field is absent or of another type."""
    found = _decoded(kind, value, kind.__name__)
    assert isinstance(found, kind)
    return found


def without_breaks_in_numbers(text: str) -> str:
    """Return indented JSON with each list of numbers on one line.

    >>> print(without_breaks_in_numbers('{\\n  "shape": [\\n    1,\\n    8\\n  ]\\n}'))
    {
      "shape": [1, 8]
    }
    """
    return _NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text)


@cache
def _hints(kind: type) -> Mapping[str, object]:
    return get_type_hints(kind)


def _decoded(hint: object, value: Json, place: str) -> object:
    """A value that a type annotation describes; `place` names it in errors."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _decoded_union(arguments, value, place)
    if origin is tuple:
        items = _items(value, place)
        kinds = (arguments[0],) * len(items) if arguments[-1] is Ellipsis else arguments
        return _decoded_items(kinds, items, place)
    if origin is Mapping:
        pairs = _object(value, place).items()
        return {key: _decoded(arguments[1], item, f"{place}.{key}") for key, item in pairs}
    assert isinstance(hint, type), f"no rule for {hint}"
    if is_dataclass(hint):
        return hint(**_decoded_fields(hint, _object(value, place), place))
    if issubclass(hint, tuple):
        items = _decoded_items((*_hints(hint).values(),), _items(value, place), place)
        return tuple.__new__(hint, items)
    if issubclass(hint, Enum):
        found = [one for one in hint if one.value == value]
        _check(len(found) == 1, value, place, f"one of {[one.value for one in hint]}")
        return found[0]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    _check(is_number if hint is float else type(value) is hint, value, place, hint.__name__)
    return value


def _decoded_fields(kind: type, value: Mapping[str, Json], place: str) -> Mapping[str, object]:
    keys, hints = _keys(kind), _hints(kind)
    absent = next((key for key in keys.values() if key not in value), None)
    if absent is not None:
        raise NotDecodedError(f'"{place}.{absent}" is missing')
    return {name: _decoded(hints[name], value[key], f"{place}.{key}") for name, key in keys.items()}


def _decoded_union(kinds: Sequence[object], value: Json, place: str) -> object:
    """The value of a union of None, of plain types, and of at most one other type."""
    if value is None and NoneType in kinds:
        return None
    if isinstance(value, str | bool | int | float) and type(value) in kinds:
        return value
    others = [kind for kind in kinds if kind is not NoneType]
    return _decoded(others[-1], value, place)


def _decoded_items(
    kinds: Sequence[object], items: Sequence[Json], place: str
) -> tuple[object, ...]:
    _check(len(items) == len(kinds), items, place, f"a list of {len(kinds)} values")
    pairs = zip(kinds, items, strict=True)
    return tuple(_decoded(kind, item, f"{place}[{k}]") for k, (kind, item) in enumerate(pairs))


def _object(value: Json, place: str) -> Mapping[str, Json]:
    if isinstance(value, Mapping):
        return value
    raise _wrong(value, place, "an object")


def _items(value: Json, place: str) -> Sequence[Json]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value
    raise _wrong(value, place, "a list")


def _check(fits: bool, value: Json, place: str, words: str) -> None:
    if not fits:
        raise _wrong(value, place, words)


def _wrong(value: Json, place: str, words: str) -> NotDecodedError:
    return NotDecodedError(f'"{place}" is {str(value)[:40]!r}, must be {words}')
