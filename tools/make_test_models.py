"""Writes the small networks of `tests/models`, with goldens from TensorFlow Lite Micro.

    python -m tools.make_test_models

Weights are seeded random numbers. Ranges are calibrated, so that activations use the whole range of
int8. Random numbers are drawn as integers and later arithmetic is exact, so that every machine
writes the same models.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from penstock.simulators.drawn_inputs import InputType, draw_inputs
from penstock.simulators.goldens import make_goldens, write_goldens
from tools.calibration import calibrated_ranges
from tools.keypoints import keypoints
from tools.lstm_network import LayerSpec, LstmNetwork
from tools.network import Network
from tools.quantised_tensor import Reals, quantised_activation
from tools.svdf_network import SvdfNetwork, SvdfSpec
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite
from tools.unrolled_gru import INPUT, UnrolledGru

ROOT = Path(__file__).parents[1]
MODELS = ROOT / "tests" / "models"
DIGITS = ROOT / "src" / "penstock" / "demo" / "digits.tflite"
DIGITS_INPUT: InputType = ((1, 8, 8, 1), np.int8, -128)
INPUT_LIMITS = (-1.2, 0.9)  # asymmetric, so that zero points are not 0


class Weights:
    """Seeded random constants for one network."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def reals(self, shape: tuple[int, ...], largest: float = 1.0) -> Reals:
        """Uniform random numbers in [-largest, largest), multiples of largest * 2**-20."""
        return self.rng.integers(-(1 << 20), 1 << 20, shape) / (1 << 20) * largest

    def kernel(self, shape: tuple[int, ...], axis: int = 0) -> Reals:
        """Weights whose magnitude differs between channels of `axis`, by a factor of up to four."""
        extents = [-1 if a == axis else 1 for a in range(len(shape))]
        gains = self.rng.integers(16, 65, shape[axis]) / 64
        return self.reals(shape) * gains.reshape(extents)

    def depthwise(self, rows: int, columns: int, channels: int) -> Reals:
        return self.kernel((1, rows, columns, channels), axis=3)


def strided_residual() -> Network:
    """Uneven padding by strides and even kernels, a residual, a pool, a dense layer, a softmax."""
    draw, net = Weights(1), Network()
    x = net.input("image", (1, 13, 12, 3))
    x = net.conv("stem", x, draw.kernel((8, 4, 3, 3)), draw.reals((8,)), "RELU6", stride=(2, 2))
    skip = net.depthwise("spread", x, draw.depthwise(3, 3, 16), draw.reals((16,)), "RELU")
    x = net.conv("mix", skip, draw.kernel((16, 1, 1, 16)), draw.reals((16,)))
    x = net.elementwise("residual", "ADD", x, skip)
    x = net.pool("pool", x, "MAX", (2, 2), stride=(2, 2), padding="VALID")
    x = net.reshape("flat", x, (1, 144))
    x = net.fully_connected("scores", x, draw.reals((10, 144), 1 / 16), draw.reals((10,)))
    net.output(net.softmax("probabilities", x))
    return net


def padded_branches() -> Network:
    """An explicit pad before unpadded convolutions in two branches, which are concatenated."""
    draw, net = Weights(2), Network()
    x = net.input("image", (1, 9, 10, 4))
    x = net.pad("border", x, ((0, 0), (1, 2), (2, 1), (0, 0)))
    w, b = draw.kernel((6, 3, 3, 4)), draw.reals((6,))
    left = net.conv("left", x, w, b, "RELU", stride=(2, 2), padding="VALID")
    w, b = draw.kernel((8, 4, 3, 4)), draw.reals((8,))
    right = net.conv("right", x, w, b, stride=(2, 2), padding="VALID")
    x = net.concatenation("joined", (left, right), axis=3)
    net.output(net.conv("mix", x, draw.kernel((8, 1, 1, 14)), draw.reals((8,))))
    return net


def dilated_average() -> Network:
    """Dilated kernels, and average pools whose windows are partly outside of the input."""
    draw, net = Weights(3), Network()
    x = net.input("image", (1, 11, 13, 3))
    x = net.conv("wide", x, draw.kernel((8, 3, 3, 3)), draw.reals((8,)), dilation=(2, 2))
    x = net.pool("thin", x, "AVERAGE", (3, 3), stride=(2, 2))
    w, b = draw.depthwise(2, 3, 8), draw.reals((8,))
    x = net.depthwise("tall", x, w, b, "RELU", dilation=(2, 1), padding="VALID")
    net.output(net.pool("smooth", x, "AVERAGE", (2, 2)))
    return net


def arithmetic() -> Network:
    """Broadcasting element-wise layers, means that keep or drop axes, a reshape."""
    draw, net = Weights(4), Network()
    x = net.input("features", (1, 7, 9, 8))
    weight = net.mean("weight", x, (1, 2), keep_dims=True)
    x = net.elementwise("weighted", "MUL", x, weight)
    x = net.elementwise("shifted", "SUB", x, net.constant("shift", draw.reals((8,), 0.05)))
    rows = net.mean("rows", x, (2,), keep_dims=False)
    column = net.mean("column", x, (2,), keep_dims=True)
    x = net.elementwise("centred", "SUB", x, column)
    net.output(net.reshape("flat", x, (1, 63, 8)), net.reshape("lines", rows, (1, 56)))
    return net


