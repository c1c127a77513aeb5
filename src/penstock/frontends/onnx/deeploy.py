"""Deeploy's dialect: networks of integers, in tensors that the file declares as real numbers.

A file is of this dialect if it has one of `NAMES`.  All of its tensors hold integers: elements of 8
bits that RequantShift, a softmax or a normalisation yields, and sums in int32.  The rewritten file
is one of real numbers that DequantizeLinear yields with scale 1, and of int32:

    RequantShift   y = clamp((x * mul + add + div / 2) >> log2(div))
                   of a layer's sums: the layer itself, which states its multipliers
                   of a function of 8-bit elements: a table
                   of other int32: an operator
    iGELU, iHardswish, TrueIntegerDiv
                   functions of 8-bit elements, tabulated with what follows
    iSoftmax, ITAMax, ITAPartialMax, iLayerNorm, iRMSNorm
                   operators (`ops/integer_vectors.py`)
    iNoNorm, IntegerMean
                   arithmetic on int32

Inputs hold int8 unless `Reading.integers` states otherwise.

Sources: quantlib (pulp-platform), `algorithms/pact/pact_ops.py`, which defines these operators in
real arithmetic on integers; Deeploy, `Deeploy/Targets/Generic`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.errors import PenstockError, UnsupportedError
from penstock.fixedpoint import Int64s
from penstock.frontends.onnx.element_types import REAL
from penstock.frontends.onnx.file import Border, File, FileNode
from penstock.frontends.onnx.folding import listed_axes, whole, wrong
from penstock.frontends.onnx.functions import shapes_of
from penstock.frontends.onnx.operators import CAST, DEQUANTISE, EIGHT_BITS, MOVING, QUANTISE
from penstock.frozen import frozen
from penstock.ir.foreign import Attribute
from penstock.ir.graph import free_name
from penstock.ir.operator_facts import OnnxName
from penstock.ir.tensor import Array
from penstock.opkit.layers import other_axes
from penstock.opkit.requantise import ADDENDS, MULTIPLIERS, SHIFT

NAMES = (
    *("RequantShift", "TrueIntegerDiv", "iGELU", "iHardswish", "iSoftmax", "ITAMax"),
    *("ITAPartialMax", "iLayerNorm", "iRMSNorm", "iNoNorm", "IntegerMean"),
)
DOMAINS = ("", "PACTOps", "ai.onnx.contrib")
INT32 = "int32"
MOST_EXACT = 2**24  # Integers below are exact in single precision.
LAYERS = ("Conv", "MatMul", "Gemm")


def of_integers(
    file: File,
    integers: Mapping[str, str],
    extents: Mapping[str, int],
    operators: Mapping[str, OnnxName],
) -> File:
    """The model with ONNX's operators, and operators of this project, for the dialect's; itself if
    it is not of the dialect.

    `integers`: element types of inputs, by name; `extents`: of symbolic dimensions; `operators`: by
    ONNX name.  Raises UnsupportedError for parameters without a form on integers, and ModelError
    for malformed nodes."""
    nodes = tuple(replace(node, name=_own_name(node)) for node in file.nodes)
    if not any(node.name in NAMES for node in nodes):
        return file
    file = replace(file, nodes=nodes)
    new = _Writer(file, integers, operators, _shapes(file, extents), dict(file.constants))
    return new.file_of_integers()


def _own_name(node: FileNode) -> str:
    domain, _, name = node.name.rpartition(".")
    return name if domain in DOMAINS and name in NAMES else node.name


def _shapes(file: File, extents: Mapping[str, int]) -> Mapping[str, tuple[int, ...] | None]:
    """Shapes of tensors: the dialect's operators keep that of their input, but for a mean."""
    nodes: list[FileNode] = []
    for node in file.nodes:
        if node.name == "IntegerMean":
            axes = {"axes": listed} if (listed := listed_axes(node, [])) else {}
            node = replace(node, name="ReduceMean", attributes={**node.attributes, **axes})
        elif node.name in NAMES:
            node = replace(node, name="Identity", inputs=node.inputs[:1], attributes={}, tensors={})
        nodes.append(node)
    return shapes_of(replace(file, nodes=tuple(nodes)), extents)


@frozen
class _Bounds:
    """Smallest and largest integer of a tensor, both inclusive."""

    lower: int
    upper: int

    @property
    def size(self) -> int:
        return max(-self.lower, self.upper)

    @property
    def dtype(self) -> str | None:
        """The smallest element type that holds them; None if int32 is too small."""
        for dtype in (*EIGHT_BITS, INT32):
            held = np.iinfo(dtype)
            if held.min <= self.lower and self.upper <= held.max:
                return dtype
        return None

    @staticmethod
    def held_by(dtype: str) -> _Bounds:
        held = np.iinfo(dtype)
        return _Bounds(int(held.min), int(held.max))

    @staticmethod
    def of(values: Array) -> _Bounds:
        return _Bounds(int(values.min()), int(values.max()))


