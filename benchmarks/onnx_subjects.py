"""Small ONNX models whose files are damaged.

They are quantised in both formats, or of real numbers, or compute shapes, or are recurrent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from tools.make_onnx_models import recurrent
from tools.onnx_writer import Model


def onnx_subjects() -> Mapping[str, bytes]:
    """The bytes of each model by name; the suffix tells which are read with --assume-int8."""
    quantised = {
        "residual.onnx": residual(Model()),
        "residual_uint8.onnx": residual(Model(kind="uint8", zero=-128)),
        "moves.onnx": moves(Model()),
        "signal.onnx": signal(Model()),
        "sequence.onnx": sequence(Model()),
        "operators.onnx": operators(),
        "recurrent.onnx": recurrent(),
    }
    real: dict[str, Callable[[Model], bytes]] = {
        "residual": residual,
        "moves": moves,
        "signal": signal,
        "sequence": sequence,
    }
    return quantised | {
        f"{name}.assumed.onnx": make(Model(quantised=False)) for name, make in real.items()
    }


def residual(model: Model) -> bytes:
    """Convolutions, a normalisation, an addition, a gate, pooling and a classifier."""
    x = model.input(1, 3, 12, 10)
    x = model.node("Conv", x, model.weights(8, 3, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2])
    spread = model.constant(np.linspace(0.5, 2, 8).astype(np.float32))
    parts = [model.reals(8, seed=s) for s in (1, 2, 3)]
    x = model.node("Relu", model.node("BatchNormalization", x, *parts, spread))
    y = model.node("Conv", x, model.weights(8, 1, 3, 3, seed=5), pads=[1, 1, 1, 1], group=8)
    y = model.node("Mul", y, model.node("Sigmoid", y))
    x = model.node("Concat", model.node("Add", x, y), y, axis=1)
    x = model.node("Flatten", model.node("GlobalAveragePool", x))
    return model.raw(model.node("Softmax", model.node("Gemm", x, model.weights(16, 5, axis=1))))


def moves(model: Model) -> bytes:
    """Data movement with computed shapes."""
    x = model.node("Conv", model.input(1, 3, 8, 6), model.weights(6, 3, 1, 1))
    pads = model.constant(np.array([0, 0, 1, 0, 0, 0, 1, 2], np.int64))
    x = model.node("MaxPool", model.node("Pad", x, pads), kernel_shape=[2, 2], strides=[2, 2])
    cuts = [model.constant(np.array(n, np.int64)) for n in ([1], [4], [2], [1])]
    x = model.node("Slice", x, *cuts)
    x = model.node("Transpose", x, perm=[0, 2, 3, 1])
    shape = model.node("Shape", x, scale=None)
    first = model.node("Gather", shape, model.constant(np.array(0, np.int64)), scale=None, axis=0)
    batch = model.node("Unsqueeze", first, model.constant(np.array([0])), scale=None)
    wanted = model.node("Concat", batch, model.constant(np.array([-1])), scale=None, axis=0)
    x = model.node("Reshape", x, wanted)
    return model.raw(model.node("MatMul", x, model.weights(72, 4, axis=1)))


def signal(model: Model) -> bytes:
    """A signal: windows along one axis, clamps, and a mean that drops its axis."""
    x = model.input(1, 4, 30)
    x = model.node("Conv", x, model.weights(6, 4, 5), pads=[2, 2], strides=[2])
    bounds = [model.constant(np.array(b, np.float32)) for b in (0, 6)]
    x = model.node("Clip", x, *bounds)
    x = model.node("AveragePool", x, kernel_shape=[3], strides=[2])
    x = model.node("PRelu", x, model.qdq(model.reals(6, 1), scale=0.01, zero=0))
    x = model.node("Sub", x, model.constant(np.array(0.5, np.float32)))
    return model.raw(model.node("ReduceMean", x, axes=[2], keepdims=0))


def sequence(model: Model) -> bytes:
    """An LSTM in both directions, whose states a GRU takes as its inputs."""
    x = model.input(5, 1, 3)
    x = model.node("LSTM", x, *_gates(model, 4 * 4, (3, 4), 2), direction="bidirectional")
    x = model.node("Transpose", x, perm=[0, 2, 1, 3])
    shape = model.constant(np.array([5, 1, 8], np.int64))
    x = model.node("Reshape", x, shape)
    return model.raw(model.node("GRU", x, *_gates(model, 3 * 5, (8, 5), 1), linear_before_reset=1))


def _gates(model: Model, rows: int, depths: tuple[int, int], directions: int) -> Iterator[str]:
    """Weights of the inputs and of the hidden state, and biases."""
    for depth in depths:
        yield model.weights(directions, rows, depth, axis=1)
    yield model.reals(directions, 2 * rows)


def operators() -> bytes:
    """Operators with scales as inputs."""
    model = Model()
    name = model.input(1, 3, 8, 8)
    s, z = (model.constant(x) for x in (np.array(0.05, np.float32), np.array(-3, np.int8)))
    x = f"{name.removesuffix('_d')}_q"
    x = x.replace("_q_q", "_q")
    w = model.constant(np.random.default_rng(1).integers(-127, 128, (4, 3, 3, 3)).astype(np.int8))
    ws, wz = model.constant(np.full(4, 0.002, np.float32)), model.constant(np.zeros(4, np.int8))
    bias = model.constant(np.arange(4, dtype=np.int32))
    y = model.node("QLinearConv", x, s, z, w, ws, wz, s, z, bias, scale=None, pads=[1, 1, 1, 1])
    y = model.node("QLinearAdd", y, s, z, y, s, z, s, z, scale=None, domain="com.microsoft")
    y = model.node("QLinearGlobalAveragePool", y, s, z, s, z, scale=None, domain="com.microsoft")
    return model.raw(model.node("DequantizeLinear", y, s, z, scale=None))
