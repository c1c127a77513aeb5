"""Rewrites of an ONNX file to a canonical form.

1. Nodes whose inputs are constant become constants, and nodes that nobody reads vanish.
2. An operator on int8 with scales as inputs (QLinearConv, ..) becomes the floating-point operator
   between DequantizeLinear and QuantizeLinear.
   Around a Transpose that spreads blocks of channels over pixels, what is quantised as it
   was before is not quantised again.
3. A division by a number becomes a product where that is exact, or quantised next.  A reduction
   that drops axes keeps them, and Gather at a single index takes a list of one, followed by
   Squeeze.  An element of a sequence of parts becomes a Slice, and a Transpose that
   spreads blocks of channels over pixels DepthToSpace.  A Relu of integers becomes a Clip
   at the element 0, and a Pad of integers states its element, so that what is left to operators
   has the same meaning in any quantisation.  A Resize of integers that interpolates does so
   between real numbers.
4. A batch normalisation after a convolution or Gemm with no other reader is folded into it, and an
   Add of a constant after a MatMul becomes its bias.

Source: ONNX operator specification; for com.microsoft, ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx

from penstock.errors import UnsupportedError
from penstock.frontends.onnx.element_types import REAL, element_types
from penstock.frontends.onnx.file import File, FileNode
from penstock.frontends.onnx.folding import along, folded, listed_axes, whole, wrong
from penstock.frontends.onnx.operators import DEQUANTISE, EIGHT_BITS, MOVING, QUANTISE
from penstock.frozen import frozen
from penstock.ir.foreign import Attribute
from penstock.ir.graph import free_name
from penstock.ir.tensor import Array


def rewritten(file: File) -> File:
    """The model in canonical form."""
    for rewrite in (
        folded_constants,
        _real_operators,
        _quantised_once,
        _plain_forms,
        _explicit_zeros,
        _folded_norms,
        _folded_biases,
        living,
    ):
        file = rewrite(file)
    return file


@dataclass(slots=True)
class _Growing:
    """A file under construction."""

    file: File
    constants: dict[str, Array]
    taken: frozenset[str]
    nodes: list[FileNode] = field(default_factory=list)

    @staticmethod
    def of(file: File) -> _Growing:
        return _Growing(file, dict(file.constants), file.names())

    def name(self, wanted: str) -> str:
        return free_name(wanted, self.taken)

    def constant(self, wanted: str, elements: Array) -> str:
        name = self.name(wanted)
        self.constants[name] = elements
        return name

    def squeezed(
        self, where: str, kept: str, axes: Sequence[int] | None, outputs: tuple[str, ...]
    ) -> FileNode:
        """A node that drops axes."""
        node = FileNode("Squeeze", where, (kept,), outputs)
        return along(node, axes, self.file.opset, lambda x: self.constant(f"{kept}/axes", x))

    def done(self) -> File:
        return replace(self.file, constants=self.constants, nodes=tuple(self.nodes))


def folded_constants(file: File) -> File:
    """Rewrite 1.  A DequantizeLinear of constants stays: it tells the scale of its elements."""
    new = _Growing.of(file)
    for node in file.nodes:
        if all(name in new.constants or not name for name in node.inputs) and node.outputs:
            arrays = [new.constants.get(name) for name in node.inputs]
            found = folded(node, arrays, file.opset) if node.name != DEQUANTISE else None
            if found is not None:
                new.constants.update(zip(node.outputs, found, strict=True))
                continue
        new.nodes.append(node)
    return new.done()


@frozen
class _Quantised:
    """Inputs of an operator on quantised tensors.

    Name of the floating-point operator; for each of its inputs the positions of (tensor, scale,
    zero point); positions of the output's scale and zero point; the position of the bias, whose
    scale is the product of those of input and weights; positions of inputs that are not quantised,
    which come first; and attributes that the operator on quantised tensors implies."""

    name: str
    operands: tuple[tuple[int, int, int], ...]
    output: tuple[int, int]
    bias: int | None = None
    plain: tuple[int, ...] = ()
    added: Mapping[str, Attribute] = field(default_factory=dict)


_TRIPLES = ((0, 1, 2), (3, 4, 5))
_QUANTISED: Mapping[str, _Quantised] = {
    "QLinearConv": _Quantised("Conv", _TRIPLES, (6, 7), bias=8),
    "QLinearMatMul": _Quantised("MatMul", _TRIPLES, (6, 7)),
    "QGemm": _Quantised("Gemm", _TRIPLES, (7, 8), bias=6),
    "QLinearAdd": _Quantised("Add", _TRIPLES, (6, 7)),
    "QLinearMul": _Quantised("Mul", _TRIPLES, (6, 7)),
    "QLinearGlobalAveragePool": _Quantised("GlobalAveragePool", _TRIPLES[:1], (3, 4)),
    "QLinearAveragePool": _Quantised(
        "AveragePool", _TRIPLES[:1], (3, 4), added={"count_beyond_pads": 1}
    ),
    "QLinearSigmoid": _Quantised("Sigmoid", _TRIPLES[:1], (3, 4)),
    "QLinearLeakyRelu": _Quantised("LeakyRelu", _TRIPLES[:1], (3, 4)),
    "QLinearSoftmax": _Quantised("Softmax", _TRIPLES[:1], (3, 4)),
    "QLinearReduceMean": _Quantised("ReduceMean", _TRIPLES[:1], (3, 4)),
    "QLinearWhere": _Quantised("Where", ((1, 2, 3), (4, 5, 6)), (7, 8), plain=(0,)),
}


# Takes any number of tensors, each followed by scale and zero point; those of the output are first.
_CONCATENATION = "QLinearConcat"


def quantised_names() -> tuple[str, ...]:
    """Names of the operators that take scales as inputs."""
    return (*_QUANTISED, _CONCATENATION)


def _real_operators(file: File) -> File:
    """Rewrite 2."""
    new = _Growing.of(file)
    for node in file.nodes:
        if node.name == _CONCATENATION:
            count = (len(node.inputs) - 2) // 3
            triples = tuple((2 + 3 * k, 3 + 3 * k, 4 + 3 * k) for k in range(count))
            new.nodes += _between(new, node, _Quantised("Concat", triples, (0, 1)))
        elif node.name in _QUANTISED:
            new.nodes += _between(new, node, _QUANTISED[node.name])
        else:
            new.nodes.append(node)
    return new.done()


def _between(new: _Growing, node: FileNode, form: _Quantised) -> Iterator[FileNode]:
    name = node.y if node.outputs else ""
    reals: list[str] = []
    for k, triple in enumerate(form.operands):
        axis = -1 if form.name in ("Gemm", "MatMul") and not node.attributes.get("transB") else 0
        reals.append(new.name(f"{name}/real{k}"))
        inputs = tuple(_named(node, position) for position in triple)
        scales = new.constants.get(inputs[1])
        if scales is not None and scales.ndim > 1 and scales.size != scales.shape[-1]:
            raise UnsupportedError(
                "onnx-007",
                f"{node.name} has scales of shape {list(scales.shape)}, must have one, or one for "
                "each column",
                where=node.where,
                help="quantise the model again without per-channel scales (per_channel=False)",
            )
        yield FileNode(DEQUANTISE, node.where, inputs, (reals[k],), {"axis": axis})
    bias = _named(node, form.bias, optional=True) if form.bias is not None else ""
    if bias:
        scale = _bias_scale(new, node, form)
        reals.append(new.name(f"{name}/real_bias"))
        inputs = (bias, new.constant(f"{name}/bias_scale", scale))
        yield FileNode(DEQUANTISE, node.where, inputs, (reals[-1],), {"axis": 0})
    attributes = {**node.attributes, **form.added}
    is_real = form.name == "Gemm" and not _named(node, form.output[0], optional=True)
    real = name if is_real else new.name(f"{name}/real")
    plain = (_named(node, position) for position in form.plain)
    yield FileNode(form.name, node.where, (*plain, *reals), (real,), attributes)
    if is_real:  # QGemm without a scale of its output
        return
    output = tuple(_named(node, position) for position in form.output)
    yield FileNode(QUANTISE, node.where, (real, *output), node.outputs[:1])


def _bias_scale(new: _Growing, node: FileNode, form: _Quantised) -> Array:
    found = [new.constants.get(_named(node, scale)) for _, scale, _ in form.operands]
    if found[0] is None or found[1] is None:
        raise wrong(node, "scales are computed, must be constant")
    return (found[0].ravel().astype(np.float64) * found[1].ravel()).astype(np.float32)


def _named(node: FileNode, position: int, *, optional: bool = False) -> str:
    if position < len(node.inputs) and (node.inputs[position] or optional):
        return node.inputs[position]
    if optional:
        return ""
    raise wrong(node, f"input {position} is missing, there are {len(node.inputs)}")


def _quantised_once(file: File) -> File:
    """Rewrite 2, around Transposes that spread channels, where quantisation returns the elements of
    which it was given the numbers."""
    spreads = [n for n in file.nodes if n.attributes.get("perm") in _SHUFFLES]
    spread = {name for node in spreads for name in (*node.inputs, *node.outputs)}
    held: dict[str, tuple[Array, ...]] = {}  # by name of real numbers: scale and zero point
    moved: dict[str, str] = {}  # by name of elements: the real numbers of which they are made
    same: dict[str, str] = {}
    nodes: list[FileNode] = []
    for node in file.nodes if spreads else ():
        if not node.graphs:
            node = replace(node, inputs=tuple(same.get(name, name) for name in node.inputs))
        nodes.append(node)
        x, *others = node.inputs or ("",)
        parts = tuple(file.constants[name] for name in others if name in file.constants)
        if node.name == QUANTISE and x in held and _are_equal(parts, held[x]):
            moved[node.outputs[0]] = x
        elif node.name == DEQUANTISE and len(parts) == 2 and parts[0].size == parts[1].size == 1:
            held[node.outputs[0]] = parts
            real = moved.get(x, x)
            is_same = _are_equal(parts, held.get(real, ()))
            if is_same and not spread.isdisjoint((*node.outputs, real)):
                same[node.outputs[0]] = real
        elif node.name in MOVING and x in held:
            held |= dict.fromkeys(node.outputs, held[x])
    return living(replace(file, nodes=tuple(nodes))) if spreads else file


def _are_equal(a: Sequence[Array], b: Sequence[Array]) -> bool:
    """Whether scale and zero point have the same values, and the zero points one type."""
    return [(x.dtype, x.tolist()) for x in a] == [(x.dtype, x.tolist()) for x in b]


def _plain_forms(file: File) -> File:
    """Rewrite 3."""
    new, quantised = _Growing.of(file), _quantised_next(file)
    sequences = {n.y: n for n in file.nodes if n.name == "SplitToSequence" and n.outputs}
    for node in file.nodes:
        if node.name == "Div" and len(node.inputs) == 2 and node.inputs[1] in file.constants:
            new.nodes.append(_product(new, node, quantised))
        elif node.name.startswith(_REDUCTIONS) and node.attributes.get("keepdims", 1) == 0:
            new.nodes += _kept_axes(new, node)
        elif node.name == "Gather" and _is_number(node, file):
            new.nodes += _gathered_element(new, node)
        elif node.name == "SequenceAt" and node.x in sequences:
            new.nodes += _part(new, node, sequences[node.x])
        elif node.name == "Transpose" and node.attributes.get("perm") in _SHUFFLES:
            new.nodes += _shuffled(new, node)
        else:
            new.nodes.append(node)
    return new.done()


_SHUFFLES: Mapping[Attribute, tuple[str, int]] = {
    (0, 1, 4, 2, 5, 3): ("CRD", 2),
    (0, 3, 4, 1, 5, 2): ("DCR", 1),
}
"""By the permutation of (batch, channels, H, W) whose channels are divided into three axes, or of
the same with the block's axes first: the mode of DepthToSpace, and the first axis of the block."""


