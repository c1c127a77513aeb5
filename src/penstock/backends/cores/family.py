"""CoreFamily: everything the compiler knows about the kernels of one instruction set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.backends.cores.common.cycle_model import CycleModel
from penstock.ir.op import Kernel, Op, Site

KernelChoice = Callable[[Op, Site], Kernel | None]
"""Returns the family's kernel for an operator, or None if it has none."""


def no_kernel(op: Op, site: Site) -> Kernel | None:
    """The choice of a family without kernels of its own."""
    return None


@dataclass(frozen=True, slots=True)
class CoreFamily:
    """Processor cores that run the same kernels.

    A target selects a family by `kernels = NAME`.  Operators without a kernel of the family run in
    portable C.  Compiler flags select a core, not a family, and are in the target file.

    name                   as target files spell it; equals the name of the family's folder
    instruction_set        what the kernels need, for messages and documentation
    cores                  simulated cores that execute the kernels (`core` of a target file)
    kernel                 the family's kernel for an operator; it may need scratch memory
    fallback_kernel        one that needs no scratch, for operators whose `kernel` needs some
    cycle_model            cycles of kernels; without one, the linear model of the target file holds
    certifies_portable     whether portable kernels use proven requantisation as well; otherwise
                           they compute it as the reference does
    """

    name: str
    instruction_set: str
    cores: tuple[str, ...]
    kernel: KernelChoice = no_kernel
    fallback_kernel: KernelChoice = no_kernel
    cycle_model: CycleModel | None = None
    certifies_portable: bool = True

    def priced(self, op: Op, site: Site, kernel: Kernel) -> Kernel:
        """The kernel with its cycles on this family, as far as they are known."""
        return kernel if self.cycle_model is None else self.cycle_model.priced(op, site, kernel)

    def cycles(self, op: Op, site: Site, kernel: Kernel) -> float:
        """Cycles of the whole output in one call; infinite if unknown."""
        if self.cycle_model is None:
            return float("inf")
        return self.cycle_model.cycles(op, site, kernel)
