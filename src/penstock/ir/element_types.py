"""ElementTypes: the element types for which a kernel is written."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.frozen import frozen
from penstock.ir.graph import Node
from penstock.ir.op import Op, Site
from penstock.ir.tensor import DType


@frozen
class ElementTypes:
    """Element types of a kernel's inputs and output.

    `inputs`: by position; the last one also holds for all further inputs."""

    inputs: tuple[DType, ...]
    output: DType

    def mismatch(self, site: Site) -> str:
        """Which tensor of a site has another element type; "" if none has.

        >>> from penstock.ir.tensor import TensorType
        >>> x, y = TensorType((2, 3), DType.INT16), TensorType((2, 3), DType.INT8)
        >>> INT8.mismatch(Site((y, x), y, (None, None)))
        'input 1 is int16, must be int8'
        >>> INT8.mismatch(Site((y, y), y, (None, None)))
        ''
        """
        last = len(self.inputs) - 1
        for k, type in enumerate(site.inputs):
            if type.dtype is not self.inputs[min(k, last)]:
                return f"input {k} is {type.dtype.value}, must be {self.inputs[min(k, last)].value}"
        if site.output.dtype is not self.output:
            return f"output is {site.output.dtype.value}, must be {self.output.value}"
        return ""


INT8 = ElementTypes((DType.INT8,), DType.INT8)  # All tensors are int8.
# int8 input, weights and output; int32 bias.
INT8_LAYER = ElementTypes((DType.INT8, DType.INT8, DType.INT32), DType.INT8)


def other_types(nodes: Iterable[Node]) -> str:
    """Return which tensor of some nodes is neither int8 nor an int32 bias; "" if none is.

    Functions of backends are written for int8 unless an implementation declares other types."""
    return next(filter(None, (int8_types(node.op).mismatch(node.site) for node in nodes)), "")


def int8_types(op: Op) -> ElementTypes:
    """Element types of an int8 kernel for an operator; a bias is int32."""
    return INT8 if op.BIAS_INPUT is None else INT8_LAYER