def _shuffled(new: _Growing, node: FileNode) -> Iterator[FileNode]:
    """The Transpose between two Reshapes by which exporters spread blocks of channels over pixels,
    as DepthToSpace, whose elements have the same order; else the node itself."""
    nodes, (mode, first) = new.file.nodes, _SHUFFLES[node.attributes["perm"]]
    split = next((n for n in nodes if n.outputs == node.inputs), node)
    joins = [n for n in nodes if node.y in n.inputs]
    given = (new.constants.get(n.inputs[-1]) for n in (split, *joins) if n.name == "Reshape")
    shapes = [x.ravel().tolist() for x in given if x is not None]
    if (
        len(shapes) <= len(joins)
        or node.y in _outputs(new.file)
        or len(sizes := shapes[0]) != 6
        or min(sizes[1:]) < 1
        or sizes[first] != sizes[first + 1]
        # 0 takes an extent of the Transpose; the first two are those of the DepthToSpace.
        or any(0 in shape[2:] for shape in shapes[1:])
    ):
        yield node
        return
    block, name = sizes[first], node.y
    channels = math.prod(sizes[1:4])
    image = np.array([sizes[0], channels, *sizes[4:]], np.int64)
    shape = new.constant(f"{name}/shape", image)
    joined = new.name(f"{name}/image")
    yield FileNode("Reshape", node.where, (split.x, shape), (joined,))
    attributes: dict[str, Attribute] = {"blocksize": block, "mode": mode}
    yield FileNode("DepthToSpace", node.where, (joined,), node.outputs, attributes)


