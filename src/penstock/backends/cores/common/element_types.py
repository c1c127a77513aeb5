"""Restriction of functions that choose kernels to the element types that the kernels support."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps

from penstock.ir.element_types import ElementTypes
from penstock.ir.op import Kernel, Op, Site

Choice = Callable[[Op, Site], Kernel | None]
"""Returns a kernel for an operator, or None if there is none."""


def for_element_types(types: Mapping[type[Op], ElementTypes]) -> Callable[[Choice], Choice]:
    """Return a decorator that restricts a function that chooses kernels to some element types.

    types: the supported element types of inputs and output, by operator class.

    The decorated function returns None ("no kernel of this family") for an operator that is not in
    `types`, or whose inputs or output have other element types."""

    def decorate(choose: Choice) -> Choice:
        @wraps(choose)
        def checked(op: Op, site: Site) -> Kernel | None:
            declared = types.get(type(op))
            if declared is None or declared.mismatch(site):
                return None
            return choose(op, site)

        return checked

    return decorate
