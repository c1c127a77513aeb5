"""CoreFamily: the kernels of one instruction set and their cycle model; discovery and selection.

In a cycle model, the cycles of a kernel are a weighted sum of how often each of its sections (a
loop body or a copy, for example) is executed.

A kernel is a loop nest in C and assembly.  A count function returns how often each section of the
kernel is executed while it computes a whole output (`common/counts.py`, and `counts.py` of a
family).  The weight of a section is the number of cycles of one execution.  The weights are in the
family's `figures.toml`; `python -m benchmarks.kernel_figures` fits them to the cycles of random
layers on the simulated core.  They are valid in every network, because compilers cannot specialise
a kernel for its calls in one network (`PENSTOCK_KERNEL` in `view.h`).

Loops in assembly have no weights: the count function computes their cycles and returns the sum
under the key "cycles".  The weight of this key is 1, unless the timing of the simulated core
differs from the timing that the count function assumes.
"""

from __future__ import annotations

import pkgutil
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib import import_module, resources
from importlib.util import find_spec

import numpy as np

from penstock.backends import cores
from penstock.backends.cores.common.counts import Counts, portable_counts
from penstock.backends.cores.common.layer import (
    LayerOp,
    constant_outputs,
    wide_kernel,
    with_forms,
)
from penstock.errors import TargetError, UsageError, did_you_mean
from penstock.fixedpoint import Int64s
from penstock.frozen import frozen
from penstock.hardware.faults import closest, shown, wrong_field
from penstock.hardware.load import load_target
from penstock.hardware.target import Target
from penstock.ir.op import Kernel, Op, Site, Table
from penstock.opkit.layers import WIDE, narrow_site, wide_channels

# Key of the count that is a number of cycles, those of loops in assembly.
ASSEMBLY_CYCLES = "cycles"
# The fitted cycles per run of each section of a kernel, by the section's name.
Figures = Mapping[str, float]


def no_odd_cycles(kernel: Kernel) -> int:
    """Return 0: the default of `CycleModel.odd_cycles`."""
    # Kernels that do not compute pixels in pairs take no additional cycles for an odd number.
    return 0


@frozen
class CycleModel:
    """Cycles of kernels on the cores of a family.

    package: the name of the family's package, which contains `figures.toml`.
    counts: returns how often each section of a kernel runs for the whole output.  It returns None
        for a kernel that it does not know; the cycles of this kernel remain as they are.
    odd_cycles: returns the additional cycles of a call that computes an odd number of pixels;
        nonzero only for kernels that compute pixels in pairs."""

    package: str
    counts: Callable[[Op, Site, Kernel], Counts | None] = portable_counts
    odd_cycles: Callable[[Kernel], int] = no_odd_cycles

    @property
    def figures(self) -> Mapping[str, Figures]:
        """The fitted cycles of one execution of a section, by kernel name, then by section name."""
        return _figures(self.package)

    def priced(self, op: Op, site: Site, kernel: Kernel) -> Kernel:
        """Return the kernel with its cycles set, or unchanged if the cycles are unknown."""
        figures = self.figures.get(kernel.name)
        counts = self.counts(op, site, kernel)
        if figures is None or counts is None:
            return kernel
        figures = {ASSEMBLY_CYCLES: 1.0, **figures}
        work = sum(count * figures.get(part, 0.0) for part, count in counts.items())
        odd = self.odd_cycles(kernel)
        odd = odd and round(odd * (site.output.shape[2] % 2) * figures[ASSEMBLY_CYCLES])
        return replace(kernel, work_cycles=round(work), odd_cycles=odd)

    def cycles(self, op: Op, site: Site, kernel: Kernel) -> float:
        """Return the cycles of one call that computes the whole output."""
        # They are infinity if neither the model nor `kernel.work_cycles` states them.
        found = self.priced(op, site, kernel)
        if found.work_cycles is None:
            return float("inf")
        return found.work_cycles + found.odd_cycles


@cache
def _figures(package: str) -> Mapping[str, Figures]:
    return tomllib.loads(resources.files(package).joinpath("figures.toml").read_text("utf-8"))


# Returns the family's kernel for an operator, or None if the family has none for it.
KernelChoice = Callable[[Op, Site], Kernel | None]


def no_kernel(op: Op, site: Site) -> Kernel | None:
    """Return None: the kernel choice of a family without kernels of its own."""
    return None


