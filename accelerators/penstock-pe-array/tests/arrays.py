"""Descriptions of PE arrays for tests, and networks with windows of many sorts."""

from __future__ import annotations

from pathlib import Path

from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph

TEMPLATE = """
[array]
rows = {rows}
columns = {columns}
dataflow = "{dataflow}"
operators = [{operators}]

[buffers]
banks = {banks}

[buffers.input]
size = {input}
bytes_per_cycle = 4
latency_cycles = 2

[buffers.weights]
size = {weights}
bytes_per_cycle = 3
latency_cycles = 1

[buffers.output]
size = {output}
bytes_per_cycle = 16
latency_cycles = 3

[global_buffer]
size = {shared}
bytes_per_cycle = 9
latency_cycles = 5

[memory]
bytes_per_cycle = 4
latency_cycles = 30
run_cycles = 2
"""
DATAFLOWS = ("weight-stationary", "output-stationary", "input-stationary")
OPERATORS = (
    *("conv2d", "depthwise_conv2d", "fully_connected"),
    *("max_pool2d", "average_pool2d", "add"),
)
TINY = {"input": 896, "weights": 480, "output": 320}
"""Sizes of buffers in bytes, so small that rows, columns and channels of most layers are tiled."""


def described(
    dataflow: str = DATAFLOWS[0],
    *,
    rows: int = 4,
    columns: int = 3,
    banks: int = 2,
    operators: tuple[str, ...] = OPERATORS,
    **sizes: int,
) -> str:
    """The text of a file."""
    return TEMPLATE.format(
        rows=rows,
        columns=columns,
        dataflow=dataflow,
        banks=banks,
        operators=", ".join(f'"{name}"' for name in operators),
        **{"input": 8192, "weights": 4096, "output": 8192, "shared": 0, **sizes},
    )


def accelerator(folder: Path, text: str) -> str:
    """The value of --accelerator for a file with that text, which is written to a folder."""
    path = folder / "array.toml"
    path.write_text(text, "utf-8")
    return f"pe_array:file={path}"


def windows() -> Graph:
    """Layers that are dilated, strided, padded beyond the window, on one side, or by channel."""
    net = GraphBuilder("windows")
    x = net.input((1, 13, 11, 3), scale=0.03, zero_point=-9)
    x = net.conv2d(x, 7, (3, 2), (1, 2), activation="relu", name="strided")
    x = net.depthwise_conv2d(x, 3, padding="same", activation="relu6", name="depthwise")
    x = net.conv2d(x, 10, 3, dilation=2, padding="same", name="dilated")
    x = net.add(x, net.max_pool2d(x, 3, 1, "same", name="maximum"), activation="relu", name="sum")
    x = net.depthwise_conv2d(x, (2, 3), (2, 1), padding="valid", name="valid")
    x = net.conv2d(x, 5, 1, name="pointwise")
    x = net.average_pool2d(net.conv2d(x, 9, (1, 4), name="even"), 2, 1, "same", name="mean")
    return net.build(net.fully_connected(net.fully_connected(x, 11, name="dense"), 4, name="last"))