_INDICES = ("ArgMax", "ArgMin")
_REDUCTIONS = ("Reduce", *_INDICES)


def _is_number(node: FileNode, file: File) -> bool:
    """Whether input 1 is a constant of rank 0."""
    found = file.constants.get(node.inputs[1]) if len(node.inputs) == 2 else None
    return found is not None and found.ndim == 0


def _gathered_element(new: _Growing, node: FileNode) -> Iterator[FileNode]:
    name, index = node.y, new.constants[node.inputs[1]]
    listed = new.constant(f"{name}/indices", index.reshape(1))
    kept = new.name(f"{name}/kept")
    yield replace(node, inputs=(node.x, listed), outputs=(kept,))
    yield new.squeezed(node.where, kept, [whole(node, "axis", 0)], node.outputs)


def _part(new: _Growing, node: FileNode, split: FileNode) -> Iterator[FileNode]:
    """An element of a split tensor as a Slice, and a Squeeze if it has one axis less; the node
    itself unless the numbers are constant."""
    x, *sizes = split.inputs
    index, size = (new.constants.get(n) for n in (*node.inputs[1:], *(sizes or [""]))[:2])
    if index is None or index.size != 1 or int(index.item()) < 0 or (sizes and size is None):
        yield node
        return
    k, extents = int(index.item()), np.ones((), np.int64) if size is None else size
    first = int(extents * k if extents.ndim == 0 else extents[:k].sum())
    extent = int(extents if extents.ndim == 0 else extents[min(k, len(extents) - 1)])
    axis = whole(split, "axis", 0)
    drops = not sizes and not whole(split, "keepdims", 1)
    numbers = {"starts": first, "ends": first + extent, "axes": axis}
    name = node.y
    listed = {
        key: new.constant(f"{name}/{key}", np.array([number], np.int64))
        for key, number in numbers.items()
    }
    target = new.name(f"{name}/kept") if drops else name
    yield FileNode("Slice", node.where, (x, *listed.values()), (target,))
    if drops:
        yield new.squeezed(node.where, target, [axis], (name,))


