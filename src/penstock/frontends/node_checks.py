"""Node checks: rules that every understood node obeys, whatever its operator, and their graph."""

from __future__ import annotations

from penstock.errors import InternalError, ModelError, UnsupportedError
from penstock.ir.foreign import MALFORMED, ForeignNode
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Kernel, row_count
from penstock.ir.tensor import DType
from penstock.ops.checks import require, require_quantised

MOST_ROWS = 2**15
"""Rows of a tensor that are scheduled: the search asks operators row by row."""


def check_foreign(node: ForeignNode) -> None:
    """No tensor of elements is empty.  (A list of axes may be.)"""
    for value in (*filter(None, node.inputs), *node.outputs):
        counted = value.data is None or value.type.dtype is DType.INT8
        require(
            value.type.elements > 0 or not counted,
            f'tensor "{value.name}" has shape {list(value.type.shape)}, must not be empty',
        )


def check_node(node: Node) -> None:
    """The output is what operator and inputs give, int8 tensors stand for real numbers, and the
    kernel's parameters are what C can hold.

    Raises ModelError or UnsupportedError."""
    _check_result(node)
    size = node.output.type.size_bytes
    require(
        size < 2**31, f'tensor "{node.output.name}" has {size} bytes, must be smaller than 2 GiB'
    )
    for value in (*node.variable_inputs, node.output):
        _check_quantisation(value)
    if not node.op.ALIAS:
        _check_kernel(node, node.op.kernel(node.site))


def _check_result(node: Node) -> None:
    found = node.output.type
    expected = node.op.result_type(node.site.inputs)
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        raise ModelError(
            "model-015",
            f"output is {found}, must be {expected}",
            where=node.origin,
            why="the shapes of the node's inputs and its attributes give that",
            help=MALFORMED,
        )


def check_rows(graph: Graph) -> None:
    """Every tensor has few enough rows to be scheduled."""
    inputs = ((value, f"{graph.name}: inputs") for value in graph.inputs)
    for value, where in (*inputs, *((node.output, node.origin) for node in graph.nodes)):
        rows = row_count(value.type.shape)
        if rows > MOST_ROWS:
            raise UnsupportedError(
                "model-026",
                f'"{value.name}" is {value.type}: {rows} rows, at most {MOST_ROWS} are scheduled',
                where=where,
                why="cascades are planned row by row",
                help="a smaller batch, or fewer rows",
            )


def _check_quantisation(value: Value) -> None:
    if value.type.dtype is DType.INT8:
        require_quantised(value.type, f'tensor "{value.name}"')


def _check_kernel(node: Node, kernel: Kernel) -> None:
    for k, member in kernel.constants:
        value = node.inputs[k]
        if value.data is None:
            raise UnsupportedError(
                "model-020", f'{member} "{value.name}" are computed, must be constant'
            )
    for name, number in kernel.params:
        if not -(2**31) <= number < 2**31:
            raise InternalError(
                "kernel-001",
                f"{name} is {number}, must be within [{-(2**31)}, {2**31})",
                where=node.origin,
                why=f"{node.kind} should have refused its inputs: kernels count in 32 bits",
            )
