"""Fixtures of the tests of generated C: a bundle's folder, and its objects for a Cortex-M4."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from available import TARGET, compiled
from penstock.codegen.c_program import c_sources
from penstock.hardware.load import load_target
from penstock.toolchains.compiler import WARNINGS_AS_ERRORS, Optimise, compile_objects
from penstock.toolchains.cortex_m import zig_cortex_m

Objects = Callable[[str, Optimise], tuple[Path, ...]]
Unpack = Callable[[str], Path]


@pytest.fixture(scope="session")
def bundle_of(tmp_path_factory: pytest.TempPathFactory) -> Unpack:
    """By a model's name, the folder of its bundle."""
    found: dict[str, Path] = {}

    def unpack(model: str) -> Path:
        if model not in found:
            bundle = compiled(model).compilation.bundle
            folder = tmp_path_factory.mktemp(compiled(model).compilation.prefix)
            for name, content in bundle.files:
                path = folder / name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
            found[model] = folder
        return found[model]

    return unpack


@pytest.fixture(scope="session")
def core_objects(bundle_of: Unpack) -> Objects:
    """By a model's name, its objects for the core: code, weights, arena."""
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    found: dict[tuple[str, Optimise], tuple[Path, ...]] = {}

    def build(model: str, optimise: Optimise) -> tuple[Path, ...]:
        if (model, optimise) not in found:
            folder = bundle_of(model)
            tools = zig_cortex_m(load_target(TARGET).compiler.zig, optimise)
            found[model, optimise] = compile_objects(
                tools,
                [folder / name for name in c_sources(compiled(model).compilation.prefix)],
                folder / optimise,
                include=(folder,),
                flags=WARNINGS_AS_ERRORS,
            )
        return found[model, optimise]

    return build
