"""Registry of core families, which are discovered in this folder.

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
from penstock.hardware.faults import closest, shown, wrong_field


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
