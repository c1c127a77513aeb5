"""Request: the model to compile, the target, the budgets and the options."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.backends.accelerator import Accelerator
from penstock.brief import Brief
from penstock.fixedpoint import Rounding
from penstock.frontends.reading import AS_IT_IS, Reading
from penstock.hardware.target import Target
from penstock.scheduling.cascades.selection import Optimize
from penstock.scheduling.options import DEFAULTS, Options

DEFAULT_STACK_BYTES = 1024


@dataclass(frozen=True, slots=True, repr=False)
class Request(Brief):
    """Inputs of one compilation.

    `sram_bytes` and `flash_bytes` are the user's budgets; None leaves only the target's limits.
    `stack_bytes` is reserved for the stack and counts towards the RAM budget.
    `strict` rejects networks that accelerators run only in part.
    `optimize` is the goal that the user asked for; None selects a default, see `goal`."""

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

    @property
    def goal(self) -> Optimize:
        """The goal that selects a point: `balanced` by default, `speed` with a RAM budget."""
        if self.optimize is not None:
            return self.optimize
        return Optimize.BALANCED if self.sram_bytes is None else Optimize.SPEED

    @property
    def ram_limit_bytes(self) -> int:
        """The RAM budget, capped by the capacity of the target's memories that count towards it."""
        arenas = self.target.memories_for("arena")
        capacity = sum(memory.size_bytes for memory in arenas if memory.budget)
        return capacity if self.sram_bytes is None else min(capacity, self.sram_bytes)
