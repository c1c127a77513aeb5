"""OnnxNode: a node of an ONNX model, in the form that operator files import.

The front end has normalised the model: tensors are int8 with scale and zero point, regardless of
the quantisation format of the model, and computed tensors have the axis order that the operator
requires (`AxisOrder`).
"""

from __future__ import annotations

from dataclasses import field, replace

from penstock.errors import ModelError
from penstock.frozen import frozen
from penstock.ir.foreign import MALFORMED, ForeignNode, Made
from penstock.ir.graph import Value, result_of
from penstock.ir.op import Op
from penstock.ir.tensor import Array, Quantisation, TensorType


@frozen
class OnnxNode(ForeignNode):
    """A node whose `outputs` have no shape yet; `made` infers it.

    `order`: axis a of the tensors is axis order[a] of the model's tensors.
    `columns`: if input 0 is the source of a flattened matrix, column j of the source is column
        columns[j] of the model's matrix.
    `opset`: version of the operator set.
    `assumed`: real constants may be quantised to int8 with any loss (`--assume-int8`).
    """

    order: tuple[int, ...] = ()
    columns: Array | None = field(default=None, compare=False)
    opset: int = 13
    assumed: bool = False

    def integers(self, attribute: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """An attribute that is a list of integers.  Raises ModelError for another type."""
        value = self.attributes.get(attribute, default)
        if isinstance(value, tuple):
            whole = tuple(x for x in value if isinstance(x, int))
            if len(whole) == len(value):
                return whole
        raise self._wrong(attribute, value, "integers")

    def text(self, attribute: str, default: str, words: tuple[str, ...] = ()) -> str:
        """A string attribute.  Raises ModelError for another type, and UnsupportedError unless it
        is one of `words`, if there are any."""
        value = self.attributes.get(attribute, default)
        if not isinstance(value, str):
            raise self._wrong(attribute, value, "a string")
        if words and value not in words:
            what = f"attribute {attribute} is {value!r:.80}, must be one of {', '.join(words)}"
            raise self.unsupported(what)
        return value

    def texts(self, attribute: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """An attribute that is a list of strings.  Raises ModelError for another type."""
        value = self.attributes.get(attribute, default)
        if isinstance(value, tuple):
            found = tuple(x for x in value if isinstance(x, str))
            if len(found) == len(value):
                return found
        raise self._wrong(attribute, value, "strings")

    def listed(self, attribute: str, k: int) -> tuple[int, ...] | None:
        """Integers that are an attribute in old opsets and constant input k in new ones; None if
        absent."""
        if attribute in self.attributes:
            return self.integers(attribute)
        return None if self.optional(k) is None else self.constant_ints(k)

    def axis(self, axis: int) -> int:
        """The axis that corresponds to `axis` of the model's tensors; negative axes count from the
        last."""
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
        """The node with the type of output k that `op` computes from these inputs."""
        found = result_of(op, inputs)
        told = self.output(k)
        type = TensorType(found.shape, found.dtype, told.quantisation)
        outputs = (*self.outputs[:k], replace(told, type=type), *self.outputs[k + 1 :])
        return replace(self, outputs=outputs)

    def made(self, op: Op, *inputs: Value, k: int = 0) -> Made:
        """A node that computes output k by `op`."""
        return Made(op, inputs, self.typed(op, *inputs, k=k).output(k))

    def between(
        self, op: Op, *inputs: Value, label: str, like: Quantisation | None, k: int = 0
    ) -> Made:
        """A node that computes an intermediate value for output k by `op`.

        `label` names the value; `like` is its quantisation."""
        found = result_of(op, inputs)
        type = TensorType(found.shape, found.dtype, like)
        return Made(op, inputs, Value(f"{self.output(k).name}/{label}", type))

    def _wrong(self, attribute: str, value: object, kind: str) -> ModelError:
        return ModelError(
            "model-011",
            f"attribute {attribute} is {value!r:.80}, must be {kind}",
            where=self.where,
            help=MALFORMED,
        )
