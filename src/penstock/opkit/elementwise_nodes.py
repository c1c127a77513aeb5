"""Import of element-wise operators: operands of different ranks, and of many axes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Value, Values, result_of
from penstock.ir.op import Op
from penstock.ir.tensor import Data, DType
from penstock.opkit import broadcast
from penstock.opkit.broadcast import Plain, require_output
from penstock.opkit.checks import require_dtype
from penstock.opkit.nodes import reshaped, with_shape
from penstock.ops.tile import Tile


def elementwise_nodes(
    op: Op, node: ForeignNode, count: int, dtype: DType = DType.INT8
) -> Iterator[Made]:
    """Nodes that apply `op` to the first `count` inputs of a node with output type `dtype`.

    An operand of rank 2 is first reshaped to the rank of the output, so that its rows (`row_axis`)
    are rows of the output.  Where several operands have more axes than kernels see, neighbouring
    axes are merged; operands along which that is impossible are first repeated.  Raises
    UnsupportedError for another output type."""
    output = node.y
    require_output(node, dtype)
    operands = tuple(node.input(k) for k in range(count))
    if count > 1 and max(operand.rank for operand in operands) > broadcast.RANK:
        yield from of_merged_axes(op, operands, output)
        return
    viewed: list[Value] = []
    for k, operand in enumerate(operands):
        # See `broadcast.result_shape`: rows of matrices are no rows of images.
        if operand.rank == 2 < output.rank:
            shape = (1,) * (output.rank - 2) + operand.shape
            operand, views = reshaped(operand, shape, f"{output.name}/operand{k}")
            yield from views
        viewed.append(operand)
    yield Made(op, tuple(viewed), output)


def of_merged_axes(op: Op, operands: Values, output: Value) -> Iterator[Made]:
    """Nodes that apply `op` to operands with neighbouring axes merged."""
    merged = broadcast.with_merged_axes(tuple(operand.shape for operand in operands))
    values: list[Value] = []
    for k, (operand, shape, whole) in enumerate(
        zip(operands, merged.shapes, merged.repeated, strict=True)
    ):
        name = f"{output.name}/operand{k}"
        if operand.shape != whole:
            operand, made = _repeated(operand, whole, f"{name}/repeated")
            yield from made
        operand, views = reshaped(operand, shape, name)
        yield from views
        values.append(operand)
    shape = result_of(op, values).shape
    yield from with_shape(op, tuple(values), shape, output)


def _repeated(x: Value, shape: tuple[int, ...], name: str) -> tuple[Value, tuple[Made, ...]]:
    """`x` broadcast to a shape, named `name`, and the nodes that repeat it if it is computed."""
    found = x.shaped(name, shape)
    if x.data is not None:
        every = np.broadcast_to(x.array, shape)
        return replace(found, data=Data.of(every)), ()
    extents = (1,) * (len(shape) - x.rank) + x.shape
    source, views = reshaped(x, extents, f"{name}/input")
    multiples = tuple(whole // extent for whole, extent in zip(shape, extents, strict=True))
    return found, (*views, Made(Tile(multiples), (source,), found))


def typed_nodes(node: ForeignNode, plain: Plain, quantised: Op | None) -> Nodes:
    """Nodes that apply `plain` if the output has one of its element types, else `quantised`.

    Raises UnsupportedError if the output has another element type."""
    dtype = node.y.dtype
    if dtype in plain.ARITHMETIC:
        return elementwise_nodes(plain, node, plain.INPUTS, dtype)
    allowed = tuple(plain.ARITHMETIC)
    require_dtype(node.y.type, "output", *((DType.INT8,) if quantised else ()), *allowed)
    assert quantised is not None
    return elementwise_nodes(quantised, node, plain.INPUTS)
