"""The C compiler of this machine: shared libraries, programs and sanitizers."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from penstock.errors import InternalError, ToolError
from penstock.frozen import frozen
from penstock.toolchains.command import Command
from penstock.toolchains.compiler import Compiler, Kind, zig_command

# Compilers in order of preference. zig comes last: it has no address sanitizer.
HOST_COMPILERS: tuple[Kind, ...] = ("gcc", "clang", "cc")
HOST_FLAGS = ("-std=c11", "-O2", "-g1", "-fPIC", "-fno-omit-frame-pointer")
# Compiles sanitised code in two thirds of the time of -O2, and removes fewer errors.
SANITISED_LEVEL = "-O1"
# Links with the sanitizers in half the time of the default.
GOLD = ("-fuse-ld=gold",) if shutil.which("ld.gold") else ()
QUICK_CHECKS = (
    "-fsanitize-undefined-trap-on-error",
    "--param=asan-instrumentation-with-call-threshold=0",
)
# Programs that fail if the sanitizer of that name works.
PROBES = {
    "address": "int main(void) { volatile int i = 2; volatile char a[2] = {0}; return a[i] & 0; }",
    "undefined": "int main(void) { volatile int a = 2147483647; return !(a + 1); }",
}


@frozen
class SanitisedCompiler:
    """A host compiler whose programs abort at the first error that a sanitizer detects.

    `sanitizers` lists the working ones of "address" and "undefined".  zig has only "undefined",
    which aborts without a message.
    """

    compiler: Compiler
    sanitizers: tuple[str, ...]

    @property
    def quick_checks(self) -> tuple[str, ...]:
        """Flags of the same checks that compile in three fifths of the time, run longer, and do
        not say which undefined behaviour is found."""
        return QUICK_CHECKS if self.compiler.kind == "gcc" else ()


@cache
def host_compiler() -> Compiler:
    """The first installed one of gcc, clang and cc, otherwise zig; without sanitizers."""
    for kind in HOST_COMPILERS:
        program = shutil.which(kind)
        if program is not None:
            return Compiler(kind, (program,), HOST_FLAGS)
    return zig_host_compiler()


def zig_host_compiler() -> Compiler:
    """zig for this machine, with its default trap on undefined behaviour disabled.

    Raises ToolError if zig is not installed."""
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
    """The compiler with those sanitizers that detect the errors of the probe programs.

    Raises ToolError if it has none.
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
    """Links a shared library that Python can load.

    Raises InternalError for sanitised objects, which would abort the Python process.
    """
    if any(flag.startswith("-fsanitize") for flag in compiler.flags):
        raise InternalError("toolchain-002", "a sanitised library cannot be loaded; link a program")
    compiler.link(objects, library, ("-shared", "-lm")).run()
    return library


def link_executable(compiler: Compiler, objects: Sequence[Path], program: Path) -> Path:
    """Links a program for this machine; see `run_executable`."""
    compiler.link(objects, program, ("-lm",)).run()
    return program


def run_executable(program: Path, stdin: bytes = b"", arguments: Sequence[str] = ()) -> bytes:
    """The standard output of a program.  Raises ToolError with its messages if it fails.

    Its environment names this Python and the folders of its packages: functional models of drivers
    may be written in Python."""
    folders = os.pathsep.join(folder for folder in sys.path if folder)
    environment = {"PENSTOCK_PYTHON": sys.executable, "PYTHONPATH": folders}
    return Command((str(program), *arguments), program.name, environment).run(stdin)


def shared_suffix() -> str:
    """The file name suffix of shared libraries on this machine."""
    return {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")


def _with_sanitizers(compiler: Compiler, names: Sequence[str]) -> Compiler:
    kept = tuple(flag for flag in compiler.flags if not flag.startswith("-fno-sanitize"))
    # zig builds a run-time library for messages, which takes half a minute; a trap needs none.
    zig = compiler.kind == "zig"
    more = ("-fsanitize-trap=undefined",) if zig else ("-fno-sanitize-recover=all", *GOLD)
    added = (SANITISED_LEVEL, f"-fsanitize={','.join(names)}", *more)
    return Compiler(compiler.kind, compiler.command, kept + added)


def _catches(compiler: Compiler, sanitizer: str) -> bool:
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
