"""The process that converts a Keras model to TensorFlow Lite, or evaluates it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence

from penstock.frontends.frameworks.child import Foreign, outputs_of, serve
from penstock.frozen import frozen
from penstock.ir.tensor import Array


@frozen
class KerasModel:
    """A Keras model.  The converted one has a batch of 1 where it is open."""

    model: Foreign

    def inputs(self) -> list[tuple[str, str, list[int | None]]]:
        return [(x.name, x.dtype, [x.shape[0] or 1, *x.shape[1:]]) for x in self.model.inputs]

    def converted(self, samples: Sequence[Array] | None) -> bytes:
        tf: Foreign = importlib.import_module("tensorflow")
        specs = [tf.TensorSpec(shape, dtype, name) for name, dtype, shape in self.inputs()]
        function = tf.function(self.called, autograph=False, input_signature=specs)
        converter = tf.lite.TFLiteConverter.from_concrete_functions(
            [function.get_concrete_function()]
        )
        if samples is not None:

            def representative() -> Iterator[list[Array]]:
                yield from map(list, zip(*samples, strict=True))

            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = representative
            # Operators without an int8 form stay on real numbers.
            converter.target_spec.supported_ops = [
                tf.lite.OpsSet.TFLITE_BUILTINS_INT8,
                tf.lite.OpsSet.TFLITE_BUILTINS,
            ]
        return named(converter.convert(), output_names(self.model))

    def called(self, *arrays: Foreign) -> list[Foreign]:
        """The outputs for arrays in the order of the inputs, however the model takes them."""
        keras: Foreign = importlib.import_module("keras")
        structure = getattr(self.model, "_inputs_struct", None)
        given = arrays[0] if structure is None else keras.tree.pack_sequence_as(structure, arrays)
        return keras.tree.flatten(self.model(given, training=False))

    def outputs(self, samples: Sequence[Array]) -> list[Array]:
        is_open = all(x.shape[0] is None for x in self.model.inputs)
        return outputs_of(self.called, samples, is_open=is_open)


def load(path: str) -> KerasModel:
    """The model, without code of the file: Keras' safe mode."""
    keras: Foreign = importlib.import_module("keras")
    model = keras.models.load_model(path, compile=False, safe_mode=True)
    if not getattr(model, "inputs", None):
        raise ValueError("the model states no inputs; begin it with keras.Input(shape)")
    for layer in model._flatten_layers():
        # A loop has no int8 form; the converter's calibration ends with it.
        if isinstance(layer, keras.layers.RNN):
            layer.unroll = True
    return KerasModel(model)


def output_names(model: Foreign) -> list[str]:
    """Names of the outputs: the keys of a dictionary, else the names of the layers."""
    outputs = getattr(model, "_outputs_struct", None)
    if isinstance(outputs, dict):
        return sorted(map(str, outputs))
    names = getattr(model, "output_names", None) or ["output"] * (len(model.outputs) == 1)
    return list(map(str, names))


def named(raw: bytes, names: list[str]) -> bytes:
    """The TFLite model whose outputs have the names of the Keras model's, if these are free.

    Quantised elements at the border, whose conversion penstock leaves to the caller, are called
    input/quantised and output; the real numbers input and output/real."""
    tools: Foreign = importlib.import_module("tensorflow.lite.tools.flatbuffer_utils")
    schema: Foreign = importlib.import_module("tensorflow.lite.python.schema_py_generated")
    operator = schema.BuiltinOperator
    model = tools.convert_bytearray_to_object(bytearray(raw))
    graph = model.subgraphs[0]
    tensors, taken = graph.tensors, {tensor.name for tensor in graph.tensors}
    if len(names) == len(graph.outputs) == len(set(graph.outputs)):
        for index, name in zip(graph.outputs, names, strict=True):
            if name.encode() not in taken and index not in graph.inputs:
                tensors[index].name = name.encode()
    for node in graph.operators:
        code = model.operatorCodes[node.opcodeIndex].builtinCode
        if code not in (operator.QUANTIZE, operator.DEQUANTIZE):
            continue
        x, y = tensors[node.inputs[0]], tensors[node.outputs[0]]
        if code == operator.QUANTIZE and node.inputs[0] in graph.inputs:
            y.name = x.name + b"/quantised"
        elif node.outputs[0] in graph.outputs:
            x.name, y.name = y.name, y.name + b"/real"
    return bytes(tools.convert_object_to_bytearray(model))


if __name__ == "__main__":
    serve(load)