def no_condition(op: Op, site: Site) -> str:
    """Return "": no unmet condition, for families that do not state the conditions of kernels."""
    return ""


@frozen
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


# Registry of core families, which are discovered in this folder, and targets that refer to them.
#
# A subfolder with a module `family.py` is a core family; the module defines `FAMILY`.


@cache
def core_families() -> Mapping[str, CoreFamily]:
    """Return the core families by name, in alphabetical order."""
    packages = (
        f"{cores.__name__}.{m.name}" for m in pkgutil.iter_modules(cores.__path__) if m.ispkg
    )
    modules = sorted(f"{package}.family" for package in packages)
    found = [import_module(module).FAMILY for module in modules if find_spec(module)]
    return {family.name: family for family in found}


def plain_c_family() -> str:
    """Return the name of the family that runs every operator in portable C."""
    # Its kernels run on every processor.  They read weights in the order of the model, without the
    # padding that some kernels of other families need.
    return next(name for name, family in core_families().items() if family.is_plain_c)


def core_family(name: str, where: str = "kernels of the target's processor") -> CoreFamily:
    """Return the core family with the given name.

    Raises TargetError, with the location `where`, if there is none."""
    families = core_families()
    if name not in families:
        raise wrong_field(
            f"kernels is {shown(name)}",
            f"one of {', '.join(families)}",
            where,
            suggestion=closest(name, families),
        )
    return families[name]


# Loads targets and checks their references to core families and simulated cores.


def load_checked_target(name: str, *, trusted: bool = False) -> Target:
    """Load a target and check its references to a core family and a simulated core.

    Raises UsageError if there is no such target or file, and TargetError if the file or a reference
    in it is invalid."""
    target = load_target(name, trusted=trusted)
    check_processor(target, name)
    return target


def check_processor(target: Target, file: str) -> None:
    """Check the core family of each engine of a target.

    Raises TargetError if a family is unknown, or if the target names a simulated core that cannot
    run the kernels of a family."""
    for engine in target.engines:
        family = core_family(engine.kernels, f'{file}, [[engines]] "{engine.name}"')
        if target.core is not None and target.core not in family.cores:
            raise _wrong_core(target.core, family, file)


def with_kernels(target: Target, family: str) -> Target:
    """Return the target with the kernels of another core family.

    Raises UsageError if there is no such family, or the core of the target cannot run it."""
    families = core_families().values()
    known = [one.name for one in families if target.core is None or target.core in one.cores]
    if family in known:
        return target.with_kernels(family)
    help = f"use one of {', '.join(known)}"
    if family not in core_families():
        raise UsageError(
            "usage-013",
            f"unknown value {family!r}",
            where="--kernels",
            help=f"{did_you_mean(family, known)}{help}",
        )
    raise UsageError(
        "usage-158",
        f"{target.core}, the core of {target.name}, cannot run the kernels {family}",
        where="--kernels",
        why=f"they need {core_family(family).instruction_set}",
        help=help,
    )


def _wrong_core(core: str, family: CoreFamily, file: str) -> TargetError:
    others = [other.name for other in core_families().values() if core in other.cores]
    alternative = f'take kernels = "{others[0]}" for this core' if others else ""
    return wrong_field(
        f"core is {shown(core)}",
        f"one of {', '.join(family.cores)}",
        file,
        why=f'kernels = "{family.name}" needs {family.instruction_set}',
        suggestion=alternative or closest(core, family.cores),
    )


# Selection of the kernels that compute a node on a processor core.


@frozen
class SelectedKernels:
    """The kernel of a node and, if it needs scratch memory, a fallback kernel without scratch.

    `fallback` is None if `kernel` needs no scratch."""

    kernel: Kernel
    fallback: Kernel | None = None


def select_kernels(op: Op, site: Site, family: CoreFamily) -> SelectedKernels:
    """Return the kernels that compute an operator on cores of a family, with their cycles.

    If the kernel needs scratch memory, the result also contains a fallback kernel without scratch:
    the family's or, if the family has none, the portable kernel.  If the family's fallback kernel
    takes no more cycles than the kernel with scratch, it is the only kernel in the result."""
    if isinstance(op, LayerOp) and site.inputs[1].dtype is WIDE:
        return _with_wide_channels(op, site, family)
    kernel = _with_portable(family.kernel(op, site), op, site, family)
    if not kernel.scratch_bytes:
        return SelectedKernels(family.priced(op, site, kernel))
    special = family.fallback_kernel(op, site)
    fallback = _with_portable(special, op, site, family)
    if special is not None and family.cycles(op, site, fallback) <= family.cycles(op, site, kernel):
        return SelectedKernels(family.priced(op, site, fallback))
    return SelectedKernels(family.priced(op, site, kernel), family.priced(op, site, fallback))


