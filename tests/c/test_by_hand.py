"""The C of programs written by hand: loops, row tables, streamed inputs, two memories."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_programs import cxx_command
from test_warnings import Kind, compiler_named

from by_hand import PREFIX, compilation_of, machine_tensors
from c_main import run_main
from cascades import CASCADES, EVERY_PROGRAM
from lowered import inputs_of_graph
from penstock import execution
from penstock.codegen import observer
from penstock.codegen.c_program import c_sources
from penstock.ir.tensor import Array
from penstock.program.constants import weight_bytes
from penstock.simulators.graph import run_graph
from penstock.toolchains.command import Command
from penstock.toolchains.compiler import WARNINGS_AS_ERRORS, compile_objects
from penstock.toolchains.host import host_compiler, link_executable, run_executable
from programs import Example

every_program = pytest.mark.parametrize("example", EVERY_PROGRAM, ids=lambda e: e.name)
SETS = (3, 4)
"""Seeds of the sets of inputs."""


def example_named(name: str) -> Example:
    return next(e for e in EVERY_PROGRAM if e.name == name)


def sets_of(example: Example) -> list[dict[str, Array]]:
    return [inputs_of_graph(example.graph, seed) for seed in SETS]


def unpack(example: Example, folder: Path) -> Path:
    """The bundle and what watches it, in a folder."""
    done = compilation_of(example)
    watching = observer.generate_observer(done.program, PREFIX)
    for name, content in done.bundle.with_files(*watching).files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def assert_equal(found: dict[str, Array], expected: dict[str, Array]) -> None:
    assert found.keys() == expected.keys()
    for name, elements in expected.items():
        np.testing.assert_array_equal(found[name], elements, name)


@every_program
def test_the_host_agrees_with_the_reference_machine(example: Example) -> None:
    sets = sets_of(example)
    run = execution.run_on_host(compilation_of(example), sets)
    for found, inputs in zip(run.tensors, sets, strict=True):
        assert_equal(found, machine_tensors(example, inputs))


@every_program
def test_the_core_agrees_with_the_reference_machine(example: Example) -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    first, second = sets_of(example)
    outputs = {value.name for value in example.graph.outputs}
    with execution.firmware(compilation_of(example)) as chip:
        expected = machine_tensors(example, second)
        chip.run(first)
        run = chip.run(second)
        assert_equal(run.tensors, {name: expected[name] for name in outputs})
        assert_equal(chip.trace(second), expected)
        assert sum(step.instructions for step in run.steps) <= run.counts.instructions
        assert all(step.instructions > 0 for step in run.steps)
        ram = sum(memory.size_bytes for memory in example.program.ram())
        assert (chip.sections.data, chip.sections.bss) == (0, ram)
        assert chip.sections.weights == weight_bytes(example.program)


@pytest.mark.parametrize("kind", ["gcc", pytest.param("clang", marks=pytest.mark.long)])
@every_program
def test_it_compiles_without_a_warning(example: Example, kind: Kind, tmp_path: Path) -> None:
    compiler, folder = compiler_named(kind), unpack(example, tmp_path)
    names = (*c_sources(PREFIX), "main.c", observer.SOURCE, observer.HARNESS)
    sources = [folder / name for name in names]
    macro = observer.TRACED.removeprefix("-D").partition("=")[0]
    traced = [source for source in sources if macro in source.read_text()]
    assert len(traced) >= 2  # the model and its observer
    for files, flags in ((sources, ()), (traced, (observer.TRACED,))):
        flags = (*WARNINGS_AS_ERRORS, *flags)
        compile_objects(compiler, files, folder / kind, include=(folder,), flags=flags)


@pytest.mark.parametrize(
    "name", ["row tables", "three deep, streamed, two memories", "two streams"]
)
def test_the_bundles_example_prints_the_answer_to_zeros(name: str, tmp_path: Path) -> None:
    example = example_named(name)
    folder = unpack(example, tmp_path)
    sources = [folder / source for source in (*c_sources(PREFIX), "main.c")]
    objects = compile_objects(host_compiler(), sources, folder / "out", include=(folder,))
    printed = run_executable(link_executable(host_compiler(), objects, folder / "example"))
    inputs = example.graph.inputs
    zeros = {v.name: np.full(v.type.shape, v.type.zero_point, np.int8) for v in inputs}
    answer = run_graph(example.graph, zeros)[example.graph.outputs[0].name]
    assert [int(word) for word in printed.split()] == answer.ravel().tolist()


@pytest.mark.parametrize("name", ["three deep, streamed, two memories", "pulls, 5 rows"])
def test_a_cxx_compiler_takes_the_header(name: str, tmp_path: Path) -> None:
    folder = unpack(example_named(name), tmp_path)
    source = tmp_path / "caller.cpp"
    source.write_text(f'#include "{PREFIX}.h"\nvoid *f() {{ return (void *){PREFIX}_run; }}\n')
    flags = ("-std=c++11", "-Wall", "-Wextra", "-Werror", f"-I{folder}")
    Command((*cxx_command(), *flags, "-fsyntax-only", str(source)), source.name).run()


def test_a_callback_that_fails_ends_the_run(tmp_path: Path) -> None:
    """From within loops, with one code, and without another call; and there must be a callback."""
    main = """
#include "by_hand.h"

static int asked;

static int give(void *context, int32_t row, int8_t *bytes) {
    memset(bytes, 1, BY_HAND_PULL_ROW_BYTES);
    return asked++ == row && row < *(const int *)context ? 0 : -7;
}

int main(void) {
    for (int good = 0; good <= BY_HAND_PULL_ROWS; good++) {
        asked = 0;
        const int code = by_hand_run(by_hand_arena, by_hand_near_arena, give, &good);
        const int all = good == BY_HAND_PULL_ROWS;
        printf("%d", code == (all ? BY_HAND_OK : BY_HAND_PULL_FAILED) && asked == good + !all);
    }
    printf("%d", by_hand_run(by_hand_arena, by_hand_near_arena, NULL, NULL) == BY_HAND_NO_PULL);
    printf("%d", by_hand_run(by_hand_arena, NULL, give, NULL) == BY_HAND_NO_ARENA);
    printf("%d", by_hand_run(by_hand_arena, by_hand_near_arena + 1, give, NULL) ==
                     BY_HAND_ARENA_MISALIGNED);
    return 0;
}
"""
    example = example_named("three deep, streamed, two memories")
    folder = unpack(example, tmp_path / "bundle")
    rows = example.graph.inputs[0].type.shape[1]
    assert run_main(main, [(folder, PREFIX)], tmp_path) == b"1" * (rows + 1 + 3)


@pytest.mark.parametrize("example", CASCADES, ids=lambda e: e.name)
def test_a_step_keeps_its_number_in_every_loop(example: Example) -> None:
    text = compilation_of(example).bundle[f"{PREFIX}.c"].decode()
    assert text.count("PENSTOCK_STEP void") == len(example.graph.nodes)
