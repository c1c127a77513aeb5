"""Compiler: a C compiler with the flags of all its compilations and links."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from penstock.errors import InternalError
from penstock.frozen import frozen
from penstock.toolchains.command import Command, extra, run_all

Kind = Literal["zig", "gcc", "clang", "cc"]
Optimise = Literal["speed", "size"]

# Warnings that generated C code is free of.
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion")
WARNINGS_AS_ERRORS = (*WARNINGS, "-Werror")


@frozen
class Compiler:
    """A C compiler for one machine.

    `command` is the program with its leading arguments; `flags` follow in every compilation and
    link.
    """

    kind: Kind
    command: tuple[str, ...]
    flags: tuple[str, ...]

    def compile(
        self, source: Path, target: Path, *, include: Sequence[Path] = (), flags: Sequence[str] = ()
    ) -> Command:
        """The command that compiles one C file into one object file."""
        folders = tuple(f"-I{folder}" for folder in include)
        files = ("-c", str(source), "-o", str(target))
        return Command((*self.command, *self.flags, *flags, *folders, *files), source.name)

    def link(self, objects: Sequence[Path], target: Path, flags: Sequence[str]) -> Command:
        """The command that links object files into `target`."""
        files = (*(str(path) for path in objects), "-o", str(target))
        return Command((*self.command, *self.flags, *files, *flags), target.name)

    def version(self) -> str:
        """The first line that the compiler prints for --version."""
        words = (*self.command, "--version")
        return Command(words, "version").run().decode(errors="replace").splitlines()[0]


def compile_objects(
    compiler: Compiler,
    sources: Sequence[Path],
    folder: Path,
    *,
    include: Sequence[Path] = (),
    flags: Sequence[str] = (),
    workers: int = 2,
) -> tuple[Path, ...]:
    """Compiles C files to object files in `folder`, `conv.c` to `conv.o`, in the same order.

    Up to `workers` compilers run in parallel.  Raises ToolError with the compiler's messages.
    """
    folder.mkdir(parents=True, exist_ok=True)
    objects = tuple(folder / f"{source.stem}.o" for source in sources)
    if len(set(objects)) != len(objects):
        raise InternalError("toolchain-001", "two C files of one program have the same name")
    run_all(
        [
            compiler.compile(source, target, include=include, flags=flags)
            for source, target in zip(sources, objects, strict=True)
        ],
        workers,
    )
    return objects


def zig_command() -> tuple[str, ...]:
    """The C compiler inside the `ziglang` package."""
    package = Path(str(extra("ziglang").__file__)).parent
    return (str(package / "zig"), "cc")
