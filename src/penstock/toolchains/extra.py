"""Imports packages of the `simulate` extra on demand; penstock runs without them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from penstock.errors import ToolError


def extra(module: str) -> ModuleType:
    """The module of that name.  Raises ToolError if it is not installed."""
    try:
        return import_module(module)
    except ImportError as missing:
        raise ToolError(
            "tool-001",
            f"the Python package that provides '{module}' cannot be imported",
            where=f"Python package {module.partition('.')[0]}",
            why=str(missing),
            help="pip install 'penstock[simulate]'",
        ) from missing