def two_heads() -> Network:
    """Two inputs of different ranges, two outputs of different kinds."""
    draw, net = Weights(5), Network()
    near = net.input("near", (1, 8, 7, 4))
    far = net.input("far", (1, 8, 7, 4))
    both = net.elementwise("both", "ADD", near, far, "RELU")
    x = net.conv("map", both, draw.kernel((5, 3, 3, 4)), draw.reals((5,)), stride=(1, 2))
    y = net.mean("mean", both, (1, 2), keep_dims=False)
    y = net.fully_connected("scores", y, draw.reals((6, 4)), draw.reals((6,)))
    net.output(x, y)
    return net


def inverted_bottleneck() -> Network:
    """Hidden channels that only a pointwise or dense layer reads: through a depthwise layer, and
    through a mean and a view."""
    draw, net = Weights(7), Network()
    x = net.input("image", (1, 7, 6, 6))
    x = net.conv("expand", x, draw.kernel((26, 1, 1, 6)), draw.reals((26,)), "RELU6")
    x = net.depthwise("spread", x, draw.depthwise(3, 3, 26), draw.reals((26,)), "RELU6")
    x = net.conv("project", x, draw.kernel((5, 1, 1, 26)), draw.reals((5,)))
    x = net.conv("widen", x, draw.kernel((18, 1, 1, 5)), draw.reals((18,)), "RELU")
    x = net.mean("mean", x, (1, 2), keep_dims=False)
    net.output(net.fully_connected("scores", x, draw.reals((7, 18)), draw.reals((7,))))
    return net


def streaming() -> Network:
    """A keyword network on spectrograms, without padding along time."""
    draw, net = Weights(6), Network()
    x = net.input("spectrogram", (1, 49, 10, 1))
    w, b = draw.kernel((16, 10, 4, 1)), draw.reals((16,))
    x = net.conv("stem", x, w, b, "RELU", stride=(2, 2), padding="VALID")
    for dilation in (1, 2):
        w, b = draw.depthwise(3, 1, 16), draw.reals((16,))
        y = net.depthwise(
            f"spread{dilation}", x, w, b, "RELU", dilation=(dilation, 1), padding="VALID"
        )
        w, b = draw.kernel((16, 1, 1, 16)), draw.reals((16,))
        y = net.conv(f"mix{dilation}", y, w, b, "RELU")
        crop = net.crop(f"crop{dilation}", x, dilation, net.shape(y)[1])
        x = net.elementwise(f"sum{dilation}", "ADD", y, crop)
    _, frames, columns, _ = net.shape(x)
    x = net.pool("mean", x, "AVERAGE", (frames, columns), padding="VALID")
    x = net.fully_connected("scores", net.reshape("flat", x, (1, 16)), draw.reals((12, 16)),
                            draw.reals((12,)))  # fmt: skip
    net.output(net.softmax("probabilities", x))
    return net


NETWORKS: tuple[Callable[[], Network], ...] = (
    strided_residual,
    padded_branches,
    dilated_average,
    arithmetic,
    two_heads,
    inverted_bottleneck,
    streaming,
)


def elu() -> tuple[bytes, tuple[InputType, ...]]:
    """Three ELU operators with different input and output scales, and their input types."""
    shape = (1, 2, 8, 16)
    scales = ((0.05, -10, 0.05, -108), (0.01, 100, 0.015, 50), (0.3, 0, 0.14, -119))
    tensors: list[TensorSpec] = []
    for k, (x_scale, x_zero, y_scale, y_zero) in enumerate(scales):
        tensors.append(TensorSpec(f"x{k}", shape, scales=(x_scale,), zero_points=(x_zero,)))
        tensors.append(TensorSpec(f"y{k}", shape, scales=(y_scale,), zero_points=(y_zero,)))
    inputs, outputs = tuple(range(0, len(tensors), 2)), tuple(range(1, len(tensors), 2))
    nodes = [OperatorSpec("ELU", (x,), (y,)) for x, y in zip(inputs, outputs, strict=True)]
    types = tuple((shape, np.int8, x_zero) for _, x_zero, _, _ in scales)
    return write_tflite(tensors, nodes, inputs, outputs), types


