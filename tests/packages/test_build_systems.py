"""Packages are built, run and compared with the reference machine: with the real tools where
registries have them, and with stand-ins for the parts that no registry has (stubs/README.md).

docs/decisions/0017-packages.md states which is which."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from build_tools import need, need_module
from deliveries import Delivered, model_delivery, program_delivery

from penstock.toolchains.cortex_m import GCC

STUBS = Path(__file__).parent / "stubs"
CXX_FLAGS = "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Werror"
STREAMED = "three deep, streamed, two memories"


def run(*words: object, folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """What a command prints; fails with its messages."""
    without_jobs = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={**without_jobs, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def cmake(source: Path, build: Path, *words: object, environment: Mapping[str, str]) -> None:
    """Builds a CMake project.  Compilers are not tried, since other tests do."""
    tried = ("-DCMAKE_C_COMPILER_WORKS=1", "-DCMAKE_CXX_COMPILER_WORKS=1")
    run("cmake", "-S", source, "-B", build, *tried, *words, folder=source, environment=environment)
    run("cmake", "--build", build, folder=source)


@pytest.fixture(scope="module")
def two_heads() -> Delivered:
    return model_delivery("two_heads")


def test_make_builds_for_this_machine_and_for_the_target(
    two_heads: Delivered, tmp_path: Path
) -> None:
    need("make", "gcc", "g++")
    folder = two_heads.unpack("make", tmp_path / "package")
    run("make", "all", "cxx", "CFLAGS=-O1 -Werror", f"CXXFLAGS={CXX_FLAGS}", folder=folder)
    for program in ("two_heads_example", "two_heads_example_cpp"):
        assert two_heads.agrees(run(folder / "build" / program, folder=folder))
    if shutil.which(GCC):
        run("make", "CROSS_COMPILE=arm-none-eabi-", "BUILD=arm", folder=folder)
        elf = (folder / "arm" / "two_heads_example").read_bytes()
        assert elf[18:20] == b"\x28\x00"  # e_machine: EM_ARM


def test_cmake_builds_the_examples_in_c_and_cxx(two_heads: Delivered, tmp_path: Path) -> None:
    need("cmake", "make", "g++")
    folder = two_heads.unpack("cmake", tmp_path / "package")
    cmake(folder, tmp_path / "host", "-DTWO_HEADS_CXX_EXAMPLE=ON", environment={})
    for program in ("two_heads_example", "two_heads_example_cpp"):
        assert two_heads.agrees(run(tmp_path / "host" / program, folder=folder))


def test_the_toolchain_file_selects_the_core_of_the_target(
    two_heads: Delivered, tmp_path: Path
) -> None:
    need("cmake", "make", GCC, "arm-none-eabi-readelf")
    folder = two_heads.unpack("cmake", tmp_path / "package")
    cmake(folder, tmp_path, "-DCMAKE_TOOLCHAIN_FILE=toolchain.cmake", environment={})
    facts = run("arm-none-eabi-readelf", "-A", tmp_path / "two_heads_example", folder=folder)
    assert 'Tag_CPU_name: "7E-M"' in facts
    assert "Tag_ABI_VFP_args: VFP registers" in facts


def test_zephyr_builds_the_sample_as_its_options_say(two_heads: Delivered, tmp_path: Path) -> None:
    need("cmake", "make")
    need_module("kconfiglib")
    import kconfiglib  # pyright: ignore[reportMissingTypeStubs]

    folder = two_heads.unpack("zephyr", tmp_path / "package")
    sample = folder / "samples" / "two_heads"
    options = kconfiglib.Kconfig(str(folder / "Kconfig"), warn_to_stderr=False)
    assert {s.str_value for s in options.unique_defined_syms} == {"n"}
    options.load_config(str(sample / "prj.conf"))
    own = ("PRINTK", "MAIN_STACK_SIZE")  # options of Zephyr itself
    assert [w for w in options.warnings if not any(name in w for name in own)] == []
    chosen = [f"-DCONFIG_{s.name}={s.str_value}" for s in options.unique_defined_syms]
    assert {text.rpartition("=")[2] for text in chosen} == {"y"}
    cmake(sample, tmp_path, *chosen, environment={"Zephyr_DIR": str(STUBS / "zephyr" / "cmake")})
    *lines, last = run(tmp_path / "app", folder=tmp_path).splitlines()
    assert two_heads.agrees("\n".join(lines))
    assert re.search(r'^ +- "(.*)"$', (sample / "sample.yaml").read_text(), re.M)[1] == last  # pyright: ignore


def test_esp_idf_builds_the_example_with_the_component(
    two_heads: Delivered, tmp_path: Path
) -> None:
    need("cmake", "make")
    need_module("idf_component_tools")
    from idf_component_tools.manager import ManifestManager

    folder = two_heads.unpack("esp-idf", tmp_path / "package")
    example = folder / "examples" / "two_heads"
    component = ManifestManager(str(folder), "penstock_two_heads").load()
    assert (str(component.version), component.dependencies) == ("1.0.0", {"idf": ">=5.0"})
    environment = {"IDF_PATH": str(STUBS / "esp_idf")}
    cmake(example, tmp_path / "build", environment=environment)
    assert two_heads.agrees(run(tmp_path / "build" / "two_heads_example", folder=tmp_path))


def test_arduino_s_builder_finds_the_library_and_builds_the_sketch(
    two_heads: Delivered, tmp_path: Path
) -> None:
    need("arduino-builder", "gcc", "g++")
    folder = two_heads.unpack("arduino", tmp_path / "libraries" / "two_heads")
    (tmp_path / "tools").mkdir()
    (tmp_path / "build").mkdir()
    run(
        "arduino-builder", "-compile", "-hardware", STUBS / "arduino", "-tools", tmp_path / "tools",
        "-libraries", folder.parent, "-fqbn", "penstock:host:host", "-build-path",
        tmp_path / "build", folder / "examples" / "two_heads_example" / "two_heads_example.ino",
        folder=tmp_path,
    )  # fmt: skip
    program = tmp_path / "build" / "two_heads_example.ino.elf"
    assert two_heads.agrees(run(program, folder=tmp_path))


def test_platformio_builds_the_example_project(two_heads: Delivered, tmp_path: Path) -> None:
    """PlatformIO downloads its platforms and SCons from a registry of its own.  Here, SCons is that
    of PyPI, and the platform `native` a stand-in."""
    need("gcc")
    need_module("platformio")
    need_module("SCons")
    import SCons
    from platformio.dependencies import get_core_dependencies  # pyright: ignore

    folder = two_heads.unpack("platformio", tmp_path / "two_heads")
    version = get_core_dependencies()["tool-scons"].lstrip("~")
    scons = tmp_path / "core" / "packages" / "tool-scons"
    scons.mkdir(parents=True)
    (scons / "SCons").symlink_to(Path(str(SCons.__file__)).parent)
    (scons / "scons.py").write_text("from SCons.Script.Main import main\n\nmain()\n")
    (scons / "package.json").write_text(f'{{"name": "tool-scons", "version": "{version}"}}')
    (scons / ".piopm").write_text(
        f'{{"type": "tool", "name": "tool-scons", "version": "{version}",'
        ' "spec": {"owner": "platformio", "name": "tool-scons"}}'
    )
    example = folder / "examples" / "two_heads"
    settings = example / "platformio.ini"
    platform = f"platform = symlink://{STUBS / 'platformio'}"
    flags = "build_flags = -Os -Wall -Wextra -Werror"
    text = settings.read_text().replace("platform = native", f"{platform}\n{flags}")
    settings.write_text(text)
    environment = {
        "PLATFORMIO_CORE_DIR": str(tmp_path / "core"),
        "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
    }
    words = (sys.executable, "-m", "platformio", "run", "--verbose")
    lines = run(*words, folder=example, environment=environment).splitlines()
    (line,) = (line for line in lines if "two_heads.c" in line and " -c " in line)
    assert re.findall(r"-O\w+", line) == ["-O3"]
    program = example / ".pio" / "build" / "native" / "program"
    assert two_heads.agrees(run(program, folder=tmp_path))


def test_the_files_of_a_cmsis_pack_s_archive_are_a_library(
    two_heads: Delivered, tmp_path: Path
) -> None:
    """The sources that the pack description lists, the template `main.c` included."""
    need("gcc")
    folder = two_heads.unpack("cmsis-pack", tmp_path / "package")
    archive = zipfile.ZipFile(folder / "penstock.two_heads.1.0.0.pack")
    archive.extractall(tmp_path / "pack")
    root = ElementTree.fromstring(archive.read("penstock.two_heads.pdsc"))
    files = {file.attrib["name"]: file.attrib["category"] for file in root.iter("file")}
    sources = [name for name, category in files.items() if category == "source"]
    headers = [Path(name).parent for name, category in files.items() if category == "header"]
    words = ("-std=c11", "-Wall", "-Wextra", "-Werror", *(f"-I{header}" for header in headers))
    run("gcc", *words, *sources, "-o", "program", folder=tmp_path / "pack")
    assert two_heads.agrees(run(tmp_path / "pack" / "program", folder=tmp_path))


@pytest.mark.parametrize("format", ["arduino", "cmsis-pack", "esp-idf", "platformio", "zephyr"])
def test_libraries_compile_for_the_core_of_the_target(
    two_heads: Delivered, format: str, tmp_path: Path
) -> None:
    need(GCC)
    folder = two_heads.unpack(format, tmp_path / "package")
    flags = (*two_heads.delivery.cpu_flags, "-std=c11", "-Wall", "-Wextra", "-Werror", "-Iinclude")
    sources = sorted((folder / "src").glob("*.c"))
    assert len(sources) == 3
    run(GCC, *flags, "-fsyntax-only", *sources, folder=folder)


@pytest.mark.parametrize("name", ["two_heads", "streaming", STREAMED])
def test_cargo_builds_the_crate_and_runs_its_example(name: str, tmp_path: Path) -> None:
    need("cargo", "cc", "ar")
    given = program_delivery(name) if name == STREAMED else model_delivery(name)
    folder = given.unpack("rust", tmp_path / "package")
    environment = {"RUSTFLAGS": "-Dwarnings", "CARGO_TARGET_DIR": str(tmp_path / "target")}
    words = ("cargo", "run", "--quiet", "--offline", "--example", "run")
    assert given.agrees(run(*words, folder=folder, environment=environment))


def flags_of(format: str) -> Sequence[str]:
    """Flags with which the example and the library of a package compile without the tool."""
    warnings = ("-Wall", "-Wextra", "-Werror")
    match format:
        case "zephyr":
            return (*warnings, f"-I{STUBS / 'zephyr' / 'include'}")
        case "arduino":
            return (*warnings, f"-I{STUBS / 'arduino/penstock/host/cores/host'}", "-Isrc")
        case _:
            return warnings


@pytest.mark.parametrize("settings", [{"io": "model"}, {"stream_input": True}], ids=str)
@pytest.mark.parametrize("model", ["real_tails", "streaming"])
def test_every_example_prints_the_outputs_of_every_interface(
    model: str, settings: Mapping[str, object], tmp_path: Path
) -> None:
    """Real numbers, state, inputs streamed by rows: sketches and mains as the host compiles
    them."""
    need("gcc", "g++")
    given = model_delivery(model, **settings)
    expected = [[float(f"{x:g}") for x in line] for line in given.printed]
    for format in ("arduino", "esp-idf", "zephyr"):
        folder = given.unpack(format, tmp_path / format)
        (example,) = (p for p in folder.rglob("*") if p.name.endswith((".ino", "main.c")))
        sources = sorted((folder / "src").glob("*.c"))
        objects = [tmp_path / f"{format}_{source.stem}.o" for source in sources]
        for source, made in zip(sources, objects, strict=True):
            words = ("-O0", "-std=c11", "-Iinclude", "-c", source, "-o", made)
            run("gcc", *words, folder=folder)
        extra: tuple[object, ...] = ()
        if format == "arduino":
            core = STUBS / "arduino/penstock/host/cores/host/main.cpp"
            extra = ("-include", "Arduino.h", "-x", "c++", core)
        elif format == "esp-idf":
            extra = (STUBS / "esp_idf" / "start.c",)
        program = tmp_path / f"{format}_program"
        compiler = "g++" if format == "arduino" else "gcc"
        words = (*flags_of(format), "-Iinclude", *extra, example, "-x", "none", *objects)
        run(compiler, *words, "-o", program, folder=folder)
        lines = run(program, folder=folder).splitlines()
        found = [[float(word) for word in line.split()] for line in lines if "done" not in line]
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert one == pytest.approx(other, abs=1e-6, rel=1e-5)
