"""The error for a stack that exceeds its reserve."""

from __future__ import annotations

from penstock.errors import CapacityError
from penstock.pipeline.compilation import Compilation


def stack_error(compilation: Compilation, stack_bytes: int) -> CapacityError | None:
    """The error that a measured stack exceeds the reserve of a compilation; None if it does not."""
    reserve = compilation.request.stack_bytes
    if stack_bytes <= reserve:
        return None
    return CapacityError(
        "capacity-003",
        f"the stack needs {stack_bytes} bytes, {reserve} are reserved",
        where=compilation.model.name,
        help=f"use at least --stack {stack_bytes}",
    )
