"""Reading: options for the import of a model file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """`assume_int8`: import a floating-point model as if it were quantised, with arbitrary scales.
        Shapes and costs are right; results are meaningless.
    `dimensions`: (name, extent) of symbolic dimensions."""

    assume_int8: bool = False
    dimensions: tuple[tuple[str, int], ...] = ()


AS_IT_IS = Reading()
