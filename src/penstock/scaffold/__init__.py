"""Scaffold: a package with a working example accelerator, as a starting point for authors."""

from __future__ import annotations

import importlib.util
import keyword
import re
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from penstock.backends import discovery
from penstock.codegen.bundle import Bundle, write_bundle
from penstock.errors import UsageError, did_you_mean

LAYOUTS = ("file", "files")
"""Layouts of a description: one file, or a file for each of its parts, as in RFC 0060."""
_COMMON = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "package.py": "src/{name}/__init__.py",
    "driver.h": "src/{name}/{name}_driver.h",
    "driver.c": "src/{name}/{name}_driver.c",
    "test_backend.py": "tests/test_{name}.py",
}
FILES = {
    "file": {**_COMMON, "backend.py": "src/{name}/backend.py"},
    "files": {
        **_COMMON,
        "backend_of_files.py": "src/{name}/backend.py",
        "codegen.py": "src/{name}/codegen.py",
        "model.py": "src/{name}/model.py",
        "passes.py": "src/{name}/passes.py",
        "patterns.py": "src/{name}/patterns.py",
        "strategies.py": "src/{name}/strategies.py",
    },
}
"""For each layout, the path in the new package, by template."""


def new_backend(name: str, folder: Path, layout: str = "file") -> Bundle:
    """Write a package with an accelerator called `name` into a new folder.

    layout: one of `LAYOUTS`.

    Raises UsageError if the name is invalid or taken, or if there is no such layout, OutputError if
    the folder cannot be written."""
    _check_name(name)
    if layout not in LAYOUTS:
        raise UsageError(
            "usage-013",
            f"unknown value {layout!r}",
            where="--layout",
            help=f"{did_you_mean(layout, LAYOUTS)}use one of {', '.join(LAYOUTS)}",
        )
    bundle = backend_package(name, layout)
    write_bundle(bundle, folder)
    return bundle


def backend_package(name: str, layout: str = "file") -> Bundle:
    """The files of a package with an accelerator called `name`, in one of `LAYOUTS`."""
    environment = Environment(
        loader=PackageLoader("penstock.scaffold"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    holes = {"layout": layout, "name": name, "upper": name.upper(), "class_name": _class_name(name)}
    return Bundle(
        tuple(
            (path.format(name=name), environment.get_template(f"{file}.j2").render(holes).encode())
            for file, path in FILES[layout].items()
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
    if discovery.is_taken(name) or importlib.util.find_spec(name) is not None:
        raise UsageError(
            "usage-022",
            f'there is an accelerator or a Python module "{name}"',
            where="backend new",
            help="choose another name, or uninstall the package that has it",
        )