def _quantised_next(file: File) -> frozenset[str]:
    """Names of tensors that nothing but QuantizeLinear reads."""
    others = (n for node in file.nodes if node.name != QUANTISE for n in node.inputs)
    read = (node.x for node in file.nodes if node.name == QUANTISE)
    return frozenset(read).difference(others, _outputs(file))


def _product(new: _Growing, node: FileNode, quantised: frozenset[str]) -> FileNode:
    """Mul by the reciprocal of a constant whose elements have one magnitude, unless rounding may
    tell that from the quotient."""
    divisor = new.constants[node.inputs[1]]
    if divisor.dtype.kind != "f" or not np.all(divisor) or len(np.unique(np.abs(divisor))) > 1:
        return node
    is_exact = bool((np.frexp(divisor)[0] == np.copysign(0.5, divisor)).all())
    if not is_exact and quantised.isdisjoint(node.outputs):
        return node
    name = new.constant(f"{node.y}/reciprocal", (1 / divisor).astype(np.float32))
    return replace(node, name="Mul", inputs=(node.x, name))


def _kept_axes(new: _Growing, node: FileNode) -> Iterator[FileNode]:
    constants = [new.constants.get(name) for name in node.inputs]
    axes = (whole(node, "axis", 0),) if node.name in _INDICES else listed_axes(node, constants)
    kept = new.name(f"{node.y}/kept")
    attributes = {**node.attributes, "keepdims": 1}
    yield replace(node, attributes=attributes, outputs=(kept,))
    yield new.squeezed(node.where, kept, axes, node.outputs)


