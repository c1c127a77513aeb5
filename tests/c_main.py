"""Builds small programs around generated code with sanitizers and runs them on the host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.codegen.c_program import c_sources
from penstock.toolchains.compiler import WARNINGS_AS_ERRORS, compile_objects
from penstock.toolchains.host import (
    host_compiler,
    link_executable,
    run_executable,
    sanitised_compiler,
)

IO = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void get(void *bytes, size_t size) {
    if (fread(bytes, 1, size, stdin) != size) {
        exit(100);
    }
}

static void put(const void *bytes, size_t size) {
    if (fwrite(bytes, 1, size, stdout) != size) {
        exit(101);
    }
}
"""


def run_main(
    main: str, bundles: Sequence[tuple[Path, str]], folder: Path, stdin: bytes = b""
) -> bytes:
    """Output of a program that consists of `main` and of bundles (folder, prefix)."""
    source = folder / "the_main.c"
    source.write_text(IO + main)
    compiler = sanitised_compiler(host_compiler()).compiler
    libraries = [path / name for path, prefix in bundles for name in c_sources(prefix)]
    folders = tuple(path for path, _ in bundles)
    objects = compile_objects(
        compiler, libraries, folder / "library", include=folders, flags=WARNINGS_AS_ERRORS
    )
    own = compile_objects(compiler, [source], folder / "own", include=folders)
    return run_executable(link_executable(compiler, (*objects, *own), folder / "program"), stdin)
