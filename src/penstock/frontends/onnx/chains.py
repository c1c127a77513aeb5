"""Tables of element-wise operators in a row, which depend on one tensor of 8-bit elements."""

from __future__ import annotations

import numpy as np

from penstock.errors import UnsupportedError
from penstock.frontends.onnx.domains import RealChain
from penstock.frontends.onnx.folding import folded
from penstock.frontends.onnx.model_constants import ModelConstants
from penstock.ir.tensor import Array, Quantisation, TensorType


def table_of_chain(
    chain: RealChain,
    source: TensorType,
    scale: Quantisation,
    constants: ModelConstants,
    opset: int,
) -> tuple[int, ...]:
    """Elements of the result, quantised to `scale`, for the elements -128 .. 127 of the source.

    Every node is evaluated in single precision, as constants are.  Raises UnsupportedError if an
    operator has no evaluation."""
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
        reals[node.outputs[0]] = found[0].reshape(-1).astype(np.float32)
    with np.errstate(all="ignore"):
        steps = np.rint(reals[chain.nodes[-1].outputs[0]] / np.float32(scale.scales[0]))
    bounded = np.nan_to_num(steps, nan=0.0, posinf=512.0, neginf=-512.0).clip(-512, 512)
    return tuple(int(y) for y in np.clip(bounded + scale.zero_points[0], -128, 127))


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