def _explicit_zeros(file: File) -> File:
    """Rewrite 3 for operators on integers.  It needs the types of all tensors, which those that
    control flow writes have once it is decided."""
    if any(node.graphs for node in file.nodes):
        return file
    new, types = _Growing.of(file), element_types(file)
    for node in file.nodes:
        if node.name == "CastLike" and node.outputs:
            code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(types[node.y]))
            node = replace(node, name="Cast", inputs=node.inputs[:1], attributes={"to": code})
        x, *others = node.inputs or ("",)
        if _interpolates(node) and types[x] in EIGHT_BITS:
            new.nodes += _between_reals(new, node, types[x])
            continue
        if node.name not in ("Relu", "Pad") or types[x] == REAL or not node.outputs:
            new.nodes.append(node)
            continue
        name = f"{node.y}/zero"
        if node.name == "Relu":
            zero = new.constant(name, np.zeros((), types[x]))
            node = replace(node, name="Clip", inputs=(x, zero))
        elif others and not any(others[1:2]):
            zero = new.constant(name, np.zeros((), types[x]))
            node = replace(node, inputs=(x, others[0], zero, *others[2:]))
        new.nodes.append(node)
    return new.done()


def _interpolates(node: FileNode) -> bool:
    mode = node.attributes.get("mode", "nearest")
    return node.name in ("Resize", "Upsample") and mode != "nearest" and bool(node.outputs)


def _between_reals(new: _Growing, node: FileNode, dtype: str) -> Iterator[FileNode]:
    """The node on integers as real numbers, which are rounded afterwards.

    onnxruntime cuts fractions off instead, and so is less by up to one."""
    y = node.y
    one = new.constant(f"{y}/one", np.ones((), np.float32))
    zero = new.constant(f"{y}/zero", np.zeros((), dtype))
    x, real = new.name(f"{y}/x"), new.name(f"{y}/real")
    yield FileNode(DEQUANTISE, node.where, (node.x, one, zero), (x,))
    yield replace(node, inputs=(x, *node.inputs[1:]), outputs=(real,))
    yield FileNode(QUANTISE, node.where, (real, one, zero), (y,))


def living(file: File) -> File:
    """Rewrite 1: the model without nodes on which no output depends."""
    wanted = {*_outputs(file)}
    kept: list[FileNode] = []
    for node in reversed(file.nodes):
        if not wanted.isdisjoint(node.outputs):
            wanted.update(node.inputs)
            kept.append(node)
    return replace(file, nodes=tuple(reversed(kept)))


@frozen
class _Readers:
    """Number of readers of each name, outputs of the model included, and its writing node."""

    counts: Mapping[str, int]
    writers: Mapping[str, FileNode]

    @staticmethod
    def of(file: File) -> _Readers:
        counts: dict[str, int] = {}
        for name in (*(n for node in file.nodes for n in node.inputs), *_outputs(file)):
            counts[name] = counts.get(name, 0) + 1
        return _Readers(counts, {n: node for node in file.nodes for n in node.outputs})

    def only_from(self, name: str, writer: str) -> FileNode | None:
        """The node of that kind that writes a name with a single reader; None if there is none."""
        found = self.writers.get(name)
        if found is None or found.name != writer or self.counts.get(name) != 1:
            return None
        return found