def competing_kernels(op: Op, site: Site, family: CoreFamily) -> tuple[tuple[str, int], ...]:
    """Return the name and the estimated cycles of each kernel that could compute an operator on
    cores of a family, in ascending order of cycles.

    They are the kernel and the fallback kernel of the family, and portable C.  Empty if the family
    has no model of cycles, or for the operators that never become kernels."""
    if family.cycle_model is None or op.ALIAS:
        return ()
    choices = (family.kernel(op, site), family.fallback_kernel(op, site), op.kernel(site))
    found = {kernel.name: kernel for kernel in choices if kernel is not None}
    cycles = {name: round(family.cycles(op, site, kernel)) for name, kernel in found.items()}
    return tuple(sorted(cycles.items(), key=lambda pair: pair[1]))


# Largest share of channels with wide weights for which a second kernel computes these channels.
#
# Above it, one kernel in portable C computes all channels.
MOST_WIDE = 0.5


def _with_wide_channels(op: LayerOp, site: Site, family: CoreFamily) -> SelectedKernels:
    """The kernels of a layer with wide weights (int16), of which most channels have none as a rule.

    The family's kernel computes the others, as if the weights of the wide channels were 0; a kernel
    in portable C then computes the wide channels."""
    channels = wide_channels(site.constant(1), op.OUTPUT_AXIS)
    outputs = site.output.shape[-1]
    if not 0 < len(channels) <= MOST_WIDE * outputs:
        kernel = _with_portable(None, op, site, family)
        return SelectedKernels(family.priced(op, site, kernel))
    wide = op.wide_kernel(site, channels)
    wide = wide_kernel(op, site, channels) if family.certifies_portable else wide
    wide = family.priced(op, site, wide)
    narrow = narrow_site(site, channels, op.OUTPUT_AXIS)
    others = select_kernels(op, narrow, family)
    both = partial(_both, op, site, narrow, channels, wide)
    return SelectedKernels(both(others.kernel), others.fallback and both(others.fallback))


def _both(
    op: LayerOp, site: Site, narrow: Site, channels: Int64s, wide: Kernel, first: Kernel
) -> Kernel:
    """The kernel `first` of the narrow weights, followed by the kernel `wide` of `channels`."""
    letters = dict(enumerate(first.classes))
    letters |= dict(zip(channels.tolist(), wide.classes, strict=False))
    # The model's weights are wide: those of the kernel become a table.
    stored = tuple((name, Table.of(narrow.constant(1))) for k, name in first.constants if k == 1)
    cycles = (first.work_cycles, wide.work_cycles)
    together = replace(
        first,
        tables=(*first.tables, *stored),
        constants=tuple(constant for constant in first.constants if constant[0] != 1),
        folded=tuple(dict.fromkeys((*first.folded, 1))),
        work_cycles=None if None in cycles else sum(filter(None, cycles)),
        classes="".join(letters.values()),
        then=wide,
    )
    return _with_constant_channels(together, op, site)


def _with_portable(special: Kernel | None, op: Op, site: Site, family: CoreFamily) -> Kernel:
    """The kernel `special` of the family, or the portable kernel if `special` is None."""
    if special is not None:
        return _with_constant_channels(special, op, site)
    kernel = op.kernel(site)
    if not family.certifies_portable:
        return kernel
    return _with_constant_channels(with_forms(op, site, kernel), op, site)


def _with_constant_channels(kernel: Kernel, op: Op, site: Site) -> Kernel:
    # A constant channel is an output channel that has the same value for every input.  The kernel
    # is returned unchanged if the operator has no weights, or if it does not requantise its
    # outputs.
    if not isinstance(op, LayerOp) or not kernel.classes:
        return kernel
    is_constant, _ = constant_outputs(op, site)
    return replace(kernel, constant_channels=tuple(np.flatnonzero(is_constant).tolist()))
