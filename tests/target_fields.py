"""Every field of a target file according to the schema, and files with one changed field."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, get_args

from pydantic import BaseModel

from penstock.hardware.load import generic_target_names, target_text
from penstock.hardware.schema import TargetFile

TARGETS = {name: tomllib.loads(target_text(name)) for name in generic_target_names()}
TARGETS["two-region"]["accelerators"] = [{"name": "npu", "instances": 2}]
MISSING = object()
"""Marks a removed field."""


@dataclass(frozen=True, slots=True)
class TargetField:
    """A field of a table; `table` is empty for fields of the file itself."""

    table: str
    name: str
    is_required: bool

    def __str__(self) -> str:
        return f"{self.table}.{self.name}" if self.table else self.name

    def entries(self, data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The tables of a parsed file that may have the field."""
        found = data.get(self.table, []) if self.table else data
        yield from found if isinstance(found, list) else (found,)

    def changed(self, target: str, value: object) -> str:
        """The text of a shipped target with a value in the first table that may have the field."""
        data = copy.deepcopy(TARGETS[target])
        entry = next(self.entries(data))
        if value is MISSING:
            entry.pop(self.name, None)
        else:
            entry[self.name] = value
        return toml(data)


def _table(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_table, get_args(annotation))), None)


def _fields(table: type[BaseModel], name: str) -> Iterator[TargetField]:
    for key, field in table.model_fields.items():
        yield TargetField(name, key, field.is_required())
        if (inner := _table(field.annotation)) is not None:
            yield from _fields(inner, key)


FIELDS = tuple(_fields(TargetFile, ""))


def toml(data: Mapping[str, Any]) -> str:
    """The TOML text of a parsed file: values, then tables."""
    tables = {key: value for key, value in data.items() if _is_table(value)}
    lines = [f"{_key(key)} = {_value(v)}" for key, v in data.items() if key not in tables]
    for key, value in tables.items():
        header = f"[[{_key(key)}]]" if isinstance(value, list) else f"[{_key(key)}]"
        for entry in value if isinstance(value, list) else (value,):
            lines += ["", header, *(f"{_key(k)} = {_value(v)}" for k, v in entry.items())]
    return "\n".join(lines) + "\n"


def _is_table(value: object) -> bool:
    items = value if isinstance(value, list) else [value]
    return bool(items) and all(isinstance(item, dict) for item in items)


def _key(key: str) -> str:
    return json.dumps(key)


def _value(value: Any) -> str:
    match value:
        case bool() | str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case dict():
            return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
        case date():
            return value.isoformat()
        case _:
            return str(value)
