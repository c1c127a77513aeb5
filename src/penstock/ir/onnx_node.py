"""OnnxNode: a node of an ONNX model as operator files are shown it, and what they say of a name.

The front end has resolved what is not of one operator: tensors stand as int8 with scale and zero
point, whether QuantizeLinear and DequantizeLinear stood around a node of real numbers, or scales
beside its inputs, or none at all; and every computed tensor lies in memory as the operator's
`Layout` wants it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from penstock.errors import ModelError
from penstock.ir.foreign import MALFORMED, ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ir.op import Op
from penstock.ir.tensor import Array, Quantisation, TensorType


class Layout(Enum):
    """In which order of axes an operator wants its tensors."""

    CHANNELS_LAST = "channels last"
    """Input 0 and the output have the model's axis 1 last: (N, C, H, W) lies as (N, H, W, C)."""
    ALIKE = "alike"
    """Any order, the same for all tensors, which have one rank; `OnnxNode.order` says which."""
    VECTORS = "vectors"
    """As ALIKE, with the axis that the attribute `axis` names last."""
    ROWS = "rows"
    """Input 0 in the model's order, or what it is flattened from; `OnnxNode.columns` says so."""


@dataclass(frozen=True, slots=True)
class OnnxName:
    """What an operator file says of a name in ONNX that it understands.

    `carries`: every output element is an element of input 0, moved, chosen or clamped, so that it
    makes no difference whether one rounds before or after it; output and input may share a scale.
    `fixed`: the output's scale and zero point where the model says none, since its range is known.
    """

    layout: Layout
    carries: bool = False
    fixed: Quantisation | None = None


@dataclass(frozen=True, slots=True)
class OnnxNode(ForeignNode):
    """`outputs` have no shape yet: `made` finds it.

    `order`: axis a of the tensors is axis order[a] of the model's.
    `columns`: where input 0 is what a matrix was flattened from: column j of it, as it lies in
        memory, is column columns[j] of the model's matrix.
    `opset`: version of ONNX's operators.
    `assumed`: real constants may become int8, whatever that does to them (`--assume-int8`).
    """

    order: tuple[int, ...] = ()
    columns: Array | None = field(default=None, compare=False)
    opset: int = 13
    assumed: bool = False

    def integers(self, attribute: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """A list of whole numbers."""
        value = self.attributes.get(attribute, default)
        if isinstance(value, tuple):
            whole = tuple(x for x in value if isinstance(x, int))
            if len(whole) == len(value):
                return whole
        raise self._wrong(attribute, value, "whole numbers")

    def text(self, attribute: str, default: str) -> str:
        """A word."""
        value = self.attributes.get(attribute, default)
        if not isinstance(value, str):
            raise self._wrong(attribute, value, "a word")
        return value

    def listed(self, attribute: str, k: int) -> tuple[int, ...] | None:
        """Whole numbers that are an attribute in old versions and constant input k in new ones;
        None where there are none."""
        if attribute in self.attributes:
            return self.integers(attribute)
        return None if self.optional(k) is None else self.constant_ints(k)

    def axis(self, axis: int) -> int:
        """Where an axis of the model's tensors lies; negative ones count from the back."""
        rank = len(self.order)
        if not -rank <= axis < rank:
            raise ModelError(
                "model-014",
                f"axis is {axis}, must be within [{-rank}, {rank})",
                where=self.where,
                help=MALFORMED,
            )
        return self.order.index(axis % rank)

    def typed(self, op: Op, *inputs: Value, k: int = 0) -> OnnxNode:
        """The node whose output k has the type that `op` gives it on these inputs."""
        found = op.result_type(tuple(value.type for value in inputs))
        told = self.output(k)
        type = TensorType(found.shape, found.dtype, told.type.quantisation)
        outputs = (*self.outputs[:k], replace(told, type=type), *self.outputs[k + 1 :])
        return replace(self, outputs=outputs)

    def made(self, op: Op, *inputs: Value, k: int = 0) -> Made:
        """`op` on these inputs makes output k."""
        return Made(op, inputs, self.typed(op, *inputs, k=k).output(k))

    def between(
        self, op: Op, *inputs: Value, label: str, like: Quantisation | None, k: int = 0
    ) -> Made:
        """`op` on these inputs makes a value of ours on the way to output k."""
        found = op.result_type(tuple(value.type for value in inputs))
        type = TensorType(found.shape, found.dtype, like)
        return Made(op, inputs, Value(f"{self.output(k).name}/{label}", type))

    def _wrong(self, attribute: str, value: object, kind: str) -> ModelError:
        return ModelError(
            "model-011",
            f"attribute {attribute} is {value!r:.80}, must be {kind}",
            where=self.where,
            help=MALFORMED,
        )
