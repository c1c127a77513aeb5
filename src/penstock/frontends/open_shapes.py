"""Shapes of tensors that a TFLite file leaves open.

A model that was converted with an open batch states 1 for every extent that depends on it, also
where that is wrong: SPACE_TO_BATCH_ND of one image yields several.  Runtimes compute all shapes
again when they know those of the inputs, and so does the import.

Source: TensorFlow Lite, `shape_signature` in the schema and `ResizeInputTensor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.errors import ModelError
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.tensor import TensorType
from penstock.ops.registry import foreign_names

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
            replace(y, type=y.type.with_shape(known.get(y.name, y.shape))) if k in node.open else y
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
