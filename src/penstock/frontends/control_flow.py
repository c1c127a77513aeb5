"""Control flow of TFLite models as plain dataflow, and shapes that files leave open.

A loop is unrolled and a branch is chosen at import, if the condition is known then: it is constant,
or computed from constants and shapes, such as from a counter.  The nodes on which conditions depend
are evaluated by the arithmetic of their operators, as are those of shapes.  A composite is replaced
by its decomposition.

A model that was converted with an open batch states 1 for every extent that depends on it, also
where that is wrong: SPACE_TO_BATCH_ND of one image yields several.  Runtimes compute all shapes
again when they know those of the inputs, and so does the import.

Source: TFLite WHILE, IF (`kernels/while.cc`, `kernels/if.cc`); `shape_signature` in the schema and
`ResizeInputTensor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.errors import ModelError, UnsupportedError
from penstock.ir.foreign import MALFORMED, ForeignModel, ForeignNode, ForeignSubgraph, Made
from penstock.ir.graph import Value, Values
from penstock.ir.op import Site
from penstock.ir.tensor import Array, Data, Region, TensorType
from penstock.ops.registry import foreign_names

# Names of the operators that are replaced, and of the attributes that name their subgraphs.
COMPOSITE = "STABLEHLO_COMPOSITE"
CONTROL_FLOW: Mapping[str, tuple[str, ...]] = {
    "WHILE": ("cond_subgraph_index", "body_subgraph_index"),
    "IF": ("then_subgraph_index", "else_subgraph_index"),
    COMPOSITE: ("decomposition_subgraph_index",),
}
# Nodes that are visited in all bodies and conditions; the schedules of so many take minutes.
MOST_NODES = 10_000
MOST_FOLDED_BYTES = 2**16  # Largest tensor that is evaluated at import.
MOST_FOLDED_WORK = 2**20  # Most operations of a node that is evaluated at import.


def without_control_flow(model: ForeignModel) -> ForeignModel:
    """Replaces each loop, branch and composite of a model by the nodes that it runs; states the
    shapes of tensors that the file leaves open.

    Raises UnsupportedError if a condition is computed from inputs or states, if more than
    `MOST_NODES` nodes would run, or if a subgraph refers to variables."""
    if not any(node.name in CONTROL_FLOW or node.open for node in model.nodes):
        return model
    unroller = _Unroller(model.subgraphs)
    nodes = tuple(unroller.expanded(model.nodes))
    outputs = tuple(unroller.current(value) for value in model.outputs)
    return replace(model, nodes=nodes, outputs=outputs)


@dataclass(slots=True)
class _Unroller:
    """Walks the nodes of a model in the order in which they run.

    values: what stands for a value of the file from here on, by name: a constant that was folded,
        or the value that a body yields.
    copies: how many bodies and conditions were inlined, for unique names.
    visited: how many of them and of their nodes."""

    subgraphs: Mapping[int, ForeignSubgraph]
    values: dict[str, Value] = field(default_factory=dict)
    copies: int = 0
    visited: int = 0

    def current(self, value: Value) -> Value:
        return self.values.get(value.name, value)

    def expanded(self, nodes: Iterable[ForeignNode]) -> Iterator[ForeignNode]:
        """The nodes that run instead of some nodes."""
        for node in nodes:
            inputs = tuple(x if x is None else self.current(x) for x in node.inputs)
            yield from self._expanded(replace(node, inputs=inputs))

    def _expanded(self, node: ForeignNode) -> Iterator[ForeignNode]:
        if node.name not in CONTROL_FLOW:
            node = with_known_shapes(_without_empty_parts(node))
            folded = _folded(node)
            known = folded or tuple(node.outputs[k] for k in sorted(node.open))
            self.values |= {value.name: value for value in known}
            if folded is None and any(y.elements for y in node.outputs):
                yield node
            return
        if node.handles:
            raise _refused(node, "passes variables to its subgraphs")
        match node.name:
            case "WHILE":
                inlined, results = self._while(node)
            case "IF":
                inlined, results = self._if(node)
            case _:
                arguments = tuple(node.input(k) for k in range(len(node.inputs)))
                decomposition = self._subgraph(node, *CONTROL_FLOW[node.name])
                inlined, results = self._inlined(decomposition, arguments, node)
        if len(results) != len(node.outputs):
            raise _misfit(node, f"{len(results)} results of a subgraph", len(node.outputs))
        yield from self._named(node, inlined, results)

    def _while(self, node: ForeignNode) -> tuple[list[ForeignNode], Values]:
        condition, body = (self._subgraph(node, name) for name in CONTROL_FLOW["WHILE"])
        carried = tuple(node.input(k) for k in range(len(node.inputs)))
        nodes: list[ForeignNode] = []
        while True:
            _, answers = self._inlined(condition, carried, node)
            if not _truth(node, answers, "the condition of the loop"):
                return nodes, carried
            more, carried = self._inlined(body, carried, node)
            nodes += more

    def _if(self, node: ForeignNode) -> tuple[list[ForeignNode], Values]:
        taken = 0 if _truth(node, (node.x,), "the condition") else 1
        branch = self._subgraph(node, CONTROL_FLOW["IF"][taken])
        arguments = tuple(node.input(k) for k in range(1, len(node.inputs)))
        return self._inlined(branch, arguments, node)

    def _subgraph(self, node: ForeignNode, attribute: str) -> ForeignSubgraph:
        return self.subgraphs[node.integer(attribute)]

    def _inlined(
        self, subgraph: ForeignSubgraph, arguments: Values, caller: ForeignNode
    ) -> tuple[list[ForeignNode], Values]:
        _require_fit(subgraph, arguments, caller)
        self.copies += 1
        self._visit(caller)
        label = str(self.copies)
        inner = {p.name: a for p, a in zip(subgraph.inputs, arguments, strict=True)}
        nodes: list[ForeignNode] = []
        for node in subgraph.nodes:
            self._visit(caller)
            if node.handles or node.variables:
                raise _refused(caller, "has a subgraph that refers to variables")
            made = tuple(replace(y, name=f"{y.name}/{label}") for y in node.outputs)
            nodes += self._expanded(replace(node.reading(inner), outputs=made))
            inner |= {y.name: self.current(z) for y, z in zip(node.outputs, made, strict=True)}
        return nodes, tuple(inner.get(value.name, value) for value in subgraph.outputs)

    def _visit(self, caller: ForeignNode) -> None:
        self.visited += 1
        if self.visited > MOST_NODES:
            raise _refused(caller, f"runs more than {MOST_NODES} nodes")

    def _named(
        self, node: ForeignNode, inlined: list[ForeignNode], results: Values
    ) -> Iterator[ForeignNode]:
        """The inlined nodes, whose results have the names and origins of the node's outputs."""
        computed = {value.name for inner in inlined for value in inner.outputs}
        names: dict[str, Value] = {}
        for output, found in zip(node.outputs, results, strict=True):
            if found.name in computed and found.name not in names:
                names[found.name] = replace(output, type=found.type)
            else:
                self.values[output.name] = names.get(found.name, found)
        for inner in inlined:
            made = tuple(names.get(y.name, y) for y in inner.outputs)
            yield replace(inner.reading(names), outputs=made)


