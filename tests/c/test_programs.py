"""Generated code as part of other programs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from available import COMMITTED, compiled
from c_main import run_main
from penstock import api
from penstock.ir.tensor import Array, TensorType
from penstock.simulators.graph import run_graph
from penstock.toolchains.command import Command
from penstock.toolchains.compiler import zig_command
from penstock.toolchains.elf_file import undefined_symbols

Unpack = Callable[[str], Path]
FIRST, SECOND = "strided_residual", "padded_branches"


def sets_of(model: str) -> tuple[Mapping[str, Array], ...]:
    """Two sets of inputs."""
    return api.drawn_sets(compiled(model).compilation, 2)


def input_of(model: str, number: int) -> bytes:
    (only,) = sets_of(model)[number].values()
    return only.tobytes()


def answer_of(model: str, number: int) -> bytes:
    """The only output, by the operators' arithmetic."""
    graph = compiled(model).compilation.model
    return run_graph(graph, sets_of(model)[number])[graph.outputs[0].name].tobytes()


def real_zeros(type: TensorType) -> Array:
    """An input all of whose elements mean 0.0, as the example program fills it."""
    return np.full(type.shape, type.zero_point, type.dtype.value)


def test_two_models_share_one_arena_in_one_program(bundle_of: Unpack, tmp_path: Path) -> None:
    main = """
#include "padded_branches.h"
#include "strided_residual.h"

enum { A = STRIDED_RESIDUAL_ARENA_BYTES, B = PADDED_BRANCHES_ARENA_BYTES };
static _Alignas(16) uint8_t arena[A > B ? A : B];

int main(void) {
    for (int turn = 0; turn < 2; turn++) {
        get(strided_residual_input(arena), STRIDED_RESIDUAL_INPUT_BYTES);
        if (strided_residual_run(arena) != STRIDED_RESIDUAL_OK) {
            return 1;
        }
        put(strided_residual_output(arena), STRIDED_RESIDUAL_OUTPUT_BYTES);
        get(padded_branches_input(arena), PADDED_BRANCHES_INPUT_BYTES);
        if (padded_branches_run(arena) != PADDED_BRANCHES_OK) {
            return 2;
        }
        put(padded_branches_output(arena), PADDED_BRANCHES_OUTPUT_BYTES);
    }
    return 0;
}
"""
    turns = [(model, number) for number in range(2) for model in (FIRST, SECOND)]
    bundles = [(bundle_of(model), model) for model in (FIRST, SECOND)]
    found = run_main(main, bundles, tmp_path, b"".join(input_of(*turn) for turn in turns))
    assert found == b"".join(answer_of(*turn) for turn in turns)


def test_runs_in_two_arenas_do_not_disturb_each_other(bundle_of: Unpack, tmp_path: Path) -> None:
    main = """
#include "strided_residual.h"

static _Alignas(16) uint8_t arenas[2][(STRIDED_RESIDUAL_ARENA_BYTES + 15) / 16 * 16];

int main(void) {
    for (int k = 0; k < 2; k++) {
        get(strided_residual_input(arenas[k]), STRIDED_RESIDUAL_INPUT_BYTES);
    }
    for (int k = 0; k < 2; k++) {
        if (strided_residual_run(arenas[k]) != STRIDED_RESIDUAL_OK) {
            return 1;
        }
    }
    for (int k = 0; k < 2; k++) {
        put(strided_residual_output(arenas[k]), STRIDED_RESIDUAL_OUTPUT_BYTES);
    }
    return 0;
}
"""
    stdin = input_of(FIRST, 0) + input_of(FIRST, 1)
    found = run_main(main, [(bundle_of(FIRST), FIRST)], tmp_path, stdin)
    assert found == answer_of(FIRST, 0) + answer_of(FIRST, 1)
    assert answer_of(FIRST, 0) != answer_of(FIRST, 1)


def test_no_arena_and_a_misaligned_one_give_return_codes_and_write_nothing(
    bundle_of: Unpack, tmp_path: Path
) -> None:
    main = """
#include "strided_residual.h"

static _Alignas(16) uint8_t arena[STRIDED_RESIDUAL_ARENA_BYTES + 16];
static uint8_t before[sizeof arena];

int main(void) {
    memset(arena, 0x5a, sizeof arena);
    memcpy(before, arena, sizeof arena);
    printf("%d", strided_residual_run(NULL) == STRIDED_RESIDUAL_NO_ARENA);
    for (int offset = 1; offset < STRIDED_RESIDUAL_ARENA_ALIGNMENT; offset++) {
        printf("%d", strided_residual_run(arena + offset) == STRIDED_RESIDUAL_ARENA_MISALIGNED);
    }
    printf("%d", memcmp(before, arena, sizeof arena) == 0);
    printf("%d", strided_residual_run(arena) == STRIDED_RESIDUAL_OK);
    printf("%d", memcmp(before, arena, sizeof arena) != 0);
    return 0;
}
"""
    found = run_main(main, [(bundle_of(FIRST), FIRST)], tmp_path)
    assert found == b"1" * (1 + 15 + 3)


@pytest.mark.parametrize("model", COMMITTED)
def test_a_cxx_compiler_takes_the_header_and_calls_c(
    model: str, bundle_of: Unpack, tmp_path: Path
) -> None:
    prefix = compiled(model).compilation.prefix
    source, target = tmp_path / "caller.cpp", tmp_path / "caller.o"
    source.write_text(
        f'#include "{prefix}.h"\n#include "{prefix}.h"\n'
        f"int caller() {{ return {prefix}_run({prefix}_arena); }}\n"
    )
    flags = ("-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
    words = (*cxx_command(), *flags, f"-I{bundle_of(model)}", "-c", str(source), "-o", str(target))
    Command(words, source.name).run()
    assert {f"{prefix}_run", f"{prefix}_arena"} <= set(undefined_symbols(target))


def cxx_command() -> tuple[str, ...]:
    """g++ or clang++, else zig's."""
    for name in ("g++", "clang++"):
        if program := shutil.which(name):
            return (program,)
    pytest.importorskip("ziglang", reason="there is no C++ compiler here")
    return (zig_command()[0], "c++")


def test_the_cmake_project_builds_and_its_example_runs(bundle_of: Unpack, tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("there is no cmake here")
    Command(("cmake", "-S", str(bundle_of(FIRST)), "-B", str(tmp_path)), "cmake").run()
    Command(("cmake", "--build", str(tmp_path)), "cmake --build").run()
    example = tmp_path / f"{compiled(FIRST).compilation.prefix}_example"
    printed = Command((str(example),), "example").run().decode()
    graph = compiled(FIRST).compilation.model
    zeros = {v.name: real_zeros(v.type) for v in graph.inputs}
    answer = run_graph(graph, zeros)[graph.outputs[0].name]
    assert [int(word) for word in printed.split()] == answer.ravel().tolist()
