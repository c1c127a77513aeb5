"""The bundle as delivered: its own files, built by its CMake project or manually."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from available import COMMITTED, compiled, path_of
from penstock import api, execution
from penstock.codegen.bundle import Bundle
from penstock.scheduling.options import Options
from penstock.toolchains.command import Command
from penstock.toolchains.compiler import Compiler, Optimise, compile_objects, zig_command
from penstock.toolchains.cortex_m import GCC

LIMITED = Options(max_region_work=20_000)
"""A search for memory regions that takes seconds."""
KINDS = ("digits", "real_tails", "svdf")
"""Networks with constants of every element type, with copied ones, and with state."""
in_two_regions = pytest.mark.parametrize(
    ("model", "options"),
    [
        *(pytest.param(name, LIMITED, id=name) for name in KINDS),
        *(
            pytest.param(name, Options(), marks=pytest.mark.long, id=f"{name}-full")
            for name in COMMITTED
        ),
    ],
)
DECLARED = re.compile(r"^(.*\bextern\b.*);$", re.MULTILINE)
"""Objects that a header declares."""


def cmake_objects(folder: Path, built: Path, cpu_flags: tuple[str, ...]) -> tuple[Path, ...]:
    """The objects of the bundle in `folder`, cross-compiled by its CMake project as it stands."""
    words = ("cmake", "-S", str(folder), "-B", str(built), "-DCMAKE_SYSTEM_NAME=Generic")
    words += (f"-DCMAKE_C_COMPILER={GCC}", f"-DCMAKE_C_FLAGS={' '.join(cpu_flags)}")
    words += ("-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY",)
    (prefix,) = (path.stem for path in folder.glob("*.h") if not path.stem.endswith("_weights"))
    Command(words, "cmake").run()
    Command(("cmake", "--build", str(built), "--target", prefix), "cmake --build").run()
    objects = built / "CMakeFiles" / f"{prefix}.dir"
    return tuple(objects / f"{prefix}{part}.c.obj" for part in ("", "_weights", "_arena"))


@pytest.mark.parametrize(
    ("target", "optimise"),
    [("cortex-m0plus", "size"), ("cortex-m4", "speed"), ("cortex-m33", "size")],
)
def test_stack_and_counts_reported_are_those_of_the_delivered_project(
    target: str, optimise: Optimise, tmp_path: Path
) -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    if shutil.which(GCC) is None or shutil.which("cmake") is None:
        pytest.skip(f"there is no {GCC} here, or no cmake")
    wanted = api.request(path_of("strided_residual"), target, optimize=optimise)
    ran = api.run(wanted, compiler="gcc")
    done = ran.compiled.compilation
    ran.compiled.write(tmp_path / "bundle")
    library = cmake_objects(tmp_path / "bundle", tmp_path / "built", wanted.target.compiler.gcc)
    with execution.firmware(done, "gcc", library) as chip:
        delivered = chip.run(api.drawn_sets(done, 1)[0])
        sections = chip.sections
    assert delivered.stack_bytes == ran.report.stack_bytes_measured
    assert delivered.counts.instructions == ran.report.instructions.simulated
    assert delivered.counts.cycles == ran.report.cycles.simulated
    assert sections.code == ran.report.flash_bytes.code
    ram = ran.report.ram_bytes
    assert sections.data + sections.bss == ram.total - ram.stack


def test_every_step_is_a_function_of_the_delivered_code_for_every_compiler(tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    for kind in ("zig", "gcc") if shutil.which(GCC) else ("zig",):
        done = api.compile(path_of("padded_branches"), "cortex-m4").compilation
        with execution.firmware(done, kind) as chip:
            names = {name for name, _ in chip.functions}
        steps = {n for n in names if re.match(r"padded_branches_step_\d\d_", n)}
        assert len(steps) == done.bundle["padded_branches.c"].count(b"PENSTOCK_STEP void")


@pytest.mark.parametrize("target", ["host", "cortex-m4"])
@pytest.mark.parametrize("model", KINDS)
def test_headers_declare_the_alignment_of_every_object(model: str, target: str) -> None:
    assert_aligned(compiled(model, target).compilation.bundle)


@in_two_regions
def test_headers_declare_the_alignment_of_objects_in_two_regions(
    model: str, options: Options
) -> None:
    assert_aligned(compiled(model, "two-region", options).compilation.bundle)


def assert_aligned(bundle: Bundle) -> None:
    """Headers declare objects with the alignment of their definitions."""
    texts = {name: content.decode() for name, content in bundle.files}
    headers = [text for name, text in texts.items() if name.endswith(".h")]
    sources = "".join(text for name, text in texts.items() if name.endswith(".c"))
    declared = [line for text in headers for line in DECLARED.findall(text)]
    assert len(declared) >= 2  # an arena and constants
    for line in declared:
        assert "_Alignas(" in line or "_ALIGNED" in line, line
        definition = line.replace("extern ", "")
        assert re.search(rf"^{re.escape(definition)}( =|;)", sources, re.MULTILINE), line


LEVELS = ("-O0", "-O1", "-O3")
PADDING = "_Alignas(64) const char penstock_padding[4] = {1};\n"
"""Constants that follow it lie at 4 modulo 64: aligned as declared, and no better."""


@in_two_regions
def test_clang_assumes_no_more_alignment_than_constants_have(
    model: str, options: Options, tmp_path: Path
) -> None:
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    delivered = compiled(model, "two-region", options)
    done, folder = delivered.compilation, tmp_path / "bundle"
    delivered.write(folder)
    (folder / "padding.c").write_text(PADDING)
    sets = api.drawn_sets(done, 2)
    names = ("padding.c", *execution.library_sources(done))
    expected = execution.run_on_host(done, sets).tensors
    for level in LEVELS:
        flags = ("-std=c11", level, "-fno-sanitize=undefined", "-mcpu=baseline")
        compiler = Compiler("zig", zig_command(), flags)
        library = compile_objects(
            compiler, [folder / name for name in names], tmp_path / level, include=(folder,)
        )
        found = execution.outputs_on_host(done, sets, compiler, library)
        for mine, theirs in zip(found, expected, strict=True):
            assert all((mine[name] == theirs[name]).all() for name in mine), level
