"""The int8 quantisation of each tensor of an ONNX model.

QuantizeLinear and DequantizeLinear define it.  Operators that only move, choose or clamp elements
propagate it between input and output.  The rest is assumed, if the user allows that.  uint8 becomes
int8 by subtracting 128 from elements and zero points, which preserves real values.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.errors import ModelError, UnsupportedError
from penstock.frontends.onnx.file import File, FileNode
from penstock.frontends.onnx.folding import wrong
from penstock.guides import guide
from penstock.ir.foreign import MALFORMED
from penstock.ir.operator_facts import OnnxName
from penstock.ir.tensor import Array, Quantisation

ASSUMED = Quantisation((1 / 32,), (0,))
"""Quantisation of real numbers in [-4, 4), the range of normalised signals."""
SAME = ("Identity", "Dropout", "Cast")
"""Nodes that return their input."""
RESHAPING = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
MOVING = (*SAME, *RESHAPING, "Transpose")
"""Nodes that only move elements, which the front end imports without an operator file."""
MOVING_REALS = (*MOVING, "Slice", "Split", "Concat")
"""Nodes through which states of recurrent layers may pass as real numbers."""
QUANTISE = "QuantizeLinear"
DEQUANTISE = "DequantizeLinear"
EIGHT_BITS = ("int8", "uint8")


def tensor_scales(
    file: File, names: Mapping[str, OnnxName], *, assumed: bool
) -> Mapping[str, Quantisation]:
    """int8 quantisation of computed tensors, by name; unknown ones are missing.

    `assumed`: unknown ones get `ASSUMED`.  Raises UnsupportedError if nothing is quantised and
    nothing may be assumed."""
    if not assumed and not any(n.name in (QUANTISE, DEQUANTISE) for n in file.nodes):
        raise UnsupportedError(
            "onnx-006",
            "the model is not quantised",
            where=file.name,
            why="it contains no QuantizeLinear and no operators on quantised tensors",
            help="quantise it with representative inputs (--quantise; "
            f"{guide('quantise-onnx')}); --assume-int8 compiles it as if it were: shapes and costs "
            "are then correct, outputs are meaningless",
            cause="element type float32",
        )
    known = _stated(file)
    _carried_back(file, names, known)
    for node in file.nodes:
        for name in node.outputs:
            if name not in known and (found := _carried(node, names, known)) is not None:
                known[name] = found
            if name not in known and assumed:
                known[name] = ASSUMED
    for border in file.inputs:
        if assumed and border.dtype not in EIGHT_BITS:
            known.setdefault(border.name, ASSUMED)
    return known


def real_tensors(
    file: File, names: Mapping[str, OnnxName], known: Mapping[str, Quantisation]
) -> frozenset[str]:
    """Names of computed tensors that are real numbers (float32) in the graph.

    These are states of recurrent layers without a quantisation: outputs of the layers and inputs
    of the model, also through nodes that move elements, that only such layers and the caller
    read."""
    allowed = {
        "",
        *(b.name for b in file.inputs),
        *(n for node in file.nodes for n in node.outputs),
    }
    allowed -= known.keys()
    for node in reversed(file.nodes):
        allowed -= {
            n for k, n in enumerate(node.inputs) if n and not _takes_real(node, k, names, allowed)
        }
    computed = {b.name for b in file.inputs if b.dtype == "float32"}
    for node in file.nodes:
        if _has_states(node, names) or (
            node.name in MOVING_REALS and computed.issuperset(_elements(node))
        ):
            computed.update(node.outputs)
    return frozenset(allowed & computed)


def _takes_real(node: FileNode, k: int, names: Mapping[str, OnnxName], allowed: set[str]) -> bool:
    """Whether input k of a node may be real numbers, if these of its outputs may be."""
    if node.name in MOVING_REALS:
        return allowed.issuperset(node.outputs)
    if node.name == "Shape":
        return True
    return _has_states(node, names) and k in names[node.name].real_inputs


def _has_states(node: FileNode, names: Mapping[str, OnnxName]) -> bool:
    return node.name in names and bool(names[node.name].real_inputs)


def _stated(file: File) -> dict[str, Quantisation]:
    """Quantisations stated by QuantizeLinear and DequantizeLinear."""
    known: dict[str, Quantisation] = {}
    for node in file.nodes:
        constant = bool(node.inputs) and node.inputs[0] in file.constants
        if node.name in (QUANTISE, DEQUANTISE) and not constant:
            found = activation_scale(node, file.constants)
            before, after = node.inputs[0], node.outputs[0]
            if node.name == QUANTISE:
                known[after] = found
                known.setdefault(before, found)
            else:
                known.setdefault(before, found)
                known[after] = found
    return known


def _carried_back(
    file: File, names: Mapping[str, OnnxName], known: dict[str, Quantisation]
) -> None:
    """Propagates quantisations from outputs of element-moving nodes to inputs with one reader."""
    counts: dict[str, int] = {}
    for name in (*(n for node in file.nodes for n in node.inputs), *(o.name for o in file.outputs)):
        counts[name] = counts.get(name, 0) + 1
    for node in reversed(file.nodes):
        if not _carries(node, names) or not node.outputs or node.outputs[0] not in known:
            continue
        for name in _elements(node):
            if name not in known and counts[name] == 1 and name not in file.constants:
                known[name] = known[node.outputs[0]]


def _carried(
    node: FileNode, names: Mapping[str, OnnxName], known: Mapping[str, Quantisation]
) -> Quantisation | None:
    """The output's quantisation if the node propagates or fixes it, else None."""
    if _carries(node, names):
        found = {known[name] for name in _elements(node) if name in known}
        return found.pop() if len(found) == 1 else None
    asked = names.get(node.name)
    return asked.fixed if asked else None


