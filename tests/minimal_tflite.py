"""Minimal TFLite files: tables hold only the fields that a test names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import tflite


@dataclass(frozen=True)
class Table:
    """A table of the schema; field names are those of the schema, unnamed fields are absent."""

    name: str
    fields: Mapping[str, Any]


def table(name: str, **fields: Any) -> Table:
    """A table, such as `table("Tensor", Type=9)`.

    Values are numbers, strings, arrays, tables and lists of these.
    """
    return Table(name, fields)


def model_bytes(model: Table) -> bytes:
    """The file of a Model table."""
    builder: Any = flatbuffers.Builder(1024)
    builder.Finish(_written(builder, model), file_identifier=b"TFL3")
    return bytes(builder.Output())


def _written(builder: Any, found: Table) -> Any:
    values = {name: _value(builder, value) for name, value in found.fields.items()}
    getattr(tflite, f"{found.name}Start")(builder)
    for name, value in values.items():
        getattr(tflite, f"{found.name}Add{name}")(builder, value)
    return getattr(tflite, f"{found.name}End")(builder)


def _value(builder: Any, value: Any) -> Any:
    match value:
        case Table():
            return _written(builder, value)
        case str():
            return builder.CreateString(value)
        case bytes():
            return builder.CreateByteVector(value)
        case np.ndarray():
            return builder.CreateNumpyVector(value)
        case list():
            items: Sequence[Table] = value
            offsets = [_written(builder, item) for item in items]
            builder.StartVector(4, len(offsets), 4)
            for offset in reversed(offsets):
                builder.PrependUOffsetTRelative(offset)
            return builder.EndVector()
        case _:
            return value


def ints(*numbers: int) -> Any:
    """A vector of int32."""
    return np.array(numbers, np.int32)
