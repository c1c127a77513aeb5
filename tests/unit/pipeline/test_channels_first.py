"""Inputs with their channels first: messages, and the RAM that an input in NHWC saves."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import penstock
from onnx_models import drawn
from penstock.errors import CapacityError
from penstock.frontends.reading import Reading
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
