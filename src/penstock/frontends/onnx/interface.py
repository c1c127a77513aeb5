"""The element types of inputs and outputs in an ONNX file, compared with those in the graph."""

from __future__ import annotations

from penstock.errors import UsageError
from penstock.frontends.onnx.file import File
from penstock.frontends.reading import Reading
from penstock.ir.graph import Graph


def check_interface(file: File, graph: Graph, reading: Reading) -> None:
    """Raises UsageError if an input or output, states excepted, has another element type in the
    graph than in the file, and `reading` asks for the same."""
    if not reading.same_interface:
        return
    states = {name for pair in reading.states for name in pair}
    roles = (("input", file.inputs, graph.inputs), ("output", file.outputs, graph.outputs))
    for role, borders, values in roles:
        for border, value in zip(borders, values, strict=True):
            found = value.type.dtype.value
            if border.dtype != found and border.name not in states:
                raise UsageError(
                    "usage-123",
                    f"--io model is not supported for the {role}s of this ONNX model",
                    where=f'{file.name}: {role} "{border.name}"',
                    why=f"it is {border.dtype} in the file and {found} in the generated code: the "
                    "conversions at the border of an ONNX model are not compiled",
                    help="leave --io model out; the generated header has functions that convert",
                )
