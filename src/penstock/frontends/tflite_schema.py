"""The TFLite schema: enumerations, and options tables of operators (package `tflite`)."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import tflite
from flatbuffers import number_types


def builtin_code(code: Any) -> int:
    """The operator of an OperatorCode: the larger of its two fields, of which a file may set one.

    Both accessors of the package read the older field.
    Source: TensorFlow Lite, `GetBuiltinCode` (schema_utils.cc)."""
    deprecated = code._tab.GetSlot(4, 0, number_types.Int8Flags)
    return max(deprecated, code._tab.GetSlot(10, 0, number_types.Int32Flags))


def schema_class(name: str) -> Any:
    """A class of the schema; the package collects them at run time."""
    return getattr(tflite, name)


@cache
def enumeration(name: str) -> dict[int, str]:
    """Value -> name of an enumeration of the schema."""
    members = vars(schema_class(name))
    return {v: k for k, v in members.items() if isinstance(v, int) and not k.startswith("_")}


EMPTY_TABLE = bytearray(struct.pack("<HHi", 4, 4, 4)), 4
"""A flatbuffer with an empty table, and the table's position."""

_SHARED_OPTIONS = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MINIMUM": "MaximumMinimumOptions",
    **dict.fromkeys(
        ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL"), "ReducerOptions"
    ),
}
"""Options tables of operators whose table is not named after the operator.

Source: TensorFlow Lite, `flatbuffer_conversions.cc`."""


@cache
def options_table(operator: str) -> str | None:
    """Name of the table of an operator's options; None if it has none.

    >>> options_table("CONV_2D"), options_table("MEAN"), options_table("RELU")
    ('Conv2DOptions', 'ReducerOptions', None)
    """
    tables = {table.lower(): table for table in enumeration("BuiltinOptions").values()}
    own = f"{operator.replace('_', '')}options".lower()
    return _SHARED_OPTIONS.get(operator, tables.get(own))


_ACCESSOR = re.compile("[A-Z][A-Za-z0-9]*")
_DERIVED = re.compile("(Length|AsNumpy|IsNone|BufferHasIdentifier)$|^(GetRootAs|Init$|InitFromObj)")


@cache
def accessors(options: type) -> tuple[str, ...]:
    """Names of the accessors of an options table."""
    every: dict[str, Callable[..., Any]] = {
        k: v for k, v in vars(options).items() if callable(v) and _ACCESSOR.fullmatch(k)
    }
    return tuple(k for k in every if not _DERIVED.search(k))


def snake_case(name: str) -> str:
    """A camel-case name in snake case.

    >>> snake_case("DilationHFactor"), snake_case("FusedActivationFunction")
    ('dilation_h_factor', 'fused_activation_function')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