def _outputs(file: File) -> tuple[str, ...]:
    return tuple(border.name for border in file.outputs)


def _folded_norms(file: File) -> File:
    """Rewrite 4 for BatchNormalization."""
    readers, new = _Readers.of(file), _Growing.of(file)
    gone: dict[str, FileNode] = {}
    for node in file.nodes:
        layer = _layer_before(node, readers) if _is_norm(node) else None
        if layer is not None and (merged := _with_norm(new, layer, node, readers)) is not None:
            gone[layer.y] = merged
    added, new.nodes = new.nodes, _replaced(file, gone)
    new.nodes[:0] = added
    return new.done()


def _is_norm(node: FileNode) -> bool:
    is_of_inference = len(node.outputs) == 1 and not node.attributes.get("training_mode")
    return node.name == "BatchNormalization" and len(node.inputs) == 5 and is_of_inference


def _layer_before(norm: FileNode, readers: _Readers) -> FileNode | None:
    """The layer whose output only this node reads; None if there is none that takes it in."""
    for name in ("Conv", "ConvTranspose", "Gemm"):
        found = readers.only_from(norm.x, name)
        if found is not None:
            plain = name != "Gemm" or all(
                found.attributes.get(key, 1) == 1 for key in ("alpha", "beta")
            )
            grouped = name == "ConvTranspose" and found.attributes.get("group", 1) != 1
            return found if plain and not grouped else None
    return None


def _output_axis(layer: FileNode) -> int:
    if layer.name == "Gemm":
        return 0 if layer.attributes.get("transB", 0) else 1
    return int(layer.name == "ConvTranspose")


def _replaced(file: File, gone: Mapping[str, FileNode]) -> list[FileNode]:
    """The nodes without those that write a name in `gone`."""
    # The fused node replaces the second of the two, so that all its inputs are available.
    merged = {node.y: node for node in gone.values()}
    kept = (n for n in file.nodes if not (n.outputs and n.y in gone))
    return [merged.get(n.y, n) if n.outputs else n for n in kept]


def _with_norm(
    new: _Growing, layer: FileNode, norm: FileNode, readers: _Readers
) -> FileNode | None:
    """The layer with the normalisation folded into weights and bias; None if a constant is missing
    or has the wrong shape.  Weights may be quantised: their elements stay, apart from their sign,
    and their scales are multiplied, which is exact."""
    x, kernel, bias, *_ = (*layer.inputs, "", "", "")
    found = [new.constants.get(name) for name in norm.inputs[1:]]
    weights = _constant_weights(new, readers, kernel)
    offsets = _reals(new, readers, bias) if bias else _NO_BIAS
    if offsets is None or weights is None or any(c is None or c.dtype.kind != "f" for c in found):
        return None
    scale, offset, mean, variance = (c.astype(np.float64) for c in found if c is not None)
    axis = _output_axis(layer)
    channels = weights.elements.shape[axis : axis + 1]
    epsilon = norm.attributes.get("epsilon", 1e-5)
    fits = {c.shape for c in (scale, offset, mean, variance)} == {channels}
    if not fits or offsets.shape not in (channels, ()) or not isinstance(epsilon, float):
        return None
    with np.errstate(all="ignore"):
        factors = scale / np.sqrt(variance + epsilon)
        shift = offset + (offsets - mean) * factors
        name = norm.y
        folded = _scaled_weights(new, norm, weights, factors, axis)
        bias = new.constant(f"{name}/bias", shift.astype(np.float32))
    return (
        None if folded is None else replace(layer, inputs=(x, folded, bias), outputs=norm.outputs)
    )


_NO_BIAS = np.zeros((), np.float32)
LEAST_SCALE = 2.0**-100  # Weights of smaller scales, which dead channels have, are 0.


@frozen
class _Weights:
    """Constant weights; `scales` and `points` are those of quantised ones, along `axis` if there
    are several."""

    elements: Array
    scales: Array | None = None
    points: Array | None = None
    axis: int = 0


