"""Registry of core families, which are discovered in this folder, and targets that refer to them.

A subfolder with a module `family.py` is a core family; the module defines `FAMILY`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from penstock.backends import cores
from penstock.backends.cores.family import CoreFamily
from penstock.errors import TargetError, UsageError, did_you_mean
from penstock.hardware.faults import closest, shown, wrong_field
from penstock.hardware.load import load_target
from penstock.hardware.target import Target


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
    """Return the name of the family that runs every operator in portable C.

    Its kernels run on every processor.  They read weights in the order of the model, without the
    padding that some kernels of other families need."""
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
