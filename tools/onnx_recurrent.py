"""Quantised LSTM and GRU layers of ONNX models, for tests and benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tools.onnx_writer import Array, Model

GATES = {"LSTM": 4, "GRU": 3}
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


@dataclass(frozen=True)
class RecurrentLayer:
    """A layer to add to a model.

    channels: weights have one scale for each output, else one for all.
    bias: "float32", "int8" or "int32", how the biases are stored; "" for none.
    states: "" for zeros, "constant", "int8" or "float32" for inputs and outputs of the model.
    reset_after: attribute linear_before_reset of GRU.
    """

    kind: str = "LSTM"
    units: int = 4
    direction: str = "forward"
    batch_first: bool = False
    channels: bool = False
    bias: str = "float32"
    states: str = ""
    reset_after: bool = False

    @property
    def directions(self) -> int:
        return DIRECTIONS[self.direction]

    @property
    def state_names(self) -> tuple[str, ...]:
        return ("h", "c") if self.kind == "LSTM" else ("h",)


def dequantised(model: Model, elements: Array, scales: Array, axis: int = 0) -> str:
    """A constant after DequantizeLinear, with scales along `axis`, or a single scale."""
    name = model.constant(elements)
    zeros = model.constant(np.zeros(scales.shape, elements.dtype))
    inputs = [name, model.constant(scales.astype(np.float32)), zeros]
    attributes: dict[str, Any] = {"axis": axis} if scales.ndim else {}
    node = helper.make_node("DequantizeLinear", inputs, [f"{name}_d"], **attributes)
    model.nodes.append(node)
    return f"{name}_d"


def add_layer(
    model: Model,
    x: str,
    shape: tuple[int, int, int],
    layer: RecurrentLayer,
    rng: np.random.Generator,
    prefix: str = "",
    scale: float = 1 / 128,
) -> str:
    """Adds a layer on x, (steps, batch, depth); returns its output sequence, quantised.

    The inputs of states are named `prefix` + "h_in" and so on, their outputs "h_out"; the latter
    become outputs of the model."""
    _, batch, depth = shape
    units, count = layer.units, GATES[layer.kind] * layer.units
    weights = [_weights(model, rng, layer, (layer.directions, count, n)) for n in (depth, units)]
    inputs = [x, *weights, _biases(model, rng, layer, 2 * count), ""]
    sizes = (batch, layer.directions) if layer.batch_first else (layer.directions, batch)
    outputs = [f"{prefix}y"]
    for state in layer.state_names:
        inputs.append(_state_input(model, rng, layer, f"{prefix}{state}_in", (*sizes, units)))
        outputs.append(f"{prefix}{state}_out" if layer.states in ("int8", "float32") else "")
    attributes: dict[str, Any] = {"hidden_size": units, "direction": layer.direction}
    if layer.kind == "GRU":
        attributes["linear_before_reset"] = int(layer.reset_after)
    if layer.batch_first:
        attributes["layout"] = 1
    node = helper.make_node(layer.kind, inputs, outputs, **attributes)
    model.nodes.append(node)
    for name in filter(None, outputs[1:]):
        model.output(model.qdq(name, scale=1 / 64, zero=0) if layer.states == "int8" else name)
    return model.qdq(outputs[0], scale=scale, zero=0)


def _weights(
    model: Model, rng: np.random.Generator, layer: RecurrentLayer, shape: tuple[int, int, int]
) -> str:
    scale = 1.5 / 127 / shape[2] ** 0.5
    elements = rng.integers(-127, 128, shape).astype(np.int8)
    if not layer.channels:
        return dequantised(model, elements, np.array(scale))
    return dequantised(model, elements, rng.uniform(0.3, 1, shape[1]) * scale, axis=1)


def _biases(model: Model, rng: np.random.Generator, layer: RecurrentLayer, count: int) -> str:
    shape = (layer.directions, count)
    match layer.bias:
        case "":
            return ""
        case "float32":
            return model.constant(rng.normal(0, 0.5, shape).astype(np.float32))
        case kind:
            elements = rng.integers(-127, 128, shape).astype(kind)
            return dequantised(model, elements, np.array(0.01))


def _state_input(
    model: Model, rng: np.random.Generator, layer: RecurrentLayer, name: str, shape: tuple[int, ...]
) -> str:
    match layer.states:
        case "":
            return ""
        case "constant":
            return model.constant(rng.uniform(-0.9, 0.9, shape).astype(np.float32))
        case kind:
            info = helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))
            model.inputs.append(info)
            return model.qdq(name, scale=1 / 64, zero=0) if kind == "int8" else name
