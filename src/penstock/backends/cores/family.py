"""CoreFamily: the kernels of one instruction set and their cycle model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.backends.cores.common.cycle_model import CycleModel
from penstock.ir.op import Kernel, Op, Site

# Returns the family's kernel for an operator, or None if the family has none for it.
KernelChoice = Callable[[Op, Site], Kernel | None]


def no_kernel(op: Op, site: Site) -> Kernel | None:
    """Return None: the kernel choice of a family without kernels of its own."""
    return None


def no_condition(op: Op, site: Site) -> str:
    """Return "": no unmet condition, for families that do not state the conditions of kernels."""
    return ""


@dataclass(frozen=True, slots=True)
class CoreFamily:
    """Processor cores that run the same kernels.

    A target selects a family by `kernels = NAME`.  Operators without a kernel of the family run in
    portable C.  Compiler flags depend on the core, not on the family, and are in the target file.

    name                   the family's name in target files, which is also its folder's name
    instruction_set        the instruction set that the kernels require, for messages
    cores                  simulated cores that can execute the kernels (`core` of a target file)
    kernel                 returns the kernel for an operator; the kernel may need scratch memory
    fallback_kernel        returns a kernel without scratch; used if the kernel that `kernel`
                           returns needs scratch
    unmet_condition        returns a condition of the family's kernel that an operator does not
                           meet, such as "at least 8 channels", for messages; "" if it meets all
                           conditions, or if none are stated
    cycle_model            model of the kernels' cycles; None for the constants in the target file:
                           cycles per multiply-accumulate, output element, inner loop and call
    certifies_portable     whether portable kernels, too, use requantisation proved bit-exact;
                           otherwise they use the arithmetic of the reference runtime
    """

    name: str
    instruction_set: str
    cores: tuple[str, ...]
    kernel: KernelChoice = no_kernel
    fallback_kernel: KernelChoice = no_kernel
    unmet_condition: Callable[[Op, Site], str] = no_condition
    cycle_model: CycleModel | None = None
    certifies_portable: bool = True

    @property
    def is_plain_c(self) -> bool:
        """Whether all operators run in portable C, because the family has no kernels of its own."""
        return self.kernel is no_kernel

    def priced(self, op: Op, site: Site, kernel: Kernel) -> Kernel:
        """Return the kernel with its cycles set, or unchanged if the cycles are unknown."""
        return kernel if self.cycle_model is None else self.cycle_model.priced(op, site, kernel)

    def cycles(self, op: Op, site: Site, kernel: Kernel) -> float:
        """Return the cycles of one call that computes the whole output; infinity if unknown."""
        if self.cycle_model is None:
            return float("inf")
        return self.cycle_model.cycles(op, site, kernel)