@frozen
class _Bytes:
    """Real numbers that DequantizeLinear yields from elements of 8 bits, with scale 1."""

    name: str
    dtype: str
    bounds: _Bounds


@frozen
class _Function:
    """A function of elements of 8 bits that is not computed yet: its values for the elements of
    their type, in ascending order."""

    source: _Bytes
    values: Int64s

    @property
    def bounds(self) -> _Bounds:
        return _Bounds.of(self.values)


@frozen
class _Sums:
    """Sums of products of a layer, times `factor`, that are not computed yet.

    `weights`: constant integers, as the node has them, or None where both operands are computed;
    `bias`: of each output channel, in units of the products times the factor."""

    node: FileNode
    operands: tuple[_Bytes, ...]
    weights: Int64s | None
    bias: Int64s | None
    factor: int
    reach: int

    @property
    def attributes(self) -> Mapping[str, Attribute]:
        """Those of the node but for its factors."""
        return {k: v for k, v in self.node.attributes.items() if k not in ("alpha", "beta")}

    @property
    def bounds(self) -> _Bounds:
        most = self.reach * abs(self.factor)
        most += 0 if self.bias is None else int(np.abs(self.bias).max(initial=0))
        return _Bounds(-most, most)


@frozen
class _Wide:
    """A tensor of int32."""

    name: str
    bounds: _Bounds


_Form = _Bytes | _Function | _Sums | _Wide


def _refused(node: FileNode, what: str, help: str = "") -> UnsupportedError:
    return UnsupportedError(
        "onnx-007",
        f"{node.name}: {what}",
        where=node.where,
        why="the networks of Deeploy compute on integers",
        help=help or "export the model again with integer parameters",
        cause=f"operator {node.name}",
    )


