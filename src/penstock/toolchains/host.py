"""The machine that penstock runs on: its C compiler, shared libraries, sanitised programs."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from penstock.errors import InternalError, ToolError
from penstock.toolchains.command import Command
from penstock.toolchains.compiler import Compiler, Kind, zig_command

# In order of preference: gcc and clang bring the address sanitizer, zig does not.
HOST_COMPILERS: tuple[Kind, ...] = ("gcc", "clang", "cc")
HOST_FLAGS = ("-std=c11", "-O2", "-g1", "-fPIC", "-fno-omit-frame-pointer")
# Programs that show whether a sanitizer is there at all: with it, they must fail.
PROBES = {
    "address": "int main(void) { volatile int i = 2; volatile char a[2] = {0}; return a[i] & 0; }",
    "undefined": "int main(void) { volatile int a = 2147483647; return !(a + 1); }",
}


@dataclass(frozen=True, slots=True)
class SanitisedCompiler:
    """A host compiler whose programs stop at the first error that its sanitizers see.

    `sanitizers` are those that are really there, of "address" and "undefined". zig has the second
    only, and stops without a word.
    """

    compiler: Compiler
    sanitizers: tuple[str, ...]


@cache
def host_compiler() -> Compiler:
    """gcc, clang or cc if one is installed, or else zig; without sanitizers."""
    for kind in HOST_COMPILERS:
        program = shutil.which(kind)
        if program is not None:
            return Compiler(kind, (program,), HOST_FLAGS)
    return zig_host_compiler()


def zig_host_compiler() -> Compiler:
    """zig for this machine. Its own default, a trap on undefined behaviour, is off."""
    try:
        command = zig_command()
    except ToolError as missing:
        raise ToolError(
            "tool-004",
            "no C compiler found on this machine",
            where="search path and Python packages",
            why=f"looked for {', '.join(HOST_COMPILERS)} and the ziglang package",
            help="install gcc or clang, or pip install 'penstock[simulate]'",
        ) from missing
    return Compiler("zig", command, (*HOST_FLAGS, "-fno-sanitize=undefined"))


@cache
def sanitised_compiler(compiler: Compiler) -> SanitisedCompiler:
    """`compiler` with the sanitizers that it proves to have, by programs that must fail.

    Raises: ToolError when it has none.
    """
    found = tuple(name for name in PROBES if _catches(_with_sanitizers(compiler, (name,)), name))
    if not found:
        raise ToolError(
            "tool-005",
            f"{Path(compiler.command[0]).name} has no sanitizers",
            where=compiler.command[0],
            help="install gcc or clang with libasan and libubsan",
        )
    return SanitisedCompiler(_with_sanitizers(compiler, found), found)


def link_shared(compiler: Compiler, objects: Sequence[Path], library: Path) -> Path:
    """A shared library that Python can load.

    Not for sanitised objects: at the first error they would end the Python that loaded them.
    """
    if any(flag.startswith("-fsanitize") for flag in compiler.flags):
        raise InternalError("toolchain-002", "a sanitised library cannot be loaded; link a program")
    compiler.link(objects, library, ("-shared",)).run()
    return library


def link_executable(compiler: Compiler, objects: Sequence[Path], program: Path) -> Path:
    """A program for this machine, to be run by `run_executable`."""
    compiler.link(objects, program, ("-lm",)).run()
    return program


def run_executable(program: Path, stdin: bytes = b"", arguments: Sequence[str] = ()) -> bytes:
    """What the program writes to stdout; if it fails, a ToolError with its words."""
    return Command((str(program), *arguments), program.name).run(stdin)


def shared_suffix() -> str:
    """How the name of a shared library ends on this machine."""
    return {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")


def _with_sanitizers(compiler: Compiler, names: Sequence[str]) -> Compiler:
    kept = tuple(flag for flag in compiler.flags if not flag.startswith("-fno-sanitize"))
    # zig would first build a run-time library for its messages: half a minute. A trap needs none.
    stop = "-fsanitize-trap=undefined" if compiler.kind == "zig" else "-fno-sanitize-recover=all"
    added = (f"-fsanitize={','.join(names)}", stop)
    return Compiler(compiler.kind, compiler.command, kept + added)


def _catches(compiler: Compiler, sanitizer: str) -> bool:
    """Whether a program with a known error is built, and fails."""
    with tempfile.TemporaryDirectory() as name:
        source, target, program = (Path(name) / file for file in ("probe.c", "probe.o", "probe"))
        source.write_text(PROBES[sanitizer] + "\n")
        try:
            compiler.compile(source, target).run()
            link_executable(compiler, (target,), program)
        except ToolError:
            return False
        try:
            run_executable(program)
        except ToolError:
            return True
        return False
