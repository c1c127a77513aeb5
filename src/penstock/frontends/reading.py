"""Reading: what a user may say of how a model file is to be understood."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """`assume_int8`: a model of real numbers is taken as if it were quantised, with scales made up:
    its shapes and costs are right, its numbers mean nothing.
    `dimensions`: (name, extent) of axes that the file leaves open."""

    assume_int8: bool = False
    dimensions: tuple[tuple[str, int], ...] = ()


AS_IT_IS = Reading()
