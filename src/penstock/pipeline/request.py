"""Request: the model to compile, the target, the budgets and the options."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.backends.accelerator import Accelerator
from penstock.brief import Brief
from penstock.fixedpoint import Rounding
from penstock.frontends.reading import AS_IT_IS, Reading
from penstock.hardware.target import Target
from penstock.ir.graph import Graph
from penstock.passes.interface_types import InterfaceTypes
from penstock.scheduling.cascades.selection import Optimize
from penstock.scheduling.options import DEFAULTS, Options

DEFAULT_STACK_BYTES = 1024
"""RAM reserved for the stack, unless the user specifies a number."""


@dataclass(frozen=True, slots=True, repr=False)
class Request(Brief):
    """Inputs of one compilation.

    model: path of a model file, name of a zoo network (`zoo:NAME`), or name of `graph`.
    graph: the model, if it was built in Python; None: `model` is read.
    sram_bytes, flash_bytes: budgets of the user; None: only the target's capacities apply.
    stack_bytes: RAM reserved for the stack, which counts towards the RAM budget.
    stream_input: whether the caller supplies the input row by row.
    plan_streaming: whether the report states the RAM with a streamed input, which is planned
        separately; None: if that is cheap.
    rounding: requantisation of fully connected layers.
    strict: whether to reject networks of which accelerators run only a part.
    reading: how to interpret the model file.
    name: prefix of the public C names; None: derived from the name of the model.
    optimize: goal that the user has specified; None: the default, see `goal`.
    described: the target as shipped or as its file describes it, without the options that change
        it; None: `target` is unchanged.
    """

    model: str
    target: Target
    sram_bytes: int | None = None
    flash_bytes: int | None = None
    stack_bytes: int = DEFAULT_STACK_BYTES
    stream_input: bool = False
    rounding: Rounding = Rounding.DOUBLE
    options: Options = DEFAULTS
    accelerators: tuple[Accelerator, ...] = ()
    strict: bool = False
    reading: Reading = AS_IT_IS
    optimize: Optimize | None = None
    io: InterfaceTypes = InterfaceTypes.QUANTISED
    plan_streaming: bool | None = None
    graph: Graph | None = None
    name: str | None = None
    described: Target | None = None

    @property
    def goal(self) -> Optimize:
        """The goal that selects a point; by default `speed` with a RAM budget, else `balanced`."""
        if self.optimize is not None:
            return self.optimize
        return Optimize.BALANCED if self.sram_bytes is None else Optimize.SPEED

    @property
    def ram_limit_bytes(self) -> int:
        """The RAM budget, but at most the capacity of the memories that count towards it."""
        arenas = self.target.memories_for("arena")
        capacity = sum(memory.size_bytes for memory in arenas if memory.budget)
        return capacity if self.sram_bytes is None else min(capacity, self.sram_bytes)