def _without_empty_parts(node: ForeignNode) -> ForeignNode:
    """A concatenation without tensors that have no elements, such as the items of a list before the
    first."""
    if node.name != "CONCATENATION":
        return node
    full = tuple(x for x in node.inputs if x is None or x.elements)
    return replace(node, inputs=full or node.inputs)


def _require_fit(subgraph: ForeignSubgraph, arguments: Values, caller: ForeignNode) -> None:
    """Raises ModelError or UnsupportedError unless the arguments have the subgraph's types."""
    if len(arguments) != len(subgraph.inputs):
        raise _misfit(caller, f"{len(subgraph.inputs)} inputs of a subgraph", len(arguments))
    for inner, outer in zip(subgraph.inputs, arguments, strict=True):
        if (inner.shape, inner.dtype) != (outer.shape, outer.dtype):
            raise _refused(caller, f'passes {outer.type} for "{inner.name}", which is {inner.type}')


def _misfit(node: ForeignNode, inner: str, outer: int) -> ModelError:
    return ModelError(
        "model-013",
        f"{node.name} has {outer} values for {inner}, must have one for each",
        where=node.where,
        help=MALFORMED,
    )


def _truth(node: ForeignNode, answers: Values, what: str) -> bool:
    """The truth value of a condition.  Raises UnsupportedError unless it is constant."""
    (answer,) = answers if len(answers) == 1 else (None,)
    if answer is None or answer.data is None or answer.elements != 1:
        raise _refused(node, f"depends on data: {what} is computed from inputs")
    return bool(answer.array.ravel()[0])


