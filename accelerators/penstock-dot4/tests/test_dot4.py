"""dot4: the instruction, the kernels around it, and cascades that run them row by row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.small_tensors import Operand, bias, int8, weights
from clean_sources import COMPILERS, assert_sources_are_clean
from found import few
from offloading import assert_exact, claimed, compiled
from penstock import api
from penstock.choices import Rounding
from penstock.codegen.c_program import c_sources
from penstock.execution import unpacked
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.ir.op import Op
from penstock.ir.tensor import TensorType
from penstock.opkit.activation import Activation
from penstock.opkit.sliding import Window
from penstock.ops.convolutions import Conv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.compilation import with_point
from penstock.pipeline.graphs import simplify
from penstock.program.program import Call, Program, Rows
from penstock.program.steps import walk
from penstock.simulators.graph import run_graph
from penstock.toolchains.compiler import WARNINGS_AS_ERRORS, compile_objects
from penstock.toolchains.host import host_compiler, link_executable, run_executable
from penstock.zoo.registry import open_zoo
from penstock_dot4 import dot4
from small_networks import networks
from strategies import node_of

int32s = st.integers(-(2**31), 2**31 - 1)
bytes4 = st.tuples(*[st.integers(-128, 127)] * 4)


@pytest.mark.parametrize("kind", COMPILERS)
def test_its_sources_compile_without_a_warning(kind: str, tmp_path: Path) -> None:
    assert_sources_are_clean("dot4", kind, tmp_path)


@given(total=int32s, a=bytes4, b=bytes4)
def test_the_instruction_adds_four_products_modulo_2_to_the_32(
    total: int, a: tuple[int, ...], b: tuple[int, ...]
) -> None:
    words = (np.array([lanes], np.int8).view(np.uint32)[0] for lanes in (a, b))
    expected = total + sum(x * y for x, y in zip(a, b, strict=True))
    found = dot4(np.array([total], np.int32), *words)
    assert int(found[0]) == (expected + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize("model", ["zoo:lenet5", "zoo:tc_resnet8:frames=33"])
def test_every_rung_and_every_point_is_exact(model: str) -> None:
    """The generated code is that of the point that needs the least memory."""
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    done = compiled(open_zoo(model), "dot4", target="cortex-m4")
    kinds = {"Conv2D", "FullyConnected"}
    assert list(claimed(done.graph)) == [n.name for n in done.model.nodes if n.kind in kinds]
    assert len(done.points) > 1
    assert_exact(with_point(done, done.points[0]), "core", every_point=True)


@few
@given(graph=networks())
def test_random_networks_are_exact_at_every_point(graph: Graph) -> None:
    assert_exact(compiled(graph, "dot4"), "points")


def windows() -> Graph:
    """Convolutions of many sorts: dilated, strided, padded beyond the window, on one side."""
    value = Value("x", int8(1, 9, 7, 3))
    nodes = []
    for k, (rows, columns, activation) in enumerate(
        (
            (Window(3, 1, 1, 1, 1), Window(3, 1, 2, 2, 2), Activation.RELU),
            (Window(2, 1, 3, 4, 0), Window(3, 2, 1, 0, 3), Activation.NONE),
            (Window(2, 2, 1, 3, 5), Window(2, 1, 1, 5, 4), Activation.RELU6),
            (Window(1), Window(4, 3, 1, 6, 0), Activation.NONE),
        )
    ):
        channels = value.type.shape[3]
        kernel = weights(k + 3, rows.size, columns.size, channels, axis=0)
        op = Conv2D(rows, columns, activation)
        nodes.append(node_of(f"conv{k}", op, (value,), kernel, bias(k + 3), like=value.type))
        value = nodes[-1].output
    depth = int(np.prod(value.type.shape[1:]))
    nodes.append(node_of("dense", FullyConnected(), (value,), weights(5, depth), bias(5)))
    return Graph("windows", (Value("x", int8(1, 9, 7, 3)),), (nodes[-1].output,), tuple(nodes))


@pytest.mark.parametrize("sum_bytes", [256, 1])
def test_every_sort_of_window_is_exact(sum_bytes: int) -> None:
    done = compiled(windows(), f"dot4:sum_bytes={sum_bytes}")
    assert len(claimed(done.graph)) == 5
    assert_exact(done, "host")


def test_batches_of_a_dense_layer_are_columns() -> None:
    x = Value("x", int8(3, 7))
    node = node_of("dense", FullyConnected(Activation.RELU), (x,), weights(5, 7), bias(5))
    done = compiled(Graph("batches", (x,), (node.output,), (node,)), "dot4")
    assert list(claimed(done.graph)) == ["dense"]
    assert_exact(done, "host")


def kinds_of_rows(program: Program) -> Iterator[str]:
    """How the rows lie that the kernels read and write."""
    for call in walk(program.run):
        if isinstance(call, Call) and call.body:
            for view in (call.inputs[0], call.output):
                ring = view.rows.ring < Rows.whole(view.type).ring
                yield "table" if view.rows.table else "ring" if ring else "whole"


def test_c_kernels_address_rows_in_rings_and_tables() -> None:
    net = GraphBuilder("rings")
    y = net.conv2d(net.input((1, 24, 1, 1)), 32, (3, 1))
    y = net.conv2d(net.conv2d(y, 32, 1), 1, (3, 1))
    done = compiled(net.build(y), "dot4")
    kinds: set[str] = set()
    for point in done.points:
        other = with_point(done, point)
        kinds |= set(kinds_of_rows(other.program))
        assert_exact(other, "host")
    assert kinds == {"whole", "ring", "table"}


def test_a_cascade_takes_less_memory_for_as_many_products() -> None:
    done = compiled(open_zoo("zoo:lenet5"), "dot4")
    least, fastest = done.points[0], done.points[-1]
    assert least.height_bytes < 0.7 * fastest.height_bytes
    assert least.schedule.cost.macs == fastest.schedule.cost.macs == done.model.macs()


def test_fewer_sums_at_a_time_take_less_memory_and_more_calls() -> None:
    """28 columns of 6 channels: all of them, as many as 64 bytes hold, one."""
    found = []
    for sum_bytes, columns in ((4096, 28), (64, 2), (1, 1)):
        request = api.request("zoo:lenet5", accelerators=(f"dot4:sum_bytes={sum_bytes}",))
        parts = assign_engines(simplify(open_zoo("zoo:lenet5")), request).parts
        kernel = next(part.kernel for part in parts if part.name == "conv1")
        assert kernel.scratch_bytes == columns * 6 * 4
        assert kernel.cycles is not None
        found.append(kernel.cycles(28, ()))
    assert found == sorted(set(found))


@pytest.mark.parametrize(
    ("op", "x", "constants", "reason"),
    [
        (Conv2D(Window(1), Window(1)), int8(2, 3, 3, 2), (weights(4, 1, 1, 2), bias(4)), "are 2"),
        (
            Conv2D(Window(1), Window(1)),
            int8(1, 3, 3, 4),
            (weights(4, 1, 1, 2), bias(4)),
            "there are 2 groups of channels",
        ),
        (
            FullyConnected(rounding=Rounding.SINGLE),
            int8(1, 4),
            (weights(4, 4), bias(4)),
            "single rounding",
        ),
    ],
)
def test_unsupported_layers_are_refused(
    op: Op, x: TensorType, constants: tuple[Operand, ...], reason: str
) -> None:
    value = Value("x", x)
    node = node_of("y", op, (value,), *constants)
    done = compiled(Graph("refused", (value,), (node.output,), (node,)), "dot4")
    assert claimed(done.graph) == {}
    assert reason in done.parts.cpu_fallbacks[0].reason


COUNTING = """
#include <stdint.h>
#include <stdio.h>

