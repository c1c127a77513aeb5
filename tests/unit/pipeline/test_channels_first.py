"""Inputs with their channels first: messages, and the RAM that an input in NHWC saves."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import penstock
from onnx_models import drawn
from penstock.errors import CapacityError
from penstock.frontends.open import parse
from penstock.frontends.reading import Reading
from penstock.ir.graph import Graph
from penstock.ops.transpose import Transpose
from penstock.pipeline.graphs import read
from penstock.reports.summary import summary
from penstock.simulators.graph import run_graph
from tools.onnx_writer import Model

CHANNELS, EXTENT = 3, 24
PLANE = f"a plane of {EXTENT} x {EXTENT} elements"


def written(path: Path, *, channels_last: bool) -> Path:
    """A network on an image; `channels_last`: a transpose in front, so that the input is NHWC."""
    model = Model()
    if channels_last:
        x = model.input(1, EXTENT, EXTENT, CHANNELS, name="image")
        x = model.node("Transpose", x, perm=[0, 3, 1, 2])
    else:
        x = model.input(1, CHANNELS, EXTENT, EXTENT, name="image")
    for depth, count in ((CHANNELS, 8), (8, 8)):
        parts = (x, model.weights(count, depth, 3, 3), model.reals(count))
        x = model.node("Conv", *parts, strides=[2, 2], pads=[1, 1, 1, 1])
    path.write_bytes(model.raw(model.node("GlobalAveragePool", x)))
    return path


def test_an_input_with_its_channels_last_is_streamed_by_image_rows(tmp_path: Path) -> None:
    first, last = (
        penstock.compile(
            written(tmp_path / f"{channels_last}.onnx", channels_last=channels_last),
            stream_input=True,
            optimize="size",
        )
        for channels_last in (False, True)
    )
    assert [x.channels_first for x in (*first.inputs, *last.inputs)] == [True, False]
    planes_bytes = CHANNELS * EXTENT * EXTENT
    assert first.report.ram_bytes.arena > planes_bytes > 2 * last.report.ram_bytes.arena
    said = f'"image" is channels-first: a streamed row (--stream-input) is {PLANE}'
    for compiled, expected in ((first, True), (last, False)):
        console = Console(width=200, record=True, file=StringIO())
        console.print(summary(compiled.report))
        assert (said in console.export_text()) == expected


def test_an_input_that_is_declared_channels_last_needs_no_other_file(tmp_path: Path) -> None:
    """The network is that of a file whose input is NHWC: same elements, RAM and cycles."""
    first, other = (written(tmp_path / f"{k}.onnx", channels_last=k > 0) for k in range(2))
    declared = penstock.verify(
        first, "host", reference="onnx", last_rung="machine", channels_last=("image",),
        stream_input=True, optimize="size",
    )  # fmt: skip
    assert declared.passed
    assert declared.rungs[0].comparison.elements > CHANNELS * EXTENT * EXTENT
    report, expected = (
        declared.report,
        penstock.compile(other, "host", stream_input=True, optimize="size").report,
    )
    assert report.interface.inputs[0].shape == (1, EXTENT, EXTENT, CHANNELS)
    assert (report.ram_bytes, report.cycles) == (expected.ram_bytes, expected.cycles)
    planes, rows = read(str(first)), read(str(first), Reading(channels_last=("image",)))
    (image,) = drawn(planes).values()
    found = run_graph(rows, {"image": image.transpose(0, 2, 3, 1)})[rows.outputs[0].name]
    assert found.tobytes() == run_graph(planes, {"image": image})[planes.outputs[0].name].tobytes()


def test_the_capacity_error_says_what_a_streamed_row_is(tmp_path: Path) -> None:
    for channels_last in (False, True):
        path = written(tmp_path / "net.onnx", channels_last=channels_last)
        with pytest.raises(CapacityError) as caught:
            penstock.compile(path, stream_input=True, sram=256, stack=0)
        assert (f"a streamed row is {PLANE}" in caught.value.help) == (not channels_last)


FREE = Reading(free_layout=True)


def imported(model: Model, *outputs: str, reading: Reading = FREE) -> tuple[Graph, Graph]:
    """The graph of a model, as its file states it and with a free layout."""
    raw = model.raw(*outputs)
    return parse(raw, "net.onnx"), parse(raw, "net.onnx", reading)


def equal_elements(fixed: Graph, free: Graph) -> None:
    """Both graphs compute the same, axes of inputs and outputs aside."""
    orders = dict(free.orders)
    inputs = drawn(fixed)
    moved = {name: x.transpose(orders.get(name, range(x.ndim))) for name, x in inputs.items()}
    expected, found = run_graph(fixed, inputs), run_graph(free, moved)
    for a, b in zip(fixed.outputs, free.outputs, strict=True):
        order = orders.get(b.name, range(a.type.rank))
        assert (expected[a.name].transpose(order) == found[b.name]).all()


def transpositions(graph: Graph) -> int:
    return sum(isinstance(node.op, Transpose) for node in graph.nodes)


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("rank", [3, 4])
def test_a_free_layout_has_no_transposition(rank: int, quantised: bool) -> None:
    model = Model(quantised=quantised)
    x = model.input(1, 3, *(8, 6)[: rank - 2], name="image")
    y = model.node("Conv", x, model.weights(4, 3, *(3,) * (rank - 2)))
    fixed, free = imported(model, model.node("Relu", y))
    assert (transpositions(fixed), transpositions(free)) == (2, 0)
    last = (0, *range(2, rank), 1)
    assert [order for _, order in free.orders] == [last, last]
    assert [name for name, _ in free.orders] == [free.inputs[0].name, free.outputs[0].name]
    equal_elements(fixed, free)


def test_inputs_that_no_layer_reads_as_images_keep_their_axes() -> None:
    model = Model(quantised=False)
    a, b = model.input(1, 3, 8, 6, name="image"), model.input(1, 8, 6, name="sequence")
    y = model.node("Conv", a, model.weights(4, 3, 3, 3))
    z = model.node("MatMul", b, model.weights(6, 5))
    fixed, free = imported(model, y, z)
    assert dict(free.orders).keys() == {"image", free.outputs[0].name}
    equal_elements(fixed, free)


def test_an_input_that_is_an_image_and_rows_needs_one_transposition() -> None:
    """Whatever its order; it then has that of the file."""
    model = Model(quantised=False)
    x = model.input(1, 3, 8, 6, name="image")
    y = model.node("Conv", x, model.weights(4, 3, 3, 3))
    fixed, free = imported(model, y, model.node("MatMul", x, model.weights(6, 5)))
    assert (transpositions(free), dict(free.orders).keys()) == (1, {free.outputs[0].name})
    equal_elements(fixed, free)


def test_axes_of_one_element_are_not_moved() -> None:
    model = Model(quantised=False)
    x = model.input(1, 1, 8, 6, name="image")
    y = model.node("GlobalAveragePool", model.node("Conv", x, model.weights(4, 1, 3, 3)))
    fixed, free = imported(model, y)
    assert free.orders == ()
    assert free.outputs[0].type.shape == (1, 4, 1, 1)
    equal_elements(fixed, free)


def test_states_keep_their_axes() -> None:
    model = Model(quantised=False)
    x, h = (model.input(1, 3, 8, 6, name=name) for name in ("image", "h"))
    y = model.node("Conv", model.node("Add", x, h), model.weights(3, 3, 1, 1))
    reading = replace(FREE, states=(("h", y),))
    _, free = imported(model, model.node("Sqrt", y), y, reading=reading)
    assert dict(free.orders).keys() <= {"image", free.outputs[0].name}


def test_the_summary_states_both_shapes(tmp_path: Path) -> None:
    path = written(tmp_path / "net.onnx", channels_last=False)
    report = penstock.compile(path, "host", channels_last=("image",)).report
    console = Console(width=200, record=True, file=StringIO())
    console.print(summary(report))
    shapes = f"1 x {EXTENT} x {EXTENT} x {CHANNELS}, in the model's file 1 x {CHANNELS} x {EXTENT}"
    assert f'"image" has its channels last: {shapes}' in console.export_text()
