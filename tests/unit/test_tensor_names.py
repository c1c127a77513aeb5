"""Names of tensors are labels: no name in a model file changes what is compiled from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from available import path_of
from offloading import compiled
from penstock import api
from penstock.codegen.c_program import arrays
from penstock.codegen.names import Names
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.pipeline.compilation import Compilation, compile_request
from penstock.pipeline.emission import lower_point
from penstock.program.program import Program
from penstock.program.steps import steps
from penstock.simulators.machine import Machine
from tools.tflite_rewriting import renamed, tensor_names

DERIVED = (
    "packed", "image", "padded", "whole", "row", "running", "before_reshape", "scratch",
    "prefetched", "no_bias", "operand0", "operand1", "input0", "input1", "sram", "flash", "ram",
    "constant1",
)  # fmt: skip
"""Labels by which the compiler derives names from names of tensors, behind a slash."""


def derived(names: Sequence[str]) -> list[str]:
    """Each tensor called as something derived from another one would be."""
    stems = ["y", *names]
    return [f"{stems[k]}/{DERIVED[k % len(DERIVED)]}" for k in range(len(names))]


def chained(label: str) -> Callable[[Sequence[str]], list[str]]:
    """Each tensor called as the one before, and a suffix behind it."""
    return lambda names: [f"y{label * k}" for k in range(len(names))]


def mixed(names: Sequence[str]) -> list[str]:
    """Separators, keywords, and what comments, strings and terminals may end with."""
    pool = (
        "", "int", "*/", '"', "\\", "??/", "x;row 0", "x;row 1", "a\nb", "\x1b[31m", "é漢字🙂",
        "y[0:1]", "y[0:2]", "y[0:1][0:1]", "y: constants", "y: commands 0", "w: commands 1",
        "y#2", "y#2#3", ";", ":", "/", "arena", "input", "output", "scratch", "main", " ", "\u202e",
        "//", "%s", "{0}", "<b>", "$(id)", "../x", "at_once", "y" * 3000,
    )  # fmt: skip
    return [pool[k % len(pool)] for k in range(len(names))]


NAMINGS: dict[str, Callable[[Sequence[str]], list[str]]] = {
    "one for all": lambda names: ["y"] * len(names),
    "derived": derived,
    "mixed": mixed,
    "blocks": lambda names: [f"y[{k}:{k + 1}]" for k in range(len(names))],
    **{label: chained(label) for label in ("/packed", "/scratch", "#2", ": constants")},
}
MODELS = ("arithmetic", "digits", "padded_branches", "two_heads")
RUNS: dict[str, tuple[str, ...]] = {
    "cortex-m4": (),
    "host": ("ethos_u55",),
    "cortex-m7": ("nvdla:config=small",),
}
"""Accelerators by target."""
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
TOKEN = re.compile(r"[A-Za-z_]\w*|\d\w*|\S")
CASES = [
    (MODELS[(n + t) % len(MODELS)], naming, target)
    for n, naming in enumerate(NAMINGS)
    for t, target in enumerate(RUNS)
]
"""Every naming on every target, and every model on every target."""


def outputs(done: Compilation, program: Program) -> list[np.ndarray]:
    """Outputs of a modelled run for drawn inputs, in their order."""
    random = np.random.default_rng(5)
    inputs = {
        v.name: random.integers(-128, 128, v.type.shape).astype(v.type.dtype.value)
        for v in done.model.inputs
    }
    found = Machine(program).run(inputs)
    return [found[v.name] for v in done.model.outputs]


def least(done: Compilation) -> Program:
    """The program of the point of least memory: cascades, with rows as blocks of their own."""
    return lower_point(done.points[0], done.request.accelerators)


def assert_alike(found: Compilation, expected: Compilation) -> None:
    assert code(found) == code(expected)
    programs = ((found.program, expected.program), (least(found), least(expected)))
    for mine, theirs in programs:
        assert buffers(mine) == buffers(theirs)
        for array, other in zip(outputs(found, mine), outputs(expected, theirs), strict=True):
            np.testing.assert_array_equal(array, other)


def buffers(program: Program) -> list[object]:
    """Memories and buffers of a program, without names."""
    found = [(b.kind, b.memory, b.address, b.size_bytes, b.data) for b in program.buffers]
    return [program.memories, *found]


def code(done: Compilation) -> list[str]:
    """The model's C as tokens, its identifiers numbered in order of appearance."""
    text, numbers = COMMENT.sub("", done.bundle[f"{done.prefix}.c"].decode()), dict[str, str]()
    return [
        numbers.setdefault(token, f"name{len(numbers)}") if token[0].isidentifier() else token
        for token in TOKEN.findall(text)
    ]


@cache
def intact(model: str, target: str) -> Compilation:
    return api.compile(path_of(model), target, accelerators=RUNS[target]).compilation


@pytest.mark.parametrize(("model", "naming", "target"), CASES)
def test_names_in_a_file_change_nothing(
    model: str, naming: str, target: str, tmp_path: Path
) -> None:
    raw = Path(path_of(model)).read_bytes()
    path = tmp_path / f"{model}.tflite"
    path.write_bytes(renamed(raw, NAMINGS[naming](tensor_names(raw))))
    done = api.compile(str(path), target, accelerators=RUNS[target]).compilation
    assert_alike(done, intact(model, target))


def small(suffix: str) -> Graph:
    """A pool that Ethos-U and NVDLA take, between layers that they take as well."""
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 8, 8, 16)), 32, 3, name=f"x{suffix}")
    pool = net.max_pool2d(x, 2, name=f"y{suffix}")
    return net.build(net.conv2d(pool, 16, 1, name=f"z{suffix}"))


@pytest.mark.parametrize("accelerator", ["ethos_u55", "nvdla:config=small"])
@pytest.mark.parametrize("suffix", ["/packed", "/image", "/whole", "/padded"])
def test_the_layout_of_a_tensor_does_not_follow_from_its_name(
    accelerator: str, suffix: str
) -> None:
    assert_alike(compiled(small(suffix), accelerator), compiled(small(""), accelerator))


def test_a_max_pool_called_packed_is_not_stored_in_blocks() -> None:
    """The pool is the network's output, which the caller reads row by row."""

    def pool(name: str) -> Compilation:
        net = GraphBuilder("net")
        graph = net.build(net.max_pool2d(net.input((1, 8, 8, 3)), 2, name=name))
        return compiled(graph, "ethos_u55")

    assert_alike(pool("y/packed"), pool("y"))


def test_the_function_of_a_step_is_not_called_like_one_of_its_tables(tmp_path: Path) -> None:
    done = intact("digits", "cortex-m4")
    raw = Path(path_of("digits")).read_bytes()
    known = tensor_names(raw)
    tables = [
        (step.output.tensor, table)
        for step in steps(done.program)
        for table, _ in step.kernel.tables
        if step.output.tensor in known
    ]
    assert tables
    for tensor, table in tables[::3]:
        path = tmp_path / "digits.tflite"
        path.write_bytes(renamed(raw, [table if name == tensor else name for name in known]))
        found = compile_request(api.request(str(path), "cortex-m4"))
        names = Names.of(found.program, found.prefix)
        symbols = [array.symbol for array in arrays(found.program, names)]
        assert not {*names.steps.values()} & {*symbols}
        assert_alike(found, done)