def _refused(node: ForeignNode, what: str) -> UnsupportedError:
    why = "loops are unrolled and branches are chosen at import, where conditions depend on "
    why += "constants, shapes and counters alone"
    help = "unroll loops and fix the branches that are taken, such as by `unroll=True` of "
    help += "recurrent Keras layers, then convert the model again"
    if node.name == COMPOSITE:
        why = "composites are replaced by their decompositions at import"
        help = "convert the model without this composite"
    return UnsupportedError(
        "model-020",
        f"{node.name} {what}",
        where=node.where,
        why=why,
        help=help,
        cause=f"operator {node.name}",
    )


def _folded(node: ForeignNode) -> Values | None:
    """The results of a node that depends on constants and shapes alone, if they are small; else
    None."""
    decode_node = foreign_names().get(node.name)
    small = all(y.type.size_bytes <= MOST_FOLDED_BYTES for y in node.outputs)
    if decode_node is None or not small or node.handles or node.variables:
        return None
    known = {x.name: x.array for x in node.inputs if x and x.data is not None}
    try:
        for step in decode_node(node):
            found = _evaluated(step, known)
            if found is None:
                return None
            known[step.output.name] = found
    except ModelError:  # the import of the node explains it
        return None
    return tuple(replace(y, data=Data.of(known[y.name])) for y in node.outputs)


def _evaluated(made: Made, known: Mapping[str, Array]) -> Array | None:
    """The output of a node, if all elements that it reads are known, its types agree, and it is
    little work."""
    types = tuple(value.type for value in made.inputs)
    expected = made.op.result_type(types)
    if (expected.shape, expected.dtype) != (made.output.shape, made.output.dtype):
        return None
    arrays = tuple(_elements(value, known) for value in made.inputs)
    site = Site(
        types,
        made.output.type,
        tuple(None if a is None else Data.of(a) for a in arrays),
    )
    whole = Region.whole(made.output.shape)
    for array, need in zip(arrays, made.op.needs(site, whole), strict=True):
        if array is None and not need.empty:
            return None
    work = made.op.work(site, whole)
    if work.macs + work.elements > MOST_FOLDED_WORK:
        return None
    filled = (
        _nothing(v.type) if a is None else a for a, v in zip(arrays, made.inputs, strict=True)
    )
    return made.op.evaluate(site, tuple(filled), whole)


def _elements(value: Value, known: Mapping[str, Array]) -> Array | None:
    return known.get(value.name) if value.data is None else value.array


def _nothing(type: TensorType) -> Array:
    """An array for an input of which nothing is read."""
    return np.zeros((0,) * type.rank, type.dtype.value)


MOST_ROUNDS = 2  # A decoder may derive its node from the stated shape, which the first round mends.


def with_known_shapes(node: ForeignNode) -> ForeignNode:
    """The node, whose open outputs have the shapes that follow from its inputs.  A node that is not
    supported stays; its import explains that."""
    decode_node = foreign_names().get(node.name)
    for _ in range(MOST_ROUNDS if node.open and decode_node is not None else 0):
        assert decode_node is not None
        try:
            made = tuple(decode_node(node))
        except ModelError:
            return node
        known = _inferred(made)
        outputs = tuple(
            y.with_shape(known.get(y.name, y.shape)) if k in node.open else y
            for k, y in enumerate(node.outputs)
        )
        if outputs == node.outputs:
            return node
        node = replace(node, outputs=outputs)
    return node


def _inferred(made: Sequence[Made]) -> dict[str, tuple[int, ...]]:
    """The shapes of the nodes' results, by name.

    A reshape to a stated shape that does not fit keeps the shape before it."""
    known: dict[str, tuple[int, ...]] = {}

    def current(step: Made) -> tuple[TensorType, ...]:
        return tuple(x.type.with_shape(known.get(x.name, x.shape)) for x in step.inputs)

    for step in made:
        types, stated = current(step), step.output.shape
        try:
            known[step.output.name] = step.op.result_type(types).shape
        except ModelError:
            is_same_rank = len(types) == 1 and types[0].rank == len(stated)
            known[step.output.name] = types[0].shape if is_same_rank else stated
    return known