def _carries(node: FileNode, names: Mapping[str, OnnxName]) -> bool:
    asked = names.get(node.name)
    return node.name in MOVING or (asked is not None and asked.carries)


def _elements(node: FileNode) -> tuple[str, ...]:
    """Inputs whose elements are elements of the output."""
    return node.inputs if node.name == "Concat" else node.inputs[:1]


def activation_scale(node: FileNode, constants: Mapping[str, Array]) -> Quantisation:
    """The int8 quantisation that a QuantizeLinear or DequantizeLinear defines.

    Raises UnsupportedError unless it has one scale and an 8-bit type."""
    found = _parameters(node, constants)
    if len(found.scales) != 1:
        raise UnsupportedError(
            "onnx-007",
            f"{node.name} has {len(found.scales)} scales, must have one",
            where=node.where,
            why="computed tensors have one scale; only weights and biases have one per channel",
            help="quantise activations per tensor",
        )
    return found


def constant_scale(node: FileNode, elements: Array, constants: Mapping[str, Array]) -> Quantisation:
    """Quantisation of a constant, as int8 or int32; `axis` is set if there are several scales."""
    found = _parameters(node, constants, elements.dtype.name)
    if len(found.scales) == 1:
        return Quantisation(found.scales, found.zero_points)
    axis = node.attributes.get("axis", 1)
    rank = elements.ndim
    fits = isinstance(axis, int) and -rank <= axis < rank
    along = axis % rank if isinstance(axis, int) and fits else 0
    if not fits or elements.shape[along] != len(found.scales):
        raise ModelError(
            "onnx-005",
            f"{node.name}: {len(found.scales)} scales along axis {axis} of shape "
            f"{list(elements.shape)}, must be one for each index",
            where=node.where,
            help=MALFORMED,
        )
    return Quantisation(found.scales, found.zero_points, along)


def _parameters(
    node: FileNode, constants: Mapping[str, Array], dtype: str | None = None
) -> Quantisation:
    """Scales and zero points of a node; those of uint8 are converted to int8."""
    scales = constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    point = next(iter(node.inputs[2:]), "")
    zeros = constants.get(point) if point else None
    if scales is None or (point and zeros is None) or not node.outputs:
        raise wrong(node, "scale and zero point must be there, and constant")
    if node.attributes.get("block_size"):
        raise wrong(node, "scales in blocks are not taken")
    kind = zeros.dtype.name if zeros is not None else dtype or "uint8"
    allowed = EIGHT_BITS if dtype is None else (*EIGHT_BITS, "int32")
    if kind not in allowed:
        raise UnsupportedError(
            "onnx-007",
            f"{node.name} is between real numbers and {kind}, must be {' or '.join(allowed)}",
            where=node.where,
            help="quantise the model to 8 bits",
        )
    values = tuple(float(s) for s in scales.ravel())
    if not values or not all(0 < s < np.inf for s in values):
        raise wrong(node, "a scale is no positive number")
    points = np.zeros(1, np.int64) if zeros is None else zeros.ravel().astype(np.int64)
    points = np.broadcast_to(points, len(values)) if points.size == 1 else points
    if len(points) != len(values):
        raise wrong(node, f"{len(values)} scales and {len(points)} zero points")
    less = 128 if kind == "uint8" else 0
    return Quantisation(values, tuple(int(z) - less for z in points))
