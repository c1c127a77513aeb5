"""Packing: tensors stored in blocks of channels, or with their channels first, between the
composites (sub-graphs as single nodes) of an accelerator.

Nodes that unpack the inputs and pack the output become part of each composite.  The nodes of
the composite thus still define the exact arithmetic, while its kernel reads and writes blocks.
Where a tensor passes between the accelerator and another engine, the CPU packs or unpacks it once,
whatever the number of its readers.

    CPU           x ------------> x/packed                y/packed ----> y
    composite     x/packed -> x/image -> layer -> y/image -> y/packed

Element-wise operators that the CPU runs between two composites work on packed tensors as they are,
so these are not converted.

An accelerator that also accepts plain images (NHWC) needs no conversion on the CPU.  For such an
accelerator, `borders=False` packs only the tensors that pass between two of its composites.

The rows of a tensor with its channels first (NCHW) are the rows of its first channels' image, then
of the next; those that a call computes are numbered by channel: a kernel `by_rows` computes some
channels of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from penstock.backends.offloaded import MAIN, main_node
from penstock.frozen import frozen
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value, free_name
from penstock.ir.op import Op
from penstock.ir.tensor import TensorType
from penstock.opkit.broadcast import Elementwise
from penstock.ops.channel_packs import PackChannels, PackView, UnpackChannels
from penstock.ops.conversions import EIGHT_BITS
from penstock.ops.pad import Pad
from penstock.ops.reshape import Reshape
from penstock.ops.slice import Slice
from penstock.ops.transpose import Transpose
from penstock.passes.cleaning import drop_dead


def packed(
    graph: Graph,
    engine: str,
    pack: int,
    *,
    borders: bool = True,
    least_channels: int = 1,
    takes_blocks: Callable[[Node], bool] = lambda node: True,
    choose: Callable[[Sequence[Node]], Sequence[Node]] = lambda nodes: nodes,
) -> Graph:
    """Return the graph in which int8 tensors between composites of an accelerator are packed.

    A packed tensor stores blocks of consecutive channels.  Only tensors of shape (1, H, W, C) or
    (1, C) can be packed; a composite with an input or output of another shape is unchanged.

    engine: the name of the accelerator.
    pack: the number of channels in a block.
    borders: True to pack all inputs and outputs of the composites, even if other engines produce or
        consume them; False to pack a tensor only if a composite of the accelerator produces
        it and only such composites read it.
    least_channels: with `borders` False, tensors with fewer channels are not packed.
    takes_blocks: returns False for composites whose inputs and output must not be packed.
    choose: returns the chain of nodes that packs a value, possibly with composites of the
        accelerator.
    """
    rule = _Rule(engine, borders, least_channels, takes_blocks, choose)
    return _Packing(graph, rule, _Blocks(pack)).packed()


def channels_first(
    graph: Graph,
    engine: str,
    *,
    borders: bool = True,
    takes_planes: Callable[[Node], bool] = lambda node: True,
) -> Graph:
    """Return the graph in which images between composites of an accelerator are stored as
    (N, C, H, W).  Composites with an input or output that is no image (N, H, W, C) are unchanged.

    Transpositions of the network that do the same, as those of an ONNX model's inputs and outputs,
    are left out.

    engine, borders: as those of `packed`.
    takes_planes: returns False for composites whose inputs and output must not change.
    """
    rule = _Rule(engine, borders, 1, takes_planes, lambda nodes: nodes)
    return drop_dead(_Packing(graph, rule, _Planes()).packed())


class _Form(Protocol):
    """How an accelerator stores the tensors of its composites."""

    def fits(self, type: TensorType) -> bool:
        """Whether tensors of a type can be stored so."""
        ...

    def stored(self, value: Value, taken: Collection[str], *, is_copied: bool) -> list[Node]:
        """Return the nodes that convert a tensor."""
        ...

    def restored(self, stored: Value, value: Value, taken: Collection[str]) -> list[Node]:
        """Return the nodes that convert a stored tensor back."""
        ...


@frozen
class _Blocks:
    """Blocks of `pack` channels."""

    pack: int

    def fits(self, type: TensorType) -> bool:
        return type.dtype in EIGHT_BITS and type.rank in (2, 4) and type.shape[0] == 1

    def stored(self, value: Value, taken: Collection[str], *, is_copied: bool) -> list[Node]:
        return _packing(value, self.pack, taken, is_copied=is_copied)

    def restored(self, stored: Value, value: Value, taken: Collection[str]) -> list[Node]:
        return _unpacking(stored, value, self.pack, taken)


class _Planes:
    """(N, C, H, W), a plane for each channel."""

    def fits(self, type: TensorType) -> bool:
        return type.rank == len(FIRST)

    def stored(self, value: Value, taken: Collection[str], *, is_copied: bool) -> list[Node]:
        return list(_chain(value, [("planes", Transpose(FIRST))], None, taken))

    def restored(self, stored: Value, value: Value, taken: Collection[str]) -> list[Node]:
        return list(_chain(stored, [("image", Transpose(LAST))], value, taken))


FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)
"""Orders of axes: of a tensor with channels first, and back."""


@frozen
class _Rule:
    """Which tensors are stored in another form.

    engine: the name of the accelerator whose composites are rewritten.
    borders: whether tensors that other engines produce or consume are packed, too.
    least_channels: if `borders` is False, outputs with fewer channels are not packed.
    takes: returns False for composites that are unchanged.
    choose: returns the nodes that pack a value, given those of the CPU.
    """

    engine: str
    borders: bool
    least_channels: int
    takes: Callable[[Node], bool]
    choose: Callable[[Sequence[Node]], Sequence[Node]]


@dataclass
class _Packing:
    """State of the rewrite of a graph.

    nodes: the nodes of the new graph so far.
    packed_values: the packed form of a value, by the name of the value.
    packable: the names of nodes that are rewritten to read and write packed values.
    """

    graph: Graph
    rule: _Rule
    form: _Form
    nodes: list[Node] = field(default_factory=list)
    packed_values: dict[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.outputs = {value.name for value in self.graph.results}
        self.taken = self.graph.names()
        self.consumers = self.graph.consumers()
        self.packable = set[str]()
        for node in self.graph.nodes:
            if self._is_packable(node):
                self.packable.add(node.name)

    def packed(self) -> Graph:
        for node in self.graph.nodes:
            self._take(node)
        return self.graph.with_nodes(tuple(self.nodes))

    def _take(self, node: Node) -> None:
        if node.name not in self.packable:
            self.nodes.append(self._without_transposition(node))
            return
        rewritten = (
            self._rewritten(node, node.op)
            if isinstance(node.op, Composite)
            else self._on_packed_elements(node)
        )
        self.nodes.append(rewritten)
        output = rewritten.output
        if output == node.output:
            return
        self.packed_values[node.name] = output
        if self._is_read_elsewhere(node):
            self.nodes += self.form.restored(output, node.output, self.taken)

    def _on_packed_elements(self, node: Node) -> Node:
        """An element-wise node, on packed inputs."""
        inputs = tuple(self.packed_values[value.name] for value in node.inputs)
        type = replace(node.output.type, shape=inputs[0].shape, layout=inputs[0].type.layout)
        output = Value(free_name(f"{node.name}/packed", self.taken), type)
        return replace(node, inputs=inputs, output=output)

    def _rewritten(self, node: Node, composite: Composite) -> Node:
        """A composite that reads and writes packed values."""
        inputs = tuple(self._packed(v) if v.data is None else v for v in node.inputs)
        inner = self._inner(node, composite)
        names = tuple(v.name for v in inputs)
        attributes = (*composite.attributes, (MAIN, main_node(composite).name))
        op = replace(composite, nodes=inner, inputs=names, attributes=attributes)
        return replace(node, op=op, inputs=inputs, output=inner[-1].output)

    def _without_transposition(self, node: Node) -> Node:
        """Return a node that reads what is stored if it would convert the tensor to that."""
        if isinstance(self.form, _Planes) and isinstance(node.op, Transpose):
            (x,) = node.inputs
            if node.op.order == LAST:
                self.packed_values[node.name] = x
            elif node.op.order == FIRST and x.name in self.packed_values:
                stored = self.packed_values[x.name]
                return replace(node, op=Reshape(node.output.shape), inputs=(stored,))
        return node

    def _packed(self, value: Value) -> Value:
        """Return what a rewritten composite reads instead of its input `value`.

        This is the packed form of the value.  If none exists yet, the method adds nodes that pack
        the value on the CPU.  With `borders` False, it adds none: the composite then reads the
        unpacked `value`.
        """
        if value.name not in self.packed_values:
            if not self.rule.borders:
                return value
            # A copy of a network input can stay on chip, the input itself cannot.
            inputs = {v.name for v in self.graph.inputs}
            is_copied = value.name in inputs and len(self.consumers.get(value.name, ())) > 1
            made = self.rule.choose(self.form.stored(value, self.taken, is_copied=is_copied))
            self.nodes += made
            self.packed_values[value.name] = made[-1].output
        return self.packed_values[value.name]

    def _inner(self, node: Node, composite: Composite) -> tuple[Node, ...]:
        """The inner nodes of the rewritten composite."""
        # These are nodes that unpack the packed inputs, the original nodes, and, if the output is
        # to be packed, nodes that pack it.
        before: list[Node] = []
        for value in dict.fromkeys(node.variable_inputs):
            if value.name in self.packed_values:
                before += self.form.restored(self.packed_values[value.name], value, self.taken)
        after: list[Node] = []
        enough = node.output.shape[-1] >= self.rule.least_channels
        if self.rule.borders or (enough and not self._is_read_elsewhere(node)):
            after = self.form.stored(node.output, self.taken, is_copied=False)
        return (*before, *composite.nodes, *after)

    def _is_packable(self, node: Node) -> bool:
        # A composite whose tensors have types and shapes that can be packed, or an element-wise
        # operator on what is packed without it.
        fits = all(self.form.fits(v.type) for v in (*node.variable_inputs, node.output))
        if isinstance(node.op, Elementwise) and self.rule.borders:
            packed = all(v.name in self.packable for v in node.inputs)
            return fits and packed and {v.shape for v in node.inputs} == {node.output.shape}
        if not isinstance(node.op, Composite) or node.op.engine != self.rule.engine:
            return False
        return fits and self.rule.takes(node)

    def _is_read_elsewhere(self, node: Node) -> bool:
        # The unpacked form is needed if it is an output of the graph, or if some reader is not a
        # composite that is rewritten to read packed values.
        readers = self.consumers.get(node.name, ())
        return node.name in self.outputs or any(one.name not in self.packable for one in readers)


def _packing(
    value: Value, pack: int, taken: Collection[str], *, is_copied: bool = False
) -> list[Node]:
    """The nodes that reshape a value to NHWC, pad its channels with 0, and pack it."""
    *_, channels = value.shape
    steps: list[tuple[str, Op]] = []
    image = value.shape
    if value.rank == 2:
        image = (1, 1, 1, channels)
        steps.append(("image", Reshape(image)))
    if channels % pack:
        steps.append(("padded", Pad((0,) * 4, (0, 0, 0, -channels % pack), 0)))
    moves = channels > pack or (is_copied and channels == pack)
    steps.append(("packed", PackChannels(pack) if moves else PackView((*image[:3], pack), pack)))
    return list(_chain(value, steps, None, taken))


def _unpacking(stored: Value, value: Value, pack: int, taken: Collection[str]) -> list[Node]:
    *_, channels = value.shape
    image = value.shape if value.rank == 4 else (1, 1, 1, channels)
    packs = -(-channels // pack)
    unpack = UnpackChannels(packs) if packs > 1 else Reshape(stored.shape)
    steps: list[tuple[str, Op]] = [("whole", unpack)]
    if channels % pack:
        steps.append(("image", Slice((0,) * 4, image, (1,) * 4)))
    if value.rank == 2:
        steps.append(("row", Reshape(value.shape)))
    return list(_chain(stored, steps, value, taken))


def _chain(
    first: Value, steps: Iterable[tuple[str, Op]], last: Value | None, taken: Collection[str]
) -> Iterable[Node]:
    """Yield nodes of which each reads the output of the previous one."""
    every = list(steps)
    stem = (last or first).name
    for k, (label, op) in enumerate(every):
        result = op.result_type((first.type,))
        type = replace(result, quantisation=first.quantisation)
        between = Value(free_name(f"{stem}/{label}", taken), type)
        output = last if last and k == len(every) - 1 else between
        yield Node(op, (first,), output)
        first = output
