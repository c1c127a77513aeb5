"""Every generator: one per file of the folder `generators`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from benchmarks.torture import generators
from benchmarks.torture.case import Generator


def every_generator() -> Mapping[str, Generator]:
    """All generators by name, in the order of their names."""
    modules = sorted(found.name for found in pkgutil.iter_modules(generators.__path__))
    every = (importlib.import_module(f"{generators.__name__}.{name}") for name in modules)
    return {module.GENERATOR.name: module.GENERATOR for module in every}
