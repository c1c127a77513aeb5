"""Generated C compiles without warnings with every compiler on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from available import compiled, every_model
from penstock.codegen import observer
from penstock.toolchains.compiler import (
    WARNINGS_AS_ERRORS,
    Compiler,
    Kind,
    compile_objects,
    zig_command,
)

FLAGS = ("-std=c11", "-O2")


def compiler_named(kind: Kind) -> Compiler:
    """gcc, or clang: zig's, where there is no other."""
    if program := shutil.which(kind):
        return Compiler(kind, (program,), FLAGS)
    if kind == "gcc":
        pytest.skip("there is no gcc here")
    pytest.importorskip("ziglang", reason="there is no clang here, nor the extra 'simulate'")
    return Compiler("zig", zig_command(), FLAGS)


def build(compiler: Compiler, sources: Sequence[Path], *flags: str) -> None:
    """Compiles files that lie in one folder; warnings are errors.

    Clang warns before it optimises, gcc while it does.
    """
    folder = sources[0].parent
    level = () if compiler.kind == "gcc" else ("-O0",)
    flags = (*WARNINGS_AS_ERRORS, *level, *flags)
    compile_objects(compiler, sources, folder / compiler.kind, include=(folder,), flags=flags)


@pytest.mark.parametrize("kind", ["gcc", "clang"])
@every_model
def test_every_file_compiles_without_a_warning(
    model: str, kind: Kind, bundle_of: Callable[[str], Path]
) -> None:
    compiler, folder = compiler_named(kind), bundle_of(model)
    sources = sorted(folder.glob("*.c"))
    assert len(sources) == 4  # the model, its weights, its arena, the example
    build(compiler, sources)


@pytest.mark.parametrize("kind", ["gcc", "clang"])
@pytest.mark.parametrize("model", ["real_tails", "svdf", "two_heads"])
def test_the_observer_compiles_without_warnings(
    model: str, kind: Kind, bundle_of: Callable[[str], Path], tmp_path: Path
) -> None:
    compiler, done = compiler_named(kind), compiled(model).compilation
    for name, content in observer.generate_observer(done.program, done.prefix):
        (tmp_path / name).write_bytes(content)
    compile_objects(
        compiler,
        [
            *(tmp_path / name for name in (observer.SOURCE, observer.HARNESS)),
            bundle_of(model) / f"{done.prefix}.c",
        ],
        tmp_path,
        include=(tmp_path, bundle_of(model)),
        flags=(*WARNINGS_AS_ERRORS, observer.TRACED),
    )


def test_a_warning_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "narrowing.c").write_text(
        "signed char f(int x);\nsigned char f(int x) { return x; }\n"
    )
    for kind in ("gcc", "clang"):
        with pytest.raises(Exception, match="failed with exit code"):
            build(compiler_named(kind), [tmp_path / "narrowing.c"])
