"""Arguments that name one of several choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.errors import UsageError, did_you_mean

REFERENCES: Final = ("tflite", "onnx")
"""Sources of ground truth."""
COMPILERS: Final = ("zig", "gcc")
"""C compilers for the program of a simulated core."""


def one_of(value: str, allowed: Sequence[str], option: str) -> str:
    """The value.  Raises UsageError if it is not allowed."""
    if value not in allowed:
        suggestion = did_you_mean(value, allowed) if isinstance(value, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(
            "usage-013",
            f"unknown value {value!r}",
            where=option,
            help=f"{suggestion}use one of {', '.join(allowed)}",
        )
    return value


def check_reference(name: str | None) -> None:
    """Raises UsageError if there is no source of ground truth of that name."""
    if name is not None:
        one_of(name, REFERENCES, "--reference")


def check_compiler(name: str) -> None:
    """Raises UsageError if there is no compiler of that name."""
    one_of(name, COMPILERS, "--compiler")
