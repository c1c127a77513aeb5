"""Delivery: the generated files of a model, and what build systems need to know about them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from functools import partial
from html import escape

from penstock.brief import Brief
from penstock.codegen import c_text
from penstock.codegen.bundle import Bundle
from penstock.codegen.c_program import render
from penstock.codegen.interface import Interface
from penstock.frozen import frozen
from penstock.ir.tensor import DType
from penstock.toolchains.compiler import WARNINGS, Optimise
from penstock.toolchains.cortex_m import CODE_FLAGS, OPTIMISE_FLAGS

VERSION = "1.0.0"  # Version of every package: the generated files have no history of their own.
EXAMPLE = "main.c"  # The file of a bundle that is no part of the library.
BUILD_FILES = (EXAMPLE, "CMakeLists.txt")


@frozen(repr=False)
class Delivery(Brief):
    """A compiled model, independent of build systems.

    bundle: the files that the stage `write` generates.
    provenance: model and target, as text.
    cpu_flags: flags of arm-none-eabi-gcc that select the core of the target; empty if it has none.
    stack_bytes: the stack reserve of the model.
    """

    bundle: Bundle
    interface: Interface
    provenance: str
    target: str
    cpu_flags: tuple[str, ...]
    optimise: Optimise
    stack_bytes: int

    @property
    def prefix(self) -> str:
        """The prefix of all public C names."""
        return self.interface.prefix

    @property
    def unique_name(self) -> str:
        """A name for namespaces that a build system shares between libraries.

        No prefix begins with "penstock", so that the name is neither a keyword nor the name of
        another library."""
        return f"penstock_{self.prefix.lower()}"

    @property
    def header(self) -> str:
        """The name of the public header."""
        return f"{self.prefix}.h"

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the C files of the library, those of driver stubs included."""
        return tuple(name for name in self._library if name.endswith(".c"))

    def laid_out(self, public: str, private: str) -> tuple[tuple[str, bytes], ...]:
        """The files of the library: the public header in one folder, all others in another."""
        files = dict(self.bundle.files)
        return tuple(
            (f"{public if name == self.header else private}/{name}", files[name])
            for name in self._library
        )

    def rendered(
        self, format: str, paths: Mapping[str, str], **more: object
    ) -> tuple[tuple[str, bytes], ...]:
        """Files made of the templates of a format: `paths` maps templates to paths, and `more`
        holds the values of further variables."""
        holes = {**self._holes(), **more}
        return tuple(
            (path, render(f"packages/{format}/{template}", holes))
            for template, path in paths.items()
        )

    @property
    def example(self) -> bytes:
        """An example that runs the model once and prints its outputs with printf."""
        return self.bundle[EXAMPLE]

    @property
    def _library(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.bundle.files if name not in BUILD_FILES)

    def _holes(self) -> Mapping[str, object]:
        return {
            "model": self.interface,
            "prefix": self.prefix,
            "upper": self.prefix.upper(),
            "unique": self.unique_name,
            "header": self.header,
            "sources": self.sources,
            "alignment": self.interface.alignment_bytes,
            "description": c_text.comment(f"Neural network {self.prefix}: {self.provenance}"),
            "target": line_comment(self.target),
            "version": VERSION,
            "cpu_flags": self.cpu_flags,
            "shell_flags": shlex.join(self.cpu_flags),
            "code_flags": CODE_FLAGS,
            "optimise": OPTIMISE_FLAGS[self.optimise][0],
            "warnings": WARNINGS,
            "stack_bytes": self.stack_bytes,
            "prints": _printed_types(self.interface),
            "quoted": quoted,
            "xml": partial(escape, quote=False),
            "cmake": cmake_text,
            "make": make_text,
        }


def quoted(text: str) -> str:
    """A string literal of JSON, which is also one of YAML and TOML.

    >>> quoted('a "b"')
    '"a \\\\"b\\\\""'
    """
    return json.dumps(text, ensure_ascii=False)


def cmake_text(text: str) -> str:
    """Text inside a quoted argument of CMake.

    >>> cmake_text('-DX="$"')
    '-DX=\\\\"\\\\$\\\\"'
    """
    return re.sub(r'([\\"$])', r"\\\1", text)


def make_text(text: str) -> str:
    """The value of a variable of make.

    >>> make_text("-DX=$#")
    '-DX=$$\\\\#'
    """
    return re.sub(r"(\\*)#", r"\1\1\\#", text.replace("$", "$$"))


def line_comment(text: str) -> str:
    """Text that is safe at the end of a line comment of make, CMake or C: printable, and without a
    backslash at its end, which would continue the comment.

    >>> line_comment("board" + chr(92))
    'board'
    """
    return c_text.comment(text).rstrip("\\")


def _printed_types(interface: Interface) -> Iterable[str]:
    used = {port.elements.dtype for port in interface.outputs}
    return tuple(t.value for t in (DType.FLOAT32, DType.INT64) if t in used)
