"""Network: a builder of int8 TFLite models from layers with real weights.

Each method adds a layer and returns the name of its result. `tflite_bytes` quantises the network,
given the real range of each activation. Pools, pads, reshapes and concatenations share one range
with their inputs. `quantised_tensor.py` defines the quantisation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tools.quantised_tensor import (
    Activation,
    Bias,
    Numbers,
    Reals,
    Tensor,
    Weights,
    plain_numbers,
    quantised_activation,
    quantised_bias,
    quantised_weights,
)
from tools.tflite_writer import OperatorSpec, OptionValue, TensorSpec, write_tflite

HW = tuple[int, int]
Ranges = Mapping[str, tuple[float, float]]
"""Smallest and largest real value of activations, by name."""

ONE: HW = (1, 1)


@dataclass(frozen=True, slots=True)
class Layer:
    """An operator between named tensors."""

    operator: str
    inputs: tuple[str, ...]
    output: str
    options: Mapping[str, OptionValue]


class Network:
    """Layers in execution order; a layer and its result have the same name."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.layers: list[Layer] = []
        self.inputs: list[str] = []
        self.outputs: list[str] = []

    def input(self, name: str, shape: tuple[int, ...]) -> str:
        self.inputs.append(name)
        return self._keep(Activation(name, shape, group=name))

    def output(self, *names: str) -> None:
        self.outputs.extend(names)

    def constant(self, name: str, values: Reals) -> str:
        """A constant operand of an element-wise layer."""
        return self._keep(Weights(name, values, axis=None))

    def conv(
        self, name: str, x: str, w: Reals, b: Reals, activation: str = "NONE", **window: Any
    ) -> str:
        """A convolution of x (1, H, W, I) with w (O, K, L, I) and b (O).

        `window`: stride, dilation, padding."""
        shape, options = self._window(x, (w.shape[1], w.shape[2]), **window)
        options["fused_activation_function"] = activation
        return self._weighted("CONV_2D", name, x, w, b, 0, (*shape, w.shape[0]), options)

    def depthwise(
        self, name: str, x: str, w: Reals, b: Reals, activation: str = "NONE", **window: Any
    ) -> str:
        """A depthwise convolution of x (1, H, W, C) with w (1, K, L, C * M) and b (C * M)."""
        shape, options = self._window(x, (w.shape[1], w.shape[2]), **window)
        options["depth_multiplier"] = w.shape[3] // self.shape(x)[3]
        options["fused_activation_function"] = activation
        return self._weighted("DEPTHWISE_CONV_2D", name, x, w, b, 3, (*shape, w.shape[3]), options)

    def fully_connected(
        self, name: str, x: str, w: Reals, b: Reals, activation: str = "NONE"
    ) -> str:
        """A fully connected layer: x (N, I), w (O, I), b (O)."""
        shape = (self.shape(x)[0], w.shape[0])
        options: dict[str, OptionValue] = {"fused_activation_function": activation}
        return self._weighted("FULLY_CONNECTED", name, x, w, b, None, shape, options)

    def pool(self, name: str, x: str, kind: str, size: HW, **window: Any) -> str:
        """A pool; `kind` is AVERAGE or MAX."""
        shape, options = self._window(x, size, **window)
        del options["dilation_h_factor"], options["dilation_w_factor"]
        options |= {"filter_height": size[0], "filter_width": size[1]}
        options["fused_activation_function"] = "NONE"
        shape = (*shape, self.shape(x)[3])
        return self._layer(f"{kind}_POOL_2D", name, (x,), shape, options, group=x)

    def elementwise(
        self, name: str, operator: str, a: str, b: str, activation: str = "NONE"
    ) -> str:
        """An element-wise layer with broadcasting; `operator` is ADD, SUB or MUL."""
        shape = np.broadcast_shapes(self.shape(a), self.shape(b))
        return self._layer(operator, name, (a, b), shape, {"fused_activation_function": activation})

    def concatenation(self, name: str, parts: Sequence[str], axis: int) -> str:
        """A concatenation; the parts and the result share one range."""
        first = list(self.shape(parts[0]))
        first[axis] = sum(self.shape(part)[axis] for part in parts)
        for part in parts[1:]:
            self._join(part, parts[0])
        options: dict[str, OptionValue] = {"axis": axis, "fused_activation_function": "NONE"}
        return self._layer(
            "CONCATENATION", name, tuple(parts), tuple(first), options, group=parts[0]
        )

    def pad(self, name: str, x: str, paddings: Sequence[HW]) -> str:
        """A pad; `paddings` has the number of elements before and after, for each axis."""
        shape = tuple(
            extent + sum(pair) for extent, pair in zip(self.shape(x), paddings, strict=True)
        )
        numbers = self._numbers(f"{name}/paddings", paddings)
        return self._layer("PAD", name, (x, numbers), shape, {}, group=x)

    def crop(self, name: str, x: str, first: int, rows: int) -> str:
        """Rows [first, first + rows) of x (N, H, W, C)."""
        extents = self.shape(x)
        shape = (extents[0], rows, *extents[2:])
        start = self._numbers(f"{name}/start", (0, first, 0, 0))
        size = self._numbers(f"{name}/size", shape)
        return self._layer("SLICE", name, (x, start, size), shape, {}, group=x)

    def mean(self, name: str, x: str, axes: Sequence[int], keep_dims: bool) -> str:
        extents = [1 if a in axes else extent for a, extent in enumerate(self.shape(x))]
        kept = [extent for a, extent in enumerate(extents) if keep_dims or a not in axes]
        numbers = self._numbers(f"{name}/axes", axes)
        return self._layer("MEAN", name, (x, numbers), tuple(kept), {"keep_dims": keep_dims})

    def reshape(self, name: str, x: str, shape: tuple[int, ...]) -> str:
        numbers = self._numbers(f"{name}/shape", shape)
        return self._layer("RESHAPE", name, (x, numbers), shape, {"new_shape": shape}, group=x)

    def softmax(self, name: str, x: str) -> str:
        self.layers.append(Layer("SOFTMAX", (x,), name, {"beta": 1.0}))
        return self._keep(Activation(name, self.shape(x), group=name, is_softmax=True))

    def shape(self, name: str) -> tuple[int, ...]:
        tensor = self.tensors[name]
        return tensor.shape if isinstance(tensor, Activation) else tensor.values.shape

    def activations(self) -> tuple[tuple[int, Activation], ...]:
        """(index of the tensor in the file, activation), in file order."""
        return tuple(
            (index, tensor)
            for index, tensor in enumerate(self.tensors.values())
            if isinstance(tensor, Activation)
        )

    def tflite_bytes(self, ranges: Ranges, description: str = "") -> bytes:
        """The model file.

        `ranges` has a range for at least one activation of each group; softmax needs none."""
        specs: dict[str, TensorSpec] = {}
        for name, tensor in self.tensors.items():
            specs[name] = self._quantised(tensor, ranges, specs)
        index_of = {name: index for index, name in enumerate(specs)}
        operators = [
            OperatorSpec(
                layer.operator,
                tuple(index_of[name] for name in layer.inputs),
                (index_of[layer.output],),
                layer.options,
            )
            for layer in self.layers
        ]
        inputs = [index_of[name] for name in self.inputs]
        outputs = [index_of[name] for name in self.outputs]
        return write_tflite(tuple(specs.values()), operators, inputs, outputs, description)

    def _keep(self, tensor: Tensor) -> str:
        if tensor.name in self.tensors:
            raise ValueError(f'there are two tensors "{tensor.name}"')
        self.tensors[tensor.name] = tensor
        return tensor.name

    def _numbers(self, name: str, values: Sequence[int] | Sequence[HW]) -> str:
        return self._keep(Numbers(name, np.array(values, np.int32)))

    def _layer(
        self,
        operator: str,
        name: str,
        inputs: tuple[str, ...],
        shape: tuple[int, ...],
        options: Mapping[str, OptionValue],
        group: str = "",
    ) -> str:
        """Adds a layer and returns its result, which joins the group of the activation `group`."""
        self._keep(Activation(name, shape, group=self._group(group) if group else name))
        self.layers.append(Layer(operator, inputs, name, options))
        return name

    def _weighted(
        self,
        operator: str,
        name: str,
        x: str,
        w: Reals,
        b: Reals,
        axis: int | None,
        shape: tuple[int, ...],
        options: Mapping[str, OptionValue],
    ) -> str:
        weights = self._keep(Weights(f"{name}/weights", w, axis))
        bias = self._keep(Bias(f"{name}/bias", b, x, weights))
        return self._layer(operator, name, (x, weights, bias), shape, options)

    def _window(
        self, x: str, size: HW, stride: HW = ONE, dilation: HW = ONE, padding: str = "SAME"
    ) -> tuple[tuple[int, int, int], dict[str, OptionValue]]:
        """Output shape (1, Ho, Wo) of a sliding window, and its options."""
        batch, *extents, _ = self.shape(x)
        lost = [
            (s - 1) * d if padding == "VALID" else 0 for s, d in zip(size, dilation, strict=True)
        ]
        rows, columns = (
            -(-(extent - less) // step)
            for extent, less, step in zip(extents, lost, stride, strict=True)
        )
        options: dict[str, OptionValue] = {
            "padding": padding,
            "stride_h": stride[0],
            "stride_w": stride[1],
            "dilation_h_factor": dilation[0],
            "dilation_w_factor": dilation[1],
        }
        return (batch, rows, columns), options

    def _group(self, name: str) -> str:
        tensor = self.tensors[name]
        if not isinstance(tensor, Activation):
            raise ValueError(f'"{name}" is a constant, an activation is needed')
        return tensor.group

    def _join(self, name: str, other: str) -> None:
        """Merges the groups of two activations."""
        old, new = self._group(name), self._group(other)
        for key, tensor in self.tensors.items():
            if isinstance(tensor, Activation) and tensor.group == old:
                self.tensors[key] = Activation(key, tensor.shape, new, tensor.is_softmax)

    def _quantised(
        self, tensor: Tensor, ranges: Ranges, specs: Mapping[str, TensorSpec]
    ) -> TensorSpec:
        match tensor:
            case Activation():
                return quantised_activation(tensor, self._limits(tensor, ranges))
            case Weights():
                return quantised_weights(tensor)
            case Bias():
                return quantised_bias(tensor, specs[tensor.x], specs[tensor.w])
            case Numbers():
                return plain_numbers(tensor)

    def _limits(self, activation: Activation, ranges: Ranges) -> tuple[float, float]:
        """The range of the activation's group."""
        names = [t.name for _, t in self.activations() if t.group == activation.group]
        known = [ranges[name] for name in names if name in ranges]
        if not known and not activation.is_softmax:
            raise ValueError(f'no range is given for "{activation.name}"')
        return min((low for low, _ in known), default=0), max(
            (high for _, high in known), default=0
        )
