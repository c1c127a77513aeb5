"""Programs for simulated cores, built once a session."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.simulators.cortex_m import Simulator
from penstock.toolchains.compiler import compile_objects
from penstock.toolchains.cortex_m import link_firmware, zig_cortex_m

ZIG_FLAGS = {
    "cortex-m0plus": ("-target", "thumb-freestanding-eabi", "-mcpu=cortex_m0plus"),
    "cortex-m4": ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp"),
}
Build = Callable[..., Path]
Load = Callable[..., Simulator]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """`build(text, core, *names)`: the path of a program that holds those functions."""
    for module in ("ziglang", "unicorn", "capstone", "elftools"):
        pytest.importorskip(module)
    programs: dict[str, Path] = {}

    def build_once(text: str, core: str, *names: str) -> Path:
        key = hashlib.sha256("\0".join((text, core, *names)).encode()).hexdigest()
        if key not in programs:
            folder = tmp_path_factory.mktemp("program")
            source = folder / "program.c"
            source.write_text(text)
            compiler = zig_cortex_m(ZIG_FLAGS[core])
            objects = compile_objects(compiler, [source], folder)
            programs[key] = link_firmware(compiler, objects, folder / "program.elf", keep=names)
        return programs[key]

    return build_once


@pytest.fixture
def load(build: Build) -> Load:
    """`load(text, core, *names)`: a simulator with a program that holds those functions."""
    return lambda text, core, *names: Simulator(build(text, core, *names), core)


@pytest.fixture
def runtime() -> None:
    """Skips where the reference is not installed."""
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
