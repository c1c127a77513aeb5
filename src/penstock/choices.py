"""Choices: settings whose value is one of several names."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, StrEnum

from penstock.errors import UsageError, did_you_mean


class Optimize(StrEnum):
    """The user's goal.  It determines which schedule is compiled, and the flags for the C compiler.

    The schedule is a point of the Pareto front of memory and cycles (`pick`).
    """

    SPEED = "speed"
    BALANCED = "balanced"
    SIZE = "size"


class Rounding(Enum):
    """Rounding of a product with a real multiplier. TFLite Micro rounds twice; recent versions of
    LiteRT round once in fully connected layers."""

    DOUBLE = "double"
    SINGLE = "single"


class InterfaceTypes(Enum):
    """Element types of inputs and outputs of the generated code.

    QUANTISED: as inside the network; the caller quantises inputs and dequantises outputs.
    MODEL: as in the model file; the generated code converts."""

    QUANTISED = "quantized"
    MODEL = "model"


def one_of(value: str, allowed: Sequence[str], option: str) -> str:
    """Return the value.  Raises UsageError if it is not allowed."""
    if value not in allowed:
        suggestion = did_you_mean(value, allowed) if isinstance(value, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(
            "usage-013",
            f"unknown value {value!r}",
            where=option,
            help=f"{suggestion}use one of {', '.join(allowed)}",
        )
    return value
