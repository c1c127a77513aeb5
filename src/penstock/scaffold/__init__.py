"""Scaffold: a package with a working example accelerator, as a starting point for authors."""

from __future__ import annotations

import importlib.util
import keyword
import re
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from penstock.accelerators import registry
from penstock.codegen.bundle import Bundle, write_bundle
from penstock.errors import UsageError

FILES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "package.py": "src/{name}/__init__.py",
    "backend.py": "src/{name}/backend.py",
    "driver.h": "src/{name}/{name}_driver.h",
    "driver.c": "src/{name}/{name}_driver.c",
    "test_backend.py": "tests/test_{name}.py",
}
"""The path in the new package, by template."""


def new_backend(name: str, folder: Path) -> Bundle:
    """Write a package with an accelerator called `name` into a new folder.

    Raises UsageError if the name is invalid or taken, OutputError if the folder cannot be
    written."""
    _check_name(name)
    bundle = backend_package(name)
    write_bundle(bundle, folder)
    return bundle


def backend_package(name: str) -> Bundle:
    """The files of a package with an accelerator called `name`."""
    environment = Environment(
        loader=PackageLoader("penstock.scaffold"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    holes = {"name": name, "upper": name.upper(), "class_name": _class_name(name)}
    return Bundle(
        tuple(
            (path.format(name=name), environment.get_template(f"{file}.j2").render(holes).encode())
            for file, path in FILES.items()
        )
    )


def _class_name(name: str) -> str:
    """The name of the accelerator's class: my_npu -> MyNpuBackend."""
    return "".join(word.capitalize() for word in name.split("_")) + "Backend"


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UsageError(
            "usage-021",
            f"a backend cannot be called {name!r}",
            where="backend new",
            why="the name is used for a Python module and for C functions",
            help="use lower-case letters, digits and _, beginning with a letter, for example "
            "my_npu",
        )
    if name in registry.names() or importlib.util.find_spec(name) is not None:
        raise UsageError(
            "usage-022",
            f'there is an accelerator or a Python module "{name}"',
            where="backend new",
            help="choose another name, or uninstall the package that has it",
        )
