"""Skips tests of packages where a tool is missing."""

from __future__ import annotations

import importlib.util
import shutil

import pytest


def need(*programs: str) -> None:
    """Skips the test if this machine lacks a program."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} here")


def need_module(name: str) -> None:
    """Skips the test if a Python package is not installed."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"the package {name} of the extra 'develop' is not installed")
