"""Scaffold: a package with a working example accelerator, or files of a kind that an accelerator's
package contributes, as a starting point for authors."""

from __future__ import annotations

import importlib.util
import keyword
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import BaseLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined

from penstock.backends import discovery
from penstock.backends.contributions import KINDS, contribution, contributions
from penstock.codegen.bundle import Bundle, write_bundle
from penstock.errors import UsageError, did_you_mean

PACKAGE = "package"
"""The kind of accelerators that are packages in Python; packages contribute others."""
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


def new_backend(name: str, folder: Path, layout: str = "file", kind: str = PACKAGE) -> Bundle:
    """Write an accelerator called `name` into a new folder.

    layout: one of `LAYOUTS`, for packages.
    kind: `PACKAGE`, or one that an installed package contributes.

    Raises UsageError if the name is invalid or taken, or if there is no such layout or kind,
    OutputError if the folder cannot be written."""
    _check_choice("--kind", kind, (PACKAGE, *contributions(KINDS)))
    if kind == PACKAGE:
        _check_choice("--layout", layout, LAYOUTS)
    else:
        _check_choice(f"--layout, with --kind {kind}", layout, LAYOUTS[:1])
    _check_name(name, kind)
    bundle = backend_package(name, layout) if kind == PACKAGE else contributed(kind, name)
    write_bundle(bundle, folder)
    return bundle


def next_command(name: str, folder: str, kind: str) -> str:
    """Return the command that a user runs next, after `new_backend` has written to `folder`."""
    if kind == PACKAGE:
        return f'pip install -e "{folder}[develop]" && pytest {folder}'
    return contribution(KINDS, kind).texts["next"].format(name=name, folder=folder)


def backend_package(name: str, layout: str = "file") -> Bundle:
    """The files of a package with an accelerator called `name`, in one of `LAYOUTS`."""
    return _rendered(PackageLoader("penstock.scaffold"), FILES[layout], name, layout)


def contributed(kind: str, name: str) -> Bundle:
    """The files of an accelerator called `name`, of a kind that a package contributes."""
    found = contribution(KINDS, kind)
    loader = FileSystemLoader(found.folder / found.texts["templates"])
    names = (template.removesuffix(".j2") for template in loader.list_templates())
    return _rendered(loader, {name: name for name in names}, name)


def _rendered(loader: BaseLoader, files: Mapping[str, str], name: str, layout: str = "") -> Bundle:
    """`files`: the path in the new folder, by template."""
    environment = Environment(
        loader=loader,
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
            for file, path in files.items()
        )
    )


def _class_name(name: str) -> str:
    """The name of the accelerator's class: my_npu -> MyNpuBackend."""
    return "".join(word.capitalize() for word in name.split("_")) + "Backend"


def _check_choice(option: str, value: str, values: Sequence[str]) -> None:
    if value not in values:
        raise UsageError(
            "usage-013",
            f"unknown value {value!r}",
            where=option,
            help=f"{did_you_mean(value, values)}use one of {', '.join(values)}",
        )


def _check_name(name: str, kind: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UsageError(
            "usage-021",
            f"a backend cannot be called {name!r}",
            where="backend new",
            why="the name is used for files and, in packages, for a Python module and C functions",
            help="use lower-case letters, digits and _, beginning with a letter, for example "
            "my_npu",
        )
    is_taken = discovery.is_taken(name) or importlib.util.find_spec(name) is not None
    if kind == PACKAGE and is_taken:
        raise UsageError(
            "usage-022",
            f'there is an accelerator or a Python module "{name}"',
            where="backend new",
            help="choose another name, or uninstall the package that has it",
        )
