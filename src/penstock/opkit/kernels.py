"""Kernels of `runtime/` with the members of their parameter structures."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from penstock.ir.op import Kernel, Params, Table


def members(*groups: Iterable[tuple[str, int]], **others: int) -> Params:
    """Integer members of a parameter structure: those of the groups, then others by name."""
    return (*chain(*groups), *((name, int(value)) for name, value in others.items()))


def row_kernel(
    name: str,
    /,
    *groups: Iterable[tuple[str, int | Table]],
    constants: tuple[tuple[int, str], ...] = (),
    folded: tuple[int, ...] = (),
    recurrent: bool = False,
    accumulates: bool = False,
    **others: int | Table,
) -> Kernel:
    """A kernel that computes any interval of rows, with members of its parameter structure:
    those of the groups, then others by name, each an integer or a table."""
    every = [*chain(*groups), *others.items()]
    return Kernel(
        name,
        tuple((name, int(value)) for name, value in every if not isinstance(value, Table)),
        tuple((name, value) for name, value in every if isinstance(value, Table)),
        constants,
        folded,
        by_rows=True,
        recurrent=recurrent,
        accumulates=accumulates,
    )