static long calls;

int32_t counting(int32_t sum, uint32_t a, uint32_t b);

int32_t counting(int32_t sum, uint32_t a, uint32_t b) {
    calls++;
    for (int lane = 0; lane < 32; lane += 8) {
        sum += (int8_t)(a >> lane) * (int8_t)(b >> lane);
    }
    return sum;
}

__attribute__((destructor)) static void tell(void) { printf("%ld", calls); }
"""


def test_the_compilers_own_instruction_takes_the_place_of_the_portable_one() -> None:
    """And it is run once for every four products, a last one for what is left of a run."""
    done = compiled(open_zoo("zoo:lenet5:resolution=32"), "dot4")
    with unpacked(done.bundle) as folder:
        (folder / "counting.c").write_text(COUNTING)
        (folder / "counting.h").write_text(
            "#include <stdint.h>\nint32_t counting(int32_t sum, uint32_t a, uint32_t b);\n"
        )
        flags = ("-DDOT4=counting", "-include", str(folder / "counting.h"), *WARNINGS_AS_ERRORS)
        sources = [folder / n for n in (*c_sources(done.prefix), "dot4.c", "main.c", "counting.c")]
        objects = compile_objects(
            host_compiler(), sources, folder / "out", include=(folder,), flags=flags
        )
        printed = run_executable(link_executable(host_compiler(), objects, folder / "program"))
    *scores, calls = (int(word) for word in printed.split())
    inputs = done.model.inputs
    zeros = {v.name: np.full(v.type.shape, v.type.zero_point, np.int8) for v in inputs}
    assert scores == run_graph(done.model, zeros)["scores"].ravel().tolist()
    convolutions = 28 * 28 * 6 * 5 * 2 + 10 * 10 * 16 * 5 * 8
    assert calls == convolutions + 120 * 100 + 84 * 30 + 10 * 21
