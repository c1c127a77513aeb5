"""onnxruntime without graph optimisations: the reference that ONNX models are judged by.

Optimisations replace operators between DequantizeLinear and QuantizeLinear by integer ones.
Without them, every node is executed as the model states it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from penstock.errors import ToolError
from penstock.frontends.onnx.post_training import require_onnxruntime
from penstock.ir.tensor import Array

_FATAL = 4
"""Severity from which onnxruntime prints messages: errors are raised as well."""


class OnnxSession:
    """A model loaded into onnxruntime.

    Raises ToolError if onnxruntime is not installed, or does not take the model; `name` is the name
    of the model in the error."""

    def __init__(self, model: onnx.ModelProto, name: str) -> None:
        require_onnxruntime("it judges ONNX models node by node")
        import onnxruntime

        self.reference = f"onnxruntime {onnxruntime.__version__}"
        self._name = name
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = _FATAL
        try:
            self._session: Any = onnxruntime.InferenceSession(
                _with_time_first(model).SerializeToString(),
                options,
                providers=["CPUExecutionProvider"],
            )
        except Exception as error:  # onnxruntime raises exceptions of its own for each of its parts
            raise self._refused(error) from error

    def element_types(self) -> Mapping[str, str]:
        """The element type of each output by name, as ONNX writes it, such as "float"."""
        return {v.name: v.type[len("tensor(") : -1] for v in self._session.get_outputs()}

    def run(self, outputs: Sequence[str], inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """The named outputs of one inference.  Raises ToolError."""
        if not outputs:  # onnxruntime takes an empty list for all
            return {}
        try:
            found = self._session.run(list(outputs), dict(inputs))
        except Exception as error:  # onnxruntime raises exceptions of its own for each of its parts
            raise self._refused(error) from error
        return dict(zip(outputs, found, strict=True))

    def _refused(self, error: Exception) -> ToolError:
        return ToolError(
            "tool-043",
            "onnxruntime cannot run the model",
            where=self._name,
            why=" ".join(str(error).split())[:300] or type(error).__name__,
            help="verify the model without --goldens and --reference: its program and C code are "
            "then compared with penstock's own arithmetic",
        )


_EXCHANGED = {0: (1, 0, 2), 5: (1, 0, 2), 6: (1, 0, 2)}
"""By position of an input of a recurrent layer, the permutation from `layout` 1 to `layout` 0."""
_RESTORED = ((2, 0, 1, 3), (1, 0, 2), (1, 0, 2))
"""By position of an output of a recurrent layer, the permutation from `layout` 0 to `layout` 1."""


def _with_time_first(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with transpositions around recurrent layers whose first axis is the batch (`layout`
    1), which onnxruntime does not implement."""
    if not any(map(_has_batch_first, model.graph.node)):
        return model
    found = onnx.ModelProto()
    found.CopyFrom(model)
    del found.graph.node[:]
    found.graph.node.extend(other for node in model.graph.node for other in _exchanged(node))
    return found


def _has_batch_first(node: onnx.NodeProto) -> bool:
    recurrent = node.op_type in ("LSTM", "GRU", "RNN")
    return recurrent and any(a.name == "layout" and a.i == 1 for a in node.attribute)


def _exchanged(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    if not _has_batch_first(node):
        yield node
        return
    layer = onnx.NodeProto()
    layer.CopyFrom(node)
    kept = [a for a in node.attribute if a.name != "layout"]
    del layer.attribute[:]
    layer.attribute.extend(kept)
    outputs = [name for name in node.output if name]
    for position, order in _EXCHANGED.items():
        if position < len(node.input) and node.input[position]:
            layer.input[position] = f"{outputs[0]}/time first {position}"
            inputs = [node.input[position]], [layer.input[position]]
            yield helper.make_node("Transpose", *inputs, perm=order)
    layer.output[:] = [f"{name}/time first" if name else "" for name in node.output]
    yield layer
    for name, order in zip(node.output, _RESTORED, strict=False):
        if name:
            yield helper.make_node("Transpose", [f"{name}/time first"], [name], perm=order)