def _constant_weights(new: _Growing, readers: _Readers, name: str) -> _Weights | None:
    if name in new.constants:
        found = new.constants[name]
        return _Weights(found) if found.dtype.kind == "f" else None
    node = readers.writers.get(name)
    if node is None or node.name != DEQUANTISE or node.attributes.get("block_size"):
        return None
    parts = [new.constants.get(part) if part else None for part in (*node.inputs, "")[:3]]
    elements, scales, points = parts
    axis = node.attributes.get("axis", 1)
    if elements is None or scales is None or not isinstance(axis, int) or not elements.ndim:
        return None
    if points is None and len(node.inputs) > 2 and node.inputs[2]:
        return None
    points = np.zeros(scales.shape, elements.dtype) if points is None else points
    return _Weights(elements, scales.ravel(), points.ravel(), axis % elements.ndim)


def _reals(new: _Growing, readers: _Readers, name: str) -> Array | None:
    """Real numbers of a constant, which may be the result of dequantising one."""
    found = _constant_weights(new, readers, name)
    if found is None or found.scales is None or found.points is None:
        return None if found is None else found.elements.astype(np.float64)
    steps = found.elements.astype(np.float64) - _along(found.points, found)
    return steps * _along(found.scales, found)


def _along(numbers: Array, weights: _Weights) -> Array:
    shape = [1] * weights.elements.ndim
    shape[weights.axis] = -1
    return numbers.reshape(shape if numbers.size > 1 else ()).astype(np.float64)


def _scaled_weights(
    new: _Growing, norm: FileNode, weights: _Weights, factors: Array, axis: int
) -> str | None:
    """Name of the weights times `factors` along an axis; None if they have scales along another."""
    name, elements = norm.y, weights.elements
    shape = [1] * elements.ndim
    shape[axis] = -1
    if weights.scales is None or weights.points is None:
        scaled = elements * factors.astype(np.float32).reshape(shape)
        return new.constant(f"{name}/weights", scaled)
    if weights.scales.size > 1 and weights.axis != axis:
        return None
    products = np.abs(factors) * weights.scales.astype(np.float64)
    kept = products > LEAST_SCALE
    scales = np.where(kept, products, 1.0)
    points = np.broadcast_to(weights.points, factors.shape)
    # ~q - ~z = z - q, so complements change the sign without leaving the element type.
    points = np.where(factors < 0, ~points, points)
    elements = np.where(factors.reshape(shape) < 0, ~elements, elements)
    elements = np.where(kept.reshape(shape), elements, points.reshape(shape))
    parts = (
        new.constant(f"{name}/elements", elements),
        new.constant(f"{name}/scales", scales.astype(np.float32)),
        new.constant(f"{name}/points", points),
    )
    real = new.name(f"{name}/weights")
    new.nodes.append(FileNode(DEQUANTISE, norm.where, parts, (real,), {"axis": axis}))
    return real


def _folded_biases(file: File) -> File:
    """Rewrite 4 for Add."""
    readers, new = _Readers.of(file), _Growing.of(file)
    gone: dict[str, FileNode] = {}
    for node in file.nodes:
        for product, bias in _either_way(node):
            found = readers.only_from(product, "MatMul")
            if found is not None and _is_bias(new, found, bias, readers):
                gone[product] = replace(found, inputs=(*found.inputs, bias), outputs=node.outputs)
                break
    new.nodes = _replaced(file, gone)
    return new.done()


def _either_way(node: FileNode) -> tuple[tuple[str, str], ...]:
    """Both orders of the inputs of an Add."""
    if node.name != "Add" or len(node.inputs) != 2:
        return ()
    a, b = node.inputs
    return (a, b), (b, a)


def _is_bias(new: _Growing, product: FileNode, bias: str, readers: _Readers) -> bool:
    constants: list[Array | None] = []
    for name in (product.inputs[-1], bias):
        writer = readers.writers.get(name)
        source = writer.x if writer and writer.name == DEQUANTISE else name
        constants.append(new.constants.get(source))
    matrix, vector = constants
    if len(product.inputs) != 2 or matrix is None or vector is None:
        return False
    return matrix.ndim == 2 and vector.shape == matrix.shape[1:]