def real_tails() -> tuple[bytes, tuple[InputType, ...]]:
    """Operators on real numbers after int8: vectors, sums, and chains that return to int8."""
    shape, scales = (1, 4, 8, 8), ((0.05, -10), (0.004, 127))
    tensors = [TensorSpec(f"x{k}", shape, "int8", (s,), (z,)) for k, (s, z) in enumerate(scales)]
    nodes: list[OperatorSpec] = []

    def node(name: str, *inputs: int) -> int:
        tensors.append(TensorSpec(f"t{len(tensors)}", shape, "float32"))
        options = {"beta": 1.0} if name == "SOFTMAX" else {}
        nodes.append(OperatorSpec(name, inputs, (len(tensors) - 1,), options))
        return len(tensors) - 1

    def quantised(x: int, scale: float, zero: int) -> int:
        tensors.append(TensorSpec(f"t{len(tensors)}", shape, "int8", (scale,), (zero,)))
        nodes.append(OperatorSpec("QUANTIZE", (x,), (len(tensors) - 1,)))
        return len(tensors) - 1

    reals = [node("DEQUANTIZE", k) for k in range(len(scales))]
    tensors.append(TensorSpec("axis", (1,), "int32", data=np.array([2], np.int32)))
    axis = len(tensors) - 1
    outputs = [node("LOG_SOFTMAX", reals[0]), node("SOFTMAX", reals[1]), node("CUMSUM", 2, axis)]
    for name, x, scale, zero in (("TANH", 1, 1 / 128, 0), ("EXP", 1, 1 / 200, -128)):
        outputs.append(quantised(node(name, node("DEQUANTIZE", x)), scale, zero))
    root = node("SQRT", node("ABS", node("DEQUANTIZE", 0)))
    outputs.append(quantised(root, 0.02, -128))
    types = tuple((shape, np.int8, zero) for _, zero in scales)
    return write_tflite(tensors, nodes, (0, 1), outputs), types


def lstm() -> tuple[bytes, tuple[InputType, ...]]:
    """Two LSTM layers, of which the first has a clipped cell state; the last step is the output."""
    net = LstmNetwork(np.random.default_rng(6))
    shape, zero = (1, 7, 5), -9
    x = net.input(shape, 1 / 64, zero)
    first = LayerSpec(6, hidden_zero=-4, cell_exponent=-11, cell_clip=1.5, input_gain=2.0)
    y = net.lstm(net.lstm(x, first), LayerSpec(4, cell_exponent=-12, recurrent_gain=2.0))
    return net.tflite(x, net.last_step(y)), ((shape, np.int8, zero),)


def unrolled_gru() -> tuple[bytes, tuple[InputType, ...]]:
    """A GRU layer whose steps a converter has unrolled; all hidden states are outputs."""
    steps, depth = 5, 6
    raw = UnrolledGru(np.random.default_rng(1), 12).tflite(steps, depth)
    return raw, (((1, steps, depth), np.int8, INPUT[1]),)


def svdf() -> tuple[bytes, tuple[InputType, ...]]:
    """Two SVDF layers with states of 16 and 8 bits, and a layer between them."""
    net = SvdfNetwork(np.random.default_rng(6))
    x = net.activation(16, 0.05, -12)
    y = net.svdf(x, SvdfSpec(20, 5, rank=2, activation="RELU"))
    y = net.svdf(net.fully_connected(y, 12), SvdfSpec(24, 4, state="int8"))
    return net.tflite(x, y), ((net.tensors[x].shape, np.int8, -12),)


OPERATORS: tuple[Callable[[], tuple[bytes, tuple[InputType, ...]]], ...] = (
    elu,
    keypoints,
    lstm,
    real_tails,
    svdf,
    unrolled_gru,
)
"""Models that are written without calibration."""
STEPS = {"lstm": 4, "svdf": 8}
"""By model with state, the number of runs of each set."""


def calibrated_model(network: Network) -> tuple[bytes, tuple[InputType, ...]]:
    """The calibrated model and its input types; each input has twice the range of the previous
    one."""
    lower, upper = INPUT_LIMITS
    limits = {name: (lower * 2**k, upper * 2**k) for k, name in enumerate(network.inputs)}
    types: list[InputType] = []
    for _, activation in network.activations():
        if activation.name in limits:
            spec = quantised_activation(activation, limits[activation.name])
            types.append((spec.shape, np.int8, spec.zero_points[0]))
    input_sets = [draw_inputs(types, number, seed=0) for number in range(10)]
    return network.tflite_bytes(calibrated_ranges(network, limits, input_sets)), tuple(types)


def main() -> None:
    """Writes every model with its goldens, and the goldens of the demo model."""
    models = {build.__name__: calibrated_model(build()) for build in NETWORKS}
    models |= {build.__name__: build() for build in OPERATORS}
    for name, (model_bytes, types) in models.items():
        (MODELS / f"{name}.tflite").write_bytes(model_bytes)
        goldens = make_goldens(model_bytes, types, f"{name}.tflite", steps=STEPS.get(name))
        write_goldens(goldens, MODELS / f"{name}.npz")
        print(f"{name}: {len(model_bytes)} bytes")
    if DIGITS.exists():
        goldens = make_goldens(DIGITS.read_bytes(), (DIGITS_INPUT,), DIGITS.name)
        write_goldens(goldens, MODELS / "digits.npz")


if __name__ == "__main__":
    main()