@dataclass(slots=True)
class _Writer:
    """Writes the file of integers; `forms`: what the tensors of the file are."""

    file: File
    integers: Mapping[str, str]
    operators: Mapping[str, OnnxName]
    shapes: Mapping[str, tuple[int, ...] | None]
    constants: dict[str, Array]
    nodes: list[FileNode] = field(default_factory=list)
    forms: dict[str, _Form] = field(default_factory=dict)
    wide: dict[str, _Wide] = field(default_factory=dict)
    node: FileNode = field(default_factory=lambda: FileNode("", "", (), ()))

    def file_of_integers(self) -> File:
        for border in self.file.inputs:
            self.node = FileNode("input", f'{self.file.name}: input "{border.name}"', (), ())
            self._input(border)
        for node in self.file.nodes:
            self.node = node
            try:
                self._node(node)
            except PenstockError:
                raise
            except ValueError as error:
                raise wrong(node, str(error)) from error
        written = {name for node in self.nodes for name in node.outputs}
        for border in self.file.outputs:
            self.node = FileNode("output", f'{self.file.name}: output "{border.name}"', (), ())
            if border.name in self.forms and border.name not in written:
                self._add("Identity", (self._real(border.name),), border.name)
        return replace(self.file, nodes=tuple(self.nodes), constants=self.constants)

    # Nodes and constants.

    def _add(self, operator: str, inputs: Iterable[str], target: str, **given: Attribute) -> str:
        self.nodes.append(FileNode(operator, self.node.where, tuple(inputs), (target,), given))
        return target

    def _made(self, operator: str, *inputs: str, **given: Attribute) -> str:
        """The name of the result of a new node."""
        label = next(iter(self.node.outputs), "integers")
        return self._add(operator, inputs, self._free(label), **given)

    def _free(self, label: str) -> str:
        taken = self.file.names() | self.constants.keys()
        taken = taken.union(*(node.outputs for node in self.nodes[-1:]))
        return free_name(f"{label}#{len(self.nodes)}", frozenset(taken))

    def _constant(self, elements: Array) -> str:
        name = free_name(f"integers#{len(self.constants)}", self.file.names())
        self.constants[name] = elements
        return name

    def _number(self, value: int, dtype: str) -> str:
        return self._constant(np.array(value, dtype))

    def _cast(self, name: str, dtype: str) -> str:
        code = {REAL: 1, INT32: 6}[dtype]
        return self._made(CAST, name, to=code)

    # Forms of tensors.

    def _input(self, border: Border) -> None:
        dtype = self.integers.get(border.name, "int8" if border.dtype == REAL else border.dtype)
        name = border.name
        if dtype not in (*EIGHT_BITS, INT32):
            return
        bounds = _Bounds.held_by(dtype)
        if dtype == INT32:
            wide = name if border.dtype == INT32 else self._cast(name, INT32)
            self.forms[name] = _Wide(wide, bounds)
        elif border.dtype == dtype:
            self.forms[name] = self._dequantised(name, self._free(name), bounds)
        else:
            real = name if border.dtype == REAL else self._cast(name, REAL)
            self.forms[name] = self._bytes(real, self._free(name), bounds)

    def _bytes(self, real: str, target: str, bounds: _Bounds) -> _Bytes:
        """Real numbers within bounds as the elements that hold them."""
        dtype = bounds.dtype
        assert dtype in EIGHT_BITS, f"{bounds} are elements of 8 bits"
        if bounds != _Bounds.held_by(dtype):
            ends = (np.array(end, np.float32) for end in (bounds.lower, bounds.upper))
            real = self._made("Clip", real, *map(self._constant, ends))
        return self._dequantised(self._made(QUANTISE, real, *self._unit(dtype)), target, bounds)

    def _unit(self, dtype: str) -> tuple[str, str]:
        """Scale 1 and zero point 0 of elements of a type."""
        return self._constant(np.array(1, np.float32)), self._number(0, dtype)

    def _dequantised(self, elements: str, target: str, bounds: _Bounds) -> _Bytes:
        dtype = bounds.dtype
        assert dtype is not None
        self._add(DEQUANTISE, (elements, *self._unit(dtype)), target)
        return _Bytes(target, dtype, bounds)

    def _refused(self, what: str, help: str = "") -> UnsupportedError:
        return _refused(self.node, what, help)

    def _whole(self, name: str) -> Int64s:
        """The integers of a constant.  Raises UnsupportedError for others."""
        found = self.constants.get(name)
        if found is None:
            raise self._refused(f'"{name}" is computed, must be constant')
        elements = np.asarray(found, np.float64)
        if not (np.isfinite(elements) & (elements == np.rint(elements))).all():
            raise self._refused(f'constant "{name}" holds other numbers than integers')
        if np.abs(elements).max(initial=0) >= 2**31:
            raise self._refused(f'constant "{name}" holds integers of more than 32 bits')
        return elements.astype(np.int64)

    def _real(self, name: str) -> str:
        """The name of the tensor as real numbers."""
        form = self.forms.get(name)
        if form is None or name in self.constants:
            return name
        return form.name if isinstance(form, _Bytes) else self._cast(self._wide(name).name, REAL)

    def _wide(self, name: str) -> _Wide:
        """The tensor, or constant, as int32."""
        if name not in self.wide:
            self.wide[name] = self._widened(name)
        return self.wide[name]

    def _widened(self, name: str) -> _Wide:
        form = self.forms.get(name)
        if form is None and name in self.constants:
            elements = self._whole(name)
            return _Wide(self._constant(elements.astype(np.int32)), _Bounds.of(elements))
        if form is None:
            node = self._first_of_reals(name)
            raise _refused(node, f'"{node.y}" holds real numbers, must hold integers')
        if form.bounds.dtype is None:
            raise self._refused(f'"{name}" reaches {form.bounds.size}, must fit int32')
        match form:
            case _Bytes():
                return _Wide(self._cast(self._elements(form), INT32), form.bounds)
            case _Function():
                return _Wide(self._looked_up(form), form.bounds)
            case _Sums():
                return _Wide(self._sums(name, form), form.bounds)
            case _Wide():
                return form

    def _first_of_reals(self, name: str) -> FileNode:
        """The node from which a tensor has no form on integers; the current one for an input."""
        for node in self.file.nodes:
            if name in node.outputs:
                before = (x for x in node.inputs if x and x not in self.constants)
                unknown = next((x for x in before if x not in self.forms), name)
                return node if unknown == name else self._first_of_reals(unknown)
        return replace(self.node, outputs=(name,))

    def _elements(self, form: _Bytes) -> str:
        """The elements of 8 bits."""
        return self._made(QUANTISE, form.name, *self._unit(form.dtype))

    def _looked_up(self, form: _Function) -> str:
        table = self._constant(form.values.astype(np.int32))
        index = self._cast(self._elements(form.source), INT32)
        first = np.iinfo(form.source.dtype).min
        if first:
            index = self._made("Sub", index, self._number(first, INT32))
        return self._made("Gather", table, index, axis=0)

    def _sums(self, name: str, form: _Sums) -> str:
        """Sums by a layer of real numbers, where single precision is exact."""
        if form.reach >= MOST_EXACT:
            raise _refused(
                form.node,
                f'its sums "{name}" reach {form.reach}, must be below {MOST_EXACT} unless a '
                "RequantShift reads them",
                help="end the layer with a RequantShift",
            )
        inputs = [operand.name for operand in form.operands]
        if form.weights is not None:
            inputs.append(self._constant(form.weights.astype(np.float32)))
        found = self._cast(self._made(form.node.name, *inputs, **form.attributes), INT32)
        if form.factor != 1:
            found = self._made("Mul", found, self._number(form.factor, INT32))
        if form.bias is not None:
            axes = (1,) * (form.weights.ndim - 2 if form.weights is not None else 0)
            shape = (-1, *axes) if form.node.name == "Conv" else (-1,)
            bias = form.bias.reshape(shape).astype(np.int32)
            found = self._made("Add", found, self._constant(bias))
        return found

    # Nodes of the file.

    def _node(self, node: FileNode) -> None:
        if not node.inputs or not node.outputs or all(n in self.constants for n in node.inputs):
            self.nodes.append(node)
            return
        known = [self.forms.get(name) for name in node.inputs]
        if node.name in NAMES:
            self._of_dialect(node)
        elif node.name in LAYERS and isinstance(known[0], _Bytes) and self._is_layer(node):
            self._layer(node)
        elif node.name in ("Add", "Sub", "Mul") and len(node.inputs) == 2 and self._all_known(node):
            self._arithmetic(node)
        elif self._selects(node) and any(form is not None for form in known):
            self._selection(node)
        else:
            inputs = tuple(self._real(name) for name in node.inputs)
            self.nodes.append(replace(node, inputs=inputs))

    def _all_known(self, node: FileNode) -> bool:
        return all(name in self.forms or name in self.constants for name in node.inputs)

    def _selects(self, node: FileNode) -> bool:
        asked = self.operators.get(node.name)
        return node.name in MOVING or (asked is not None and asked.carries_in(node.attributes))

    def _selection(self, node: FileNode) -> None:
        """A node whose outputs' elements are elements of its inputs."""
        read = [name for name in node.inputs if name in self.forms]
        found = [form for name in read if isinstance(form := self.forms[name], _Bytes)]
        if len(found) == len(read) and len({form.dtype for form in found}) == 1:
            self.nodes.append(replace(node, inputs=tuple(map(self._real, node.inputs))))
            bounds = _Bounds.held_by(found[0].dtype)
            for output in node.outputs:
                self.forms[output] = _Bytes(output, found[0].dtype, bounds)
            return
        wide = {name: self._wide(name) for name in read}
        inputs = tuple(wide[name].name if name in wide else name for name in node.inputs)
        outputs = tuple(self._free(name) for name in node.outputs)
        self.nodes.append(replace(node, inputs=inputs, outputs=outputs))
        bounds = _Bounds(
            min(form.bounds.lower for form in wide.values()),
            max(form.bounds.upper for form in wide.values()),
        )
        for name, output in zip(node.outputs, outputs, strict=True):
            self.forms[name] = _Wide(output, bounds)

    def _arithmetic(self, node: FileNode) -> None:
        """Add, Sub or Mul."""
        a, b = node.inputs
        if node.name == "Add" and self._takes_bias(node, a, b):
            return
        function = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[node.name]
        for k, (x, other) in enumerate(((a, b), (b, a))):
            pointwise = self._function(x)
            if pointwise is not None and other in self.constants:
                number = self._whole(other)
                if number.size == 1:
                    one = number.item()
                    values = self._of_values(
                        pointwise,
                        lambda v, k=k, one=one: function(v, one) if k == 0 else function(one, v),
                    )
                    self.forms[node.y] = replace(pointwise, values=values)
                    return
        operands = [self._wide(name) for name in (a, b)]
        bounds = [np.array([x.bounds.lower, x.bounds.upper], object) for x in operands]
        corners = np.array(function(bounds[0][:, None], bounds[1]), object)
        reach = _Bounds(int(corners.min()), int(corners.max()))
        if reach.dtype is None:
            raise self._refused(f"its results reach {reach.size}, must fit int32")
        found = self._made(node.name, *(x.name for x in operands))
        self.forms[node.y] = _Wide(found, reach)

    def _takes_bias(self, node: FileNode, a: str, b: str) -> bool:
        """Whether a constant is added to the sums of a layer, one number for each channel."""
        for sums, constant in ((a, b), (b, a)):
            form = self.forms.get(sums)
            if constant in self.constants and isinstance(form, _Sums) and form.weights is not None:
                bias = self._of_channels(node, self._whole(constant), form)
                if bias is None:
                    return False
                bias = bias if form.bias is None else form.bias + bias
                self.forms[node.y] = replace(form, bias=bias)
                return True
        return False

    def _of_channels(self, node: FileNode, numbers: Int64s, form: _Sums) -> Int64s | None:
        """Numbers that broadcast to a layer's output as one for each channel; None if others."""
        channels = _channels(form)
        if numbers.size == 1:
            return np.broadcast_to(numbers.ravel(), (channels,))
        shape, axis = self.shapes.get(form.node.y), _channel_axis(form)
        if numbers.size == channels and form.node.name == "Conv":
            return numbers.ravel()
        if numbers.size != channels or shape is None:
            return None
        wanted = [1] * len(shape)
        wanted[axis] = channels
        padded = (1,) * (len(shape) - numbers.ndim) + numbers.shape
        # quantlib's parameters of rank 1 are those of axis 1.
        is_listed = numbers.ndim == 1 and axis in (1, -len(shape) + 1)
        return numbers.ravel() if list(padded) == wanted or is_listed else None

    def _function(self, name: str) -> _Function | None:
        """The tensor as a function of elements of 8 bits; None if it is none."""
        form = self.forms.get(name)
        if isinstance(form, _Bytes):
            held = np.iinfo(form.dtype)
            return _Function(form, np.arange(held.min, held.max + 1, dtype=np.int64))
        return form if isinstance(form, _Function) else None

    def _pointwise(self, node: FileNode, function: Callable[[Array], Array]) -> None:
        """A function of elements of 8 bits.  Raises UnsupportedError for other elements."""
        found = self._function(node.x)
        if found is None:
            raise self._refused(
                f'its input "{node.x}" must be elements of 8 bits',
                help="put a RequantShift before it",
            )
        self.forms[node.y] = replace(found, values=self._of_values(found, function))

    def _of_values(self, source: _Function, function: Callable[[Array], Array]) -> Int64s:
        """The values of a function of a function.  Raises UnsupportedError beyond int32."""
        values = np.array(function(source.values.astype(object)), object)
        reach = _Bounds(min(values), max(values))
        if reach.dtype is None:
            raise self._refused(f"its results reach {reach.size}, must fit int32")
        return values.astype(np.int64)

    # Layers.

    def _is_layer(self, node: FileNode) -> bool:
        if len(node.inputs) < 2 or not node.inputs[1]:
            return False
        w = node.inputs[1]
        if w in self.constants:
            rank = self.constants[w].ndim
            return rank > 2 if node.name == "Conv" else rank == 2
        return node.name == "MatMul" and isinstance(self.forms.get(w), _Bytes)

    def _layer(self, node: FileNode) -> None:
        w, *bias = node.inputs[1:]
        x = self.forms[node.x]
        assert isinstance(x, _Bytes)
        factor = _whole_attribute(node, "alpha")
        if w not in self.constants:
            other, shape = self.forms[w], self.shapes.get(node.x)
            assert isinstance(other, _Bytes)
            # Where a shape is not known, only a RequantShift may read the sums.
            depth = MOST_EXACT if shape is None else shape[-1]
            reach = depth * x.bounds.size * other.bounds.size
            self.forms[node.y] = _Sums(node, (x, other), None, None, factor, reach)
            return
        weights = self._whole(w)
        axis = 0 if node.name == "Conv" or whole(node, "transB", 0) else 1
        sums = np.abs(weights).sum(axis=other_axes(weights, axis))
        reach = int(sums.max(initial=0)) * x.bounds.size
        found = _Sums(replace(node, inputs=node.inputs[:2]), (x,), weights, None, factor, reach)
        self.forms[node.y] = found
        if not bias or not bias[0]:
            return
        offsets = self._whole(bias[0]) * _whole_attribute(node, "beta")
        if np.abs(offsets).max(initial=0) >= 2**31:
            raise self._refused(f'its offset "{bias[0]}" is wider than 32 bits')
        each = self._of_channels(node, _as_channels(offsets, node), found)
        if each is not None:
            self.forms[node.y] = replace(found, bias=each)
            return
        sums, more = self._sums(node.y, found), _Bounds.of(offsets)
        total = self._made("Add", sums, self._constant(offsets.astype(np.int32)))
        bounds = _Bounds(found.bounds.lower + more.lower, found.bounds.upper + more.upper)
        self.forms[node.y] = _Wide(total, bounds)

    # The dialect.

    def _of_dialect(self, node: FileNode) -> None:
        match node.name:
            case "RequantShift":
                self._requantised(node)
            case "iNoNorm":
                self._of_no_norm(node)
            case "IntegerMean":
                self._of_mean(node)
            case "TrueIntegerDiv" | "iGELU" | "iHardswish":
                self._of_elements(node)
            case _:
                self._of_vectors(node)

    def _of_elements(self, node: FileNode) -> None:
        if node.name == "TrueIntegerDiv":
            delta, eta, eps, y = (_whole_number(node, k) for k in ("Delta", "eta", "eps", "y"))
            if y * eta + eps <= 0:
                raise self._refused(f"its divisor is {y * eta + eps}, must be above 0")
            self._multiplied(node, delta * eta // (y * eta + eps))
        elif node.name == "iGELU":
            b, one = _whole_number(node, "b"), _whole_number(node, "one")
            self._pointwise(node, lambda x: _gelu(x, b, one))
        else:
            three, six, sixth = (_whole_number(node, k) for k in ("three", "six", "one_over_six"))
            self._pointwise(node, lambda x: x * np.clip(x + three, 0, six) * sixth)

    def _multiplied(self, node: FileNode, factor: int) -> None:
        if self._function(node.x) is not None:
            self._pointwise(node, lambda x: x * factor)
            return
        x = self._wide(node.x)
        reach = _Bounds(*sorted((x.bounds.lower * factor, x.bounds.upper * factor)))
        if reach.dtype is None:
            raise self._refused(f"its results reach {reach.size}, must fit int32")
        found = self._made("Mul", x.name, self._number(factor, INT32))
        self.forms[node.y] = _Wide(found, reach)

    def _of_no_norm(self, node: FileNode) -> None:
        """((x * w + b) * mul) >> log2(D), clamped."""
        x, w, b = _inputs(node, 3)
        shift, multiplier, target = _shift(node, "D"), _whole_number(node, "mul"), node.y
        operands = [self._wide(name) for name in (x, w, b)]
        size = operands[0].bounds.size * operands[1].bounds.size + operands[2].bounds.size
        if size >= 2**31:
            raise self._refused(f"its sums reach {size}, must fit int32")
        product = self._made("Mul", operands[0].name, operands[1].name)
        total = self._made("Add", product, operands[2].name)
        # The requantisation adds half of the divisor.
        parts = np.array([2 * multiplier]), np.array([-1 << shift])
        stated = self._stated(*parts, shift + 1)
        real = self._made("RequantShift", total, **stated)
        self.forms[target] = self._bytes(real, target, _levels(node, signed=True))

    def _requantised(self, node: FileNode) -> None:
        shift, bounds = _shift(node, "div"), _levels(node)
        multiplier, addend = (self._whole(name) for name in _inputs(node, 3)[1:])
        if not shift:  # 2 x / 2 needs no rounding
            multiplier, addend, shift = 2 * multiplier, 2 * addend, 1
        source = self._function(node.x)
        form = self.forms.get(node.x)
        if source is not None and multiplier.size == addend.size == 1:
            products = source.values.astype(object) * multiplier.item() + addend.item()
            self._tabulated(node, source, products + (1 << shift - 1) >> shift, bounds)
            return
        target = node.y
        if isinstance(form, _Sums):
            found = self._requantised_layer(node, form, multiplier, addend, shift)
            if found is not None:
                self.forms[target] = self._bytes(found, target, bounds)
                return
        x = self._wide(node.x)
        found = self._requantised_sums(node, x, multiplier, addend, shift)
        self.forms[target] = self._bytes(found, target, bounds)

    def _tabulated(self, node: FileNode, source: _Function, values: Array, bounds: _Bounds) -> None:
        assert bounds.dtype is not None
        held, target = _Bounds.held_by(bounds.dtype), node.y
        # In the order of elements stored as int8, which is that of the elements.
        stored = np.clip(values, bounds.lower, bounds.upper) - held.lower - 128
        results = tuple(int(y) for y in stored)
        found = self._made("ElementTable", source.source.name, results=results)
        self.forms[target] = replace(self._bytes(found, target, held), bounds=bounds)

    def _requantised_layer(
        self, node: FileNode, form: _Sums, multiplier: Int64s, addend: Int64s, shift: int
    ) -> str | None:
        """The layer that requantises its sums; None if its weights are wider than int8, or if the
        parameters are not of its channels."""
        inputs = [operand.name for operand in form.operands]
        each = [self._of_channels(node, part, form) for part in (multiplier, addend)]
        multipliers, addends = each
        if multipliers is None or addends is None:
            return None
        bias = form.bias
        if form.factor != 1:
            addends = addends if bias is None else addends + bias * multipliers
            multipliers, bias = multipliers * form.factor, None
        if form.weights is not None:
            if _Bounds.of(form.weights).dtype != "int8":
                return None
            unit = self._constant(np.array(1, np.float32))
            inputs.append(
                self._made(DEQUANTISE, self._constant(form.weights.astype(np.int8)), unit)
            )
            if bias is not None:
                inputs.append(self._constant(bias.astype(np.float32)))
                if bias.size and np.abs(bias).max() >= MOST_EXACT:
                    return None
        elif len({*multipliers.tolist()}) > 1 or len({*addends.tolist()}) > 1:
            return None
        else:
            multipliers, addends = multipliers[:1], addends[:1]
        stated = self._stated(multipliers, addends, shift)
        return self._made(form.node.name, *inputs, **form.attributes, **stated)

    def _stated(self, multipliers: Int64s, addends: Int64s, shift: int) -> dict[str, Attribute]:
        for part in (multipliers, addends):
            if np.abs(part).max(initial=0) >= 2**31:
                raise self._refused("its parameters are wider than 32 bits")
        numbers = (tuple(int(n) for n in part) for part in (multipliers, addends))
        return {**dict(zip((MULTIPLIERS, ADDENDS), numbers, strict=True)), SHIFT: shift}

    def _requantised_sums(
        self, node: FileNode, x: _Wide, multiplier: Int64s, addend: Int64s, shift: int
    ) -> str:
        """The result for int32, along the one axis along which parameters differ."""
        if multiplier.size == addend.size == 1:
            stated = self._stated(multiplier.ravel(), addend.ravel(), shift)
            return self._made("RequantShift", x.name, **stated)
        shape = self.shapes.get(node.x)
        if shape is None:
            raise self._refused(f'the shape of "{node.x}" is not known')
        rank = len(shape)
        full = [_of_shape(part, shape) for part in (multiplier, addend)]
        axes = {axis for part in full for axis, extent in enumerate(part.shape) if extent > 1}
        if len(axes) != 1:
            raise self._refused("its parameters differ along several axes, must along one")
        axis = axes.pop()
        count = shape[axis]
        if any(part.size not in (1, count) for part in full):
            raise self._refused(f"it has parameters of other than {count} channels")
        every = [np.broadcast_to(part.ravel(), (count,)) for part in full]
        stated = self._stated(every[0], every[1], shift)
        if axis == 1:
            return self._made("RequantShift of channels", x.name, **stated)
        order = list(range(rank))
        order[1], order[axis] = axis, 1
        turned = self._made("Transpose", x.name, perm=tuple(order))
        found = self._made("RequantShift of channels", turned, **stated)
        return self._made("Transpose", found, perm=tuple(order))

    def _of_mean(self, node: FileNode) -> None:
        """The mean along axes, rounded to nearest: (2 sum + n) / 2 n, rounded down."""
        x, shape = self._wide(_inputs(node, 1)[0]), self.shapes.get(node.x)
        if shape is None:
            raise self._refused(f'the shape of "{node.x}" is not known')
        axes = listed_axes(node, []) or tuple(range(len(shape)))
        count = math.prod(shape[axis] for axis in axes)
        reach = count * x.bounds.size
        if 8 * reach >= 2**31:
            raise self._refused(f"its sums reach {reach}, too many for int32")
        given: dict[str, Attribute] = {"keepdims": whole(node, "keepdims", 1)}
        listed: tuple[str, ...] = ()
        if self.file.opset < AXES_ARE_INPUTS:
            given["axes"] = axes
        else:
            listed = (self._constant(np.array(axes, np.int64)),)
        total = self._made("ReduceSum", x.name, *listed, **given)
        # Above 0, so that truncation rounds down.
        offset = 2 * count * x.bounds.size + count
        doubled = self._made("Mul", total, self._number(2, INT32))
        above = self._made("Add", doubled, self._number(offset, INT32))
        quotient = self._made("Div", above, self._number(2 * count, INT32))
        found = self._made("Sub", quotient, self._number(x.bounds.size, INT32))
        if x.bounds.dtype in EIGHT_BITS:
            target = node.y
            self.forms[target] = self._bytes(self._cast(found, REAL), target, x.bounds)
        else:
            self.forms[node.y] = _Wide(found, x.bounds)

    def _of_vectors(self, node: FileNode) -> None:
        """A softmax or normalisation of vectors of elements of 8 bits."""
        x, target = self.forms.get(node.x), node.y
        is_norm = node.name in ("iLayerNorm", "iRMSNorm")
        bounds = _levels(node, signed=is_norm)
        if not isinstance(x, _Bytes):
            raise self._refused(
                f'its input "{node.x}" must be elements of 8 bits',
                help="put a RequantShift before it",
            )
        count = {"iLayerNorm": 3, "iRMSNorm": 2}.get(node.name, 1)
        constants = [self._whole(name).ravel() for name in _inputs(node, count)[1:]]
        if node.name == "iRMSNorm":
            constants.append(np.zeros_like(constants[0]))
        names = [self._constant(part.astype(np.int32)) for part in constants]
        given: dict[str, Attribute] = {"shift": _shift(node, "D")} if is_norm else {}
        match node.name:
            case "iSoftmax":
                coefficients = ("coeffA", "coeffB", "coeffC", "log2")
                powers = _powers(*(_whole_number(node, k) for k in coefficients))
                given = {"powers": powers, "most": bounds.upper}
            case "ITAMax":
                given = {"most": bounds.upper, "group_width": 0}
            case "ITAPartialMax":
                group = _whole_number(node, "group_width")
                given = {"most": (bounds.upper + 1) // 2 - 1, "group_width": group}
            case _:
                pass
        found = self._made(node.name, x.name, *names, **given)
        self.forms[target] = self._bytes(found, target, bounds)


AXES_ARE_INPUTS = 13  # The opset from which on ReduceSum has its axes as an input.


def _channels(form: _Sums) -> int:
    if form.weights is None:
        return 1
    return form.weights.shape[_output_axis(form.node)]


def _output_axis(node: FileNode) -> int:
    return 0 if node.name == "Conv" or whole(node, "transB", 0) else 1


def _channel_axis(form: _Sums) -> int:
    return 1 if form.node.name == "Conv" else -1


def _as_channels(bias: Int64s, node: FileNode) -> Int64s:
    """The bias of a Conv, (O), with the axes after the channels."""
    return bias.reshape(-1, *(1,) * 2) if node.name == "Conv" and bias.ndim == 1 else bias


def _of_shape(parameter: Int64s, shape: tuple[int, ...]) -> Int64s:
    """A parameter with the rank of the tensor.  One that does not broadcast to the tensor, and one
    of rank 1, run along axis 1, as in quantlib."""
    rank = len(shape)
    padded = parameter.reshape((1,) * (rank - parameter.ndim) + parameter.shape)
    fits = all(a in (1, b) for a, b in zip(padded.shape, shape, strict=True))
    if rank > 1 and parameter.size == shape[1] and (parameter.ndim == 1 or not fits):
        return parameter.reshape(1, -1, *(1,) * (rank - 2))
    return padded


def _inputs(node: FileNode, count: int) -> tuple[str, ...]:
    if len(node.inputs) != count or not all(node.inputs):
        raise wrong(node, f"it has {len(node.inputs)} inputs, must have {count}")
    return node.inputs


def _given(node: FileNode, *names: str) -> float:
    """An attribute that is a number, or a tensor of one; the first of these names that there is."""
    for name in names:
        value = node.attributes.get(name)
        tensor = node.tensors.get(name)
        if tensor is not None and tensor.size == 1:
            return float(tensor.item())
        if isinstance(value, tuple) and len(value) == 1:
            value = value[0]
        if isinstance(value, int | float):
            return float(value)
    raise wrong(node, f"it has no number as attribute {names[0]}")


def _whole_number(node: FileNode, *names: str) -> int:
    found = _given(node, *names)
    if not math.isfinite(found) or found != int(found) or abs(found) >= 2**32:
        raise _refused(node, f"{names[0]} is {found:g}, must be an integer of 32 bits")
    return int(found)


def _whole_attribute(node: FileNode, name: str) -> int:
    return _whole_number(node, name) if name in node.attributes else 1


def _shift(node: FileNode, name: str) -> int:
    """The logarithm of a divisor."""
    found = _whole_number(node, name)
    shift = found.bit_length() - 1
    if found < 1 or found != 1 << shift or shift > 31:
        raise _refused(node, f"{name} is {found}, must be a power of two within [1, 2**31]")
    return shift


def _levels(node: FileNode, *, signed: bool = False) -> _Bounds:
    levels = _whole_number(node, "n_levels", "n_levels_out")
    signed = bool(_whole_number(node, "signed")) if node.name == "RequantShift" else signed
    if not 1 < levels <= 256:
        raise _refused(node, f"n_levels is {levels}, must be within [2, 256]")
    if signed and levels % 2:
        raise _refused(node, f"n_levels is {levels}, must be even where results are signed")
    lower = -(levels // 2) if signed else 0
    return _Bounds(lower, lower + levels - 1)


def _gelu(x: Array, b: int, one: int) -> Array:
    bent = np.minimum(np.abs(x), -b) + b
    return x * (one + np.sign(x) * (one - bent * bent) >> 1)


def _powers(a: int, b: int, c: int, log2: int) -> tuple[int, ...]:
    """The powers of the differences 0 .. 255 to the maximum: a (p + b)^2 + c, halved z times."""
    if log2 < 1:
        return ()
    halvings = (divmod(difference, log2) for difference in range(256))
    return tuple(max(-1, a * (b - p) ** 2 + c >> z) for z, p in halvings)
