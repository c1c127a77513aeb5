"""Checks of imported nodes and graphs that apply to every operator."""

from __future__ import annotations

from penstock.errors import InternalError, ModelError, UnsupportedError
from penstock.ir.foreign import MALFORMED, ForeignNode
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import MOST_ROWS, Kernel, row_count
from penstock.ir.tensor import DType
from penstock.opkit.checks import require, require_elements, require_quantised


def check_foreign(node: ForeignNode) -> None:
    """Raises UnsupportedError if a tensor is empty.  Constant lists, such as of axes, may be
    empty."""
    for value in (*filter(None, node.inputs), *node.outputs):
        counted = value.data is None or value.type.dtype is DType.INT8
        if counted:
            require_elements(value.type.shape, f'tensor "{value.name}"')


def check_node(node: Node) -> None:
    """Raises ModelError or UnsupportedError if a node is inconsistent.

    The output type must be the operator's result type, int8 tensors must be quantised, and the
    parameters of the portable kernel must fit 32 bits."""
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
            why="the expected type follows from the node's inputs and attributes",
            help=MALFORMED,
        )


def check_rows(graph: Graph) -> None:
    """Raises UnsupportedError if a tensor has more than `MOST_ROWS` rows."""
    inputs = ((value, f"{graph.name}: inputs") for value in graph.sources)
    for value, where in (*inputs, *((node.output, node.origin) for node in graph.nodes)):
        rows = row_count(value.type.shape)
        if rows > MOST_ROWS:
            raise UnsupportedError(
                "model-026",
                f'"{value.name}" is {value.type}: {rows} rows, at most {MOST_ROWS} are scheduled',
                where=where,
                why="cascades are planned row by row",
                help="use a smaller batch or fewer rows",
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
