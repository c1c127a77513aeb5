"""The domain of each tensor of an ONNX model: integer elements, or real numbers.

Integer elements have an element type and no scale: they are what the tensor holds.  Those of 8 bits
are stored as int8, element = stored + offset, with offset 128 for uint8.  The quantisation of the
value that stores them is a label that DequantizeLinear replaces.

Real numbers are stored under a quantisation.  A tensor that DequantizeLinear yields, and what is
selected from it, has an exact one.  Any other tensor is rounded, so it is computed once for each
quantisation that its readers state (QuantizeLinear, also after operators that commute with
rounding), and no other operator may read it.  Element-wise operators in a row are one operator if
they depend on one exact tensor: a table of its elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from penstock.errors import UnsupportedError
from penstock.frontends.onnx.element_types import REAL, operand_positions
from penstock.frontends.onnx.file import File, FileNode
from penstock.frontends.onnx.folding import folded
from penstock.frontends.onnx.model_constants import ModelConstants, activation_scale
from penstock.frontends.onnx.operators import (
    CAST,
    DEQUANTISE,
    EIGHT_BITS,
    ELEMENTWISE,
    MOVING,
    QUANTISE,
    SAME,
    SHAPES,
)
from penstock.frozen import frozen
from penstock.ir.operator_facts import OnnxName
from penstock.ir.tensor import FILE_TYPES, Array, Quantisation, TensorType

# Quantisation of real numbers in [-4, 4), the range of normalised signals.
ASSUMED = Quantisation((1 / 32,), (0,))
# Nodes through which states of recurrent layers may pass as real numbers.
MOVING_REALS = (*MOVING, CAST, "Slice", "Split", "Concat")
OFFSETS = {"int8": 0, "uint8": 128}  # Element minus stored int8, by element type.

LARGEST = 3.0e38  # Magnitude from which on a bound has no effect, as exporters write it.
EXACTLY = 1e-4  # Steps by which a number may miss an element: the rounding of constants to float32.


@frozen
class RealStorage:
    """The quantisations under which a tensor of real numbers is stored.

    `rounded`: those of the QuantizeLinears that read it.  `exact`: the one for all other readers,
    which represents every element; None if there is none.  `is_read`: whether anything but shapes
    and chains of element-wise operators reads the tensor."""

    rounded: tuple[Quantisation, ...] = ()
    exact: Quantisation | None = None
    is_read: bool = False

    @property
    def every(self) -> tuple[Quantisation, ...]:
        more = () if self.exact is None or self.exact in self.rounded else (self.exact,)
        return (*self.rounded, *more)

    def read_as(self, wanted: Quantisation | None) -> Quantisation | None:
        """The quantisation for a reader that computes under `wanted`; None if there is none."""
        return wanted if wanted in self.rounded else self.exact


@frozen
class RealChain:
    """Element-wise nodes, in order, whose last one computes a tensor from `source` alone."""

    source: str
    nodes: tuple[FileNode, ...] = ()


@frozen
class Domains:
    """The domain of each computed tensor, by name.

    `types`: element types; `REAL` for real numbers.
    `reals`: storage of real numbers.
    `floats`: names of real numbers that are stored as float32, without quantisation.
    `offsets`: element minus stored int8, of integer elements of 8 bits.
    `labels`: the quantisation under which integer elements are dequantised first.
    `chains`: real numbers that are element-wise functions of an exact tensor; `tables`: those that
    are computed so, because no operator file computes them from the inputs of their node."""

    types: Mapping[str, str]
    reals: Mapping[str, RealStorage]
    floats: frozenset[str]
    offsets: Mapping[str, int]
    labels: Mapping[str, Quantisation]
    chains: Mapping[str, RealChain]
    tables: frozenset[str]


def domains(
    file: File,
    types: Mapping[str, str],
    constants: ModelConstants,
    names: Mapping[str, OnnxName],
    *,
    assumed: bool,
) -> Domains:
    """The domains of a model's tensors, of which the file has the computed ones.

    assumed: whether real numbers without a quantisation have `ASSUMED`, and may be rounded
        anywhere; otherwise they are float32."""
    return _Analysis(file, types, constants, names, assumed).domains()


def unit_scale(offset: int) -> Quantisation:
    """The quantisation under which stored int8 represent their elements as real numbers."""
    return Quantisation((1.0,), (-offset,))


def operands(node: FileNode, opset: int) -> tuple[str, ...]:
    """Inputs whose elements are elements of the output, if the node selects elements."""
    if node.name in (*MOVING, CAST):
        return node.inputs[:1]
    return tuple(node.inputs[k] for k in operand_positions(node, opset) if node.inputs[k])


@dataclass(slots=True)
class _Analysis:
    """`exact`: quantisations that represent every element of a tensor.  `near`: the same, but for
    bounds and borders, which they represent within half a step.  `chains`: tensors that are
    element-wise functions of an exact one.  `wanted`: quantisations that readers state; `read`:
    tensors with other readers, `shown`: those that are outputs of the model."""

    file: File
    types: Mapping[str, str]
    constants: ModelConstants
    names: Mapping[str, OnnxName]
    assumed: bool
    offsets: dict[str, int] = field(default_factory=dict)
    exact: dict[str, Quantisation] = field(default_factory=dict)
    near: dict[str, Quantisation] = field(default_factory=dict)
    wanted: dict[str, tuple[Quantisation, ...]] = field(default_factory=dict)
    chains: dict[str, RealChain] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    shown: set[str] = field(default_factory=set)
    labels: dict[str, Quantisation] = field(default_factory=dict)

    def domains(self) -> Domains:
        nodes = tuple(self._computed_nodes())
        for border in self.file.inputs:
            if border.dtype in EIGHT_BITS:
                self.offsets[border.name] = OFFSETS[border.dtype]
        for node in nodes:
            self._forward(node)
        self.shown.update(border.name for border in self.file.outputs)
        for node in reversed(nodes):
            self._backward(node)
        fixed = {
            name: asked.fixed
            for node in nodes
            if (asked := self.names.get(node.name)) is not None and asked.fixed is not None
            # Functions of float32 are float32.
            if self.assumed or not self.exact.keys().isdisjoint(node.inputs)
            for name in node.outputs
        }
        tables = {node.y for node in nodes if self._is_table(node)}
        floats = self._floats(nodes, fixed, tables)
        reals = dict(self._inputs(floats))
        for node in nodes:
            for name in node.outputs:
                if self.types[name] == REAL and name and name not in floats:
                    reals[name] = self._storage(node, name, fixed.get(name), reals)
        tables -= floats
        return Domains(
            self.types, reals, floats, self.offsets, self.labels, self.chains, frozenset(tables)
        )

    def _floats(
        self, nodes: tuple[FileNode, ...], fixed: Mapping[str, Quantisation], tables: set[str]
    ) -> frozenset[str]:
        """Names of real numbers that are float32 in the graph: those that some reader needs
        unrounded, if whatever writes and reads them computes on real numbers."""
        states = (
            node for node in nodes if node.name in self.names and self.names[node.name].real_inputs
        )
        unread = {name for node in states for name in node.outputs} - self.wanted.keys()
        needed, read = self.read | self.shown | unread, set(self.read)
        for node in reversed(nodes):  # what a table skips is computed if its result is needed
            if not needed.isdisjoint(tables.intersection(node.outputs)):
                skipped = {name for name in node.inputs if name in self.chains}
                needed |= skipped
                read |= skipped
        if self.assumed:
            known = {*self.exact, *fixed, *self.wanted}
        else:
            known = {*self.exact, *((self.near.keys() | fixed.keys()) - read)}
        found = {name for name in needed - known if name and self.types[name] == REAL}
        return self._float_tensors(found, known, tables)

    def _float_tensors(self, needed: set[str], known: set[str], tables: set[str]) -> frozenset[str]:
        """The needed tensors, and what moves their elements, that operators write and read as
        float32: those with a float form, and, also with `assumed`, recurrent layers, of whose
        states it is true."""
        found = set(needed)
        plain = {name for name, type in self.types.items() if type != REAL} - self.offsets.keys()
        for node in self.file.nodes:
            if node.name in (*MOVING, CAST) and node.x in found | plain:
                found.update({n for n in node.outputs if self.types[n] == REAL} - known)
        before: set[str] = set()
        while before != found:
            before = set(found)
            for node in self.file.nodes:
                if not found.isdisjoint(node.outputs) or tables.isdisjoint(node.outputs):
                    takes = partial(_takes, node, names=self.names, floats=found | plain)
                    reads = enumerate(node.inputs)
                    taken = {n for k, n in reads if takes(k, assumed=self.assumed)}
                    found -= {n for n in node.inputs if n not in taken}
                if not _makes(node, self.names, found | plain, self.assumed):
                    found.difference_update(node.outputs)
        return frozenset(found)

    def _computed_nodes(self) -> Iterator[FileNode]:
        """Nodes that do not only depend on constants and shapes."""
        known = {"", *self.constants.names()}
        for node in self.file.nodes:
            if node.name in SHAPES or known.issuperset(node.inputs):
                known.update(node.outputs)
            else:
                yield node

    def _selects(self, node: FileNode) -> bool:
        asked = self.names.get(node.name)
        return node.name in MOVING or (asked is not None and asked.carries_in(node.attributes))

    def _chain(self, node: FileNode) -> RealChain | None:
        """The nodes that compute an output from an exact tensor; None if there is none."""
        parts: list[RealChain] = []
        for name in node.inputs:
            if name in self.constants:
                if self.constants[name].elements.size != 1:
                    return None
            elif name:
                found = RealChain(name) if name in self.exact else self.chains.get(name)
                if found is None:
                    return None
                parts.append(found)
        if node.name not in (*ELEMENTWISE, *SAME) or len({part.source for part in parts}) != 1:
            return None
        before = {n.outputs: n for part in parts for n in part.nodes}
        return RealChain(parts[0].source, (*before.values(), node))

    def _is_table(self, node: FileNode) -> bool:
        """Whether the node is computed as a function of an exact tensor, because no operator file
        computes it from its inputs."""
        if self.assumed or node.y not in self.chains:
            return False
        inexact = any(n not in self.exact and n not in self.constants for n in node.inputs if n)
        asked = self.names.get(node.name)
        return asked is None or asked.only_reals or (inexact and not self._selects(node))

    def _forward(self, node: FileNode) -> None:
        self._forward_exact(node)
        chain = self._chain(node)
        if chain is not None and node.y not in self.exact:
            self.chains[node.y] = chain

    def _forward_exact(self, node: FileNode) -> None:
        name, target = node.x, node.y
        if node.name == QUANTISE:
            activation_scale(node, self.constants)
            self.offsets[target] = OFFSETS[self.types[target]]
        elif node.name == DEQUANTISE:
            offset = self.offsets.get(name, OFFSETS.get(self.types[name]))
            if offset is not None:
                self.exact[target] = activation_scale(
                    node, self.constants, self.types[name], offset
                )
        elif node.name == CAST:
            self._forward_cast(name, target)
        elif self._selects(node):
            computed = [n for n in operands(node, self.file.opset) if n not in self.constants]
            outputs = [n for n in node.outputs if self.types[n] == self.types[target]]
            offsets = {self.offsets.get(n) for n in computed}
            if len(offsets) == 1 and (offset := offsets.pop()) is not None:
                self.offsets.update(dict.fromkeys(outputs, offset))
            for scales, tolerance in ((self.exact, 0.0), (self.near, 0.5)):
                found = {self.exact.get(n) or scales.get(n) for n in computed}
                scale = found.pop() if len(found) == 1 else None
                if scale is not None and self._represents(scale, node, tolerance):
                    scales.update(dict.fromkeys(outputs, scale))

    def _forward_cast(self, name: str, target: str) -> None:
        source, wanted = self.types[name], self.types[target]
        offset = self.offsets.get(name)
        if source == wanted == REAL:
            for scales in (self.exact, self.near):
                if name in scales:
                    scales[target] = scales[name]
        elif offset is not None and wanted == REAL:
            self.exact[target] = unit_scale(offset)
        elif offset is not None and _contains(wanted, offset):
            self.offsets[target] = offset

    def _represents(self, scale: Quantisation, node: FileNode, tolerance: float) -> bool:
        known = {n for n in operands(node, self.file.opset) if n in self.constants}
        arrays = {k: self.constants[n].reals for k, n in enumerate(node.inputs) if n in known}
        for k, name in enumerate(("value", "min", "max")):
            if isinstance(number := node.attributes.get(name), float):
                arrays[k] = np.array(number)
        for k, array in arrays.items():
            steps = array[np.isfinite(array) & (np.abs(array) < LARGEST)].astype(np.float64)
            steps = steps / scale.scales[0] + scale.zero_points[0]
            if node.name == "Clip":  # a bound that no element reaches does not matter
                steps = np.maximum(steps, -128) if k == 1 else np.minimum(steps, 127)
            off = np.abs(steps - np.clip(np.rint(steps), -128, 127))
            if (off > max(tolerance, EXACTLY)).any():
                return False
        return True

    def _backward(self, node: FileNode) -> None:
        if node.name == QUANTISE:
            self._want(node.x, (activation_scale(node, self.constants),))
        elif node.name == DEQUANTISE:
            if node.y in self.exact:
                self.labels[node.x] = self.exact[node.y]
        elif self._selects(node) or self._keeps_reals(node):
            self._backward_selection(node)
        elif self._is_table(node):
            self.read.add(self.chains[node.y].source)
        else:
            self.read.update(node.inputs)

    def _keeps_reals(self, node: FileNode) -> bool:
        return node.name == CAST and {self.types[node.x], self.types[node.y]} == {REAL}

    def _backward_selection(self, node: FileNode) -> None:
        selected = operands(node, self.file.opset)
        self.read.update(name for name in node.inputs if name not in selected)
        for name in selected:
            for target in node.outputs:
                if target in self.labels and name in self.offsets:
                    self.labels[name] = self.labels[target]
                if name in self.exact:
                    self.read.add(name)
                    continue
                self._want(name, self.wanted.get(target, ()))
                for readers in (self.read, self.shown):
                    if target in readers:
                        readers.add(name)
                if target in self.shown and node.name not in MOVING and target not in self.near:
                    self.read.add(name)  # with the result, it is not rounded

    def _want(self, name: str, scales: tuple[Quantisation, ...]) -> None:
        if scales and self.types[name] == REAL:
            self.wanted[name] = tuple(dict.fromkeys((*scales, *self.wanted.get(name, ()))))

    def _inputs(self, floats: frozenset[str]) -> Iterator[tuple[str, RealStorage]]:
        for border in self.file.inputs:
            if self.types[border.name] == REAL and border.name not in floats:
                yield border.name, self._rounded(border.name, None)

    def _storage(
        self,
        node: FileNode,
        name: str,
        fixed: Quantisation | None,
        reals: Mapping[str, RealStorage],
    ) -> RealStorage:
        exact = self.exact.get(name)
        if node.name in (*MOVING, CAST) and node.x in reals:
            return reals[node.x]
        if node.name in (DEQUANTISE, CAST):
            return RealStorage((), exact, is_read=True)
        if exact is None and (name not in self.read or self.assumed):
            exact = self.near.get(name) or fixed
        if exact is None and self.assumed:
            found = {reals[n].exact for n in operands(node, self.file.opset) if n in reals}
            exact = found.pop() if self._selects(node) and len(found) == 1 else None
        return self._rounded(name, exact)

    def _rounded(self, name: str, exact: Quantisation | None) -> RealStorage:
        wanted = self.wanted.get(name, ())
        if self.assumed:
            return RealStorage((), (*wanted, exact or ASSUMED)[0], is_read=True)
        is_read = name in self.read or name in self.shown
        return RealStorage(wanted, exact if is_read else None, is_read or bool(wanted))


def _contains(dtype: str, offset: int) -> bool:
    """Whether an integer type holds every element that is stored as int8 with that offset."""
    if dtype not in FILE_TYPES or dtype == "bool":
        return False
    limits = np.iinfo(dtype)
    return limits.min <= offset - 128 and offset + 127 <= limits.max


def _takes(
    node: FileNode, k: int, names: Mapping[str, OnnxName], floats: set[str], assumed: bool
) -> bool:
    """Whether input k of a node may be float32."""
    if node.name in (*MOVING, CAST):
        return floats.issuperset(node.outputs)
    if node.name in SHAPES:
        return True
    if assumed and node.name in MOVING_REALS:
        return floats.issuperset(node.outputs)
    asked = names.get(node.name)
    if not assumed and (node.name == QUANTISE or (asked is not None and asked.floats)):
        return True
    return asked is not None and k in asked.real_inputs


def _makes(node: FileNode, names: Mapping[str, OnnxName], floats: set[str], assumed: bool) -> bool:
    """Whether the outputs of a node may be float32."""
    if node.name in (*MOVING, CAST):
        return node.x in floats
    if assumed and node.name in MOVING_REALS:
        return floats.issuperset(node.inputs if node.name == "Concat" else node.inputs[:1])
    asked = names.get(node.name)
    if asked is None:
        return False
    return bool(asked.real_inputs) or (asked.floats and not assumed)


# Tables of element-wise operators in a row, which depend on one tensor of 8-bit elements.


# Relative error of functions such as Tanh in runtimes: a few units in the last place.
INEXACT = 2.0**-21
# Operators whose results in single precision IEEE 754 determines.
DETERMINED = (
    *("Abs", "Add", "And", "Cast", "Ceil", "Clip", "Div", "Equal", "Floor", "Greater"),
    *("GreaterOrEqual", "Identity", "LeakyRelu", "Less", "LessOrEqual", "Max", "Min", "Mul"),
    *("Neg", "Not", "Or", "PRelu", "Reciprocal", "Relu", "Round", "Sign", "Sqrt", "Sub"),
    *("Where", "Xor"),
)


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
        reals[node.y] = result * np.float32(1 + off)
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
