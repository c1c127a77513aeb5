"""Tables of element-wise operators in a row, which depend on one tensor of 8-bit elements."""

from __future__ import annotations

import numpy as np

from penstock.errors import UnsupportedError
from penstock.frontends.onnx.domains import RealChain
from penstock.frontends.onnx.folding import folded
from penstock.frontends.onnx.model_constants import ModelConstants
from penstock.ir.tensor import Array, Quantisation, TensorType

INEXACT = 2.0**-21
"""Relative error of functions such as Tanh in runtimes: a few units in the last place."""
DETERMINED = (
    *("Abs", "Add", "And", "Cast", "Ceil", "Clip", "Div", "Equal", "Floor", "Greater"),
    *("GreaterOrEqual", "Identity", "LeakyRelu", "Less", "LessOrEqual", "Max", "Min", "Mul"),
    *("Neg", "Not", "Or", "PRelu", "Reciprocal", "Relu", "Round", "Sign", "Sqrt", "Sub"),
    *("Where", "Xor"),
)
"""Operators whose results in single precision IEEE 754 determines."""


def table_of_chain(
    chain: RealChain,
    source: TensorType,
    scale: Quantisation,
    constants: ModelConstants,
    opset: int,
) -> tuple[int, ...]:
    """Elements of the result, quantised to `scale`, for the elements -128 .. 127 of the source.

    Every node is evaluated in single precision, as constants are.  Raises UnsupportedError if an
    operator has no evaluation, or if results differ among runtimes by more than a step."""
    found, down, up = (
        _table(chain, source, scale, constants, opset, nudge) for nudge in (0.0, -INEXACT, INEXACT)
    )
    if max(np.abs(found - down).max(), np.abs(found - up).max()) > 1:
        node = chain.nodes[-1]
        raise UnsupportedError(
            "model-020",
            f"{node.name}: its result depends on the last bits of real numbers before it",
            where=node.where,
            why="runtimes differ in these bits of functions such as Tanh, and a step such as Floor "
            "turns them into whole steps of the result",
            help="quantise the input of the node: put a QuantizeLinear and a DequantizeLinear "
            "before it",
            cause="last bits of real numbers",
        )
    return tuple(int(y) for y in found)


def _table(
    chain: RealChain,
    source: TensorType,
    scale: Quantisation,
    constants: ModelConstants,
    opset: int,
    nudge: float,
) -> Array:
    """The table, with the results of functions that IEEE 754 does not determine off by `nudge`,
    relative to them."""
    elements = np.arange(-128, 128).astype(np.float32)
    reals = {chain.source: (elements - source.zero_point) * np.float32(source.scale)}
    for node in chain.nodes:
        inputs = [_input(name, reals, constants, source.rank) for name in node.inputs]
        found = folded(node, inputs, opset)
        if found is None:
            raise UnsupportedError(
                "model-020",
                f"{node.name}: operator is not supported",
                where=node.where,
                help="replace it in the model by operators that `penstock ops` lists",
                cause=f"operator {node.name}",
            )
        result = found[0].reshape(-1).astype(np.float32)
        off = 0.0 if node.name in DETERMINED else nudge
        reals[node.outputs[0]] = result * np.float32(1 + off)
    with np.errstate(all="ignore"):
        steps = np.rint(reals[chain.nodes[-1].outputs[0]] / np.float32(scale.scales[0]))
    bounded = np.nan_to_num(steps, nan=-512.0, posinf=512.0, neginf=-512.0).clip(-512, 512)
    return np.clip(bounded + scale.zero_points[0], -128, 127).astype(np.int64)


def _input(
    name: str, reals: dict[str, Array], constants: ModelConstants, rank: int
) -> Array | None:
    """The elements of an input of a node; constants have one element."""
    if not name:
        return None
    if name in reals:
        return reals[name]
    constant = constants[name].reals
    if constant.ndim > rank:
        raise ValueError(f'constant "{name}" has rank {constant.ndim}, the tensor has rank {rank}')
    return constant.reshape(())
