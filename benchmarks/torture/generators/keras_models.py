"""Random Keras models through the TensorFlow Lite converter, full int8 quantisation."""

# pyright: reportMissingImports=false, reportMissingModuleSource=false
# The packages are in the extra `torture`.

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np

from benchmarks.torture.case import Case, Generator
from benchmarks.torture.exporting import quiet
from benchmarks.torture.tflite_judge import judge

MOST_STEPS = 8
MOST_ELEMENTS = 4096
CALIBRATION_SETS = 6


def draw(seed: int) -> Case | None:
    """The model of a seed; None if Keras or the converter refuses."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import keras

    random = Random(f"keras models {seed}")
    keras.utils.set_random_seed(random.getrandbits(31))
    keras.backend.clear_session()
    with quiet():
        grown = Grown(random)
        for _ in range(random.randint(1, MOST_STEPS)):
            grown.step()
        raw = _converted(grown.model(), random)
    return None if raw is None else Case(raw, ".tflite", judge)


class Grown:
    """A functional model under construction."""

    def __init__(self, random: Random) -> None:
        import keras

        shape = random.choice(
            (
                *((random.randint(4, 12), random.randint(4, 12), random.randint(1, 6)),) * 4,
                (random.randint(6, 20), random.randint(1, 8)),
                (random.randint(4, 24),),
            )
        )
        self.random = random
        self.input = keras.Input(shape, batch_size=1)
        self.values = [self.input]
        self.read: set[int] = set()

    def pick(self, *ranks: int) -> Any:
        """A value of one of the ranks, the latest more often; None if none is."""
        every = [k for k, v in enumerate(self.values) if not ranks or len(v.shape) in ranks]
        if not every:
            return None
        k = every[-1] if self.random.random() < 0.6 else self.random.choice(every)
        self._picked = {*getattr(self, "_picked", ()), k}
        return self.values[k]

    def step(self) -> None:
        """Adds a random step if Keras takes it."""
        for _ in range(4):
            self._picked: set[int] = set()
            try:
                value = self.random.choice(STEPS)(self)
            except Exception:  # whatever Keras raises: the shapes do not fit
                continue
            if value is None or not 0 < int(np.prod(value.shape)) <= MOST_ELEMENTS:
                continue
            self.values.append(value)
            self.read |= self._picked
            return

    def model(self) -> Any:
        """The model; values without readers are its outputs, some with a head."""
        import keras

        ends = [v for k, v in enumerate(self.values) if k and k not in self.read]
        ends = ends or [keras.layers.ReLU()(self.input)]
        return keras.Model(self.input, ends if len(ends) > 1 else ends[0])


def _converted(model: Any, random: Random) -> bytes | None:
    """The file that the converter writes; None if it refuses."""
    import tensorflow as tf

    shape = model.inputs[0].shape
    numbers = np.random.default_rng(random.getrandbits(64))
    for variable in model.weights:  # biases and statistics are zeros and ones otherwise
        if len(variable.shape) == 1 and random.random() < 0.7:
            variable.assign(variable + np.abs(numbers.normal(0, 0.2, variable.shape)))

    def calibration() -> Iterator[list[Any]]:
        for _ in range(CALIBRATION_SETS):
            yield [numbers.normal(0, 1, shape).astype(np.float32)]

    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = calibration
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    if random.random() < 0.8:
        converter.inference_input_type = tf.int8
        converter.inference_output_type = tf.int8
    if random.random() < 0.15:
        converter._experimental_disable_per_channel = True
    try:
        return bytes(converter.convert())
    except Exception:  # whatever the converter raises
        return None


Maker = Callable[[Grown], Any]


def _convolution(g: Grown) -> Any:
    from keras import layers

    x, r = g.pick(4), g.random
    if x is None:
        return None
    kind = r.choice(
        (
            layers.Conv2D,
            layers.Conv2D,
            layers.Conv2D,
            layers.SeparableConv2D,
            layers.Conv2DTranspose,
        )
    )
    stride = r.choice((1, 1, 2, 3))
    options: dict[str, Any] = dict(
        strides=stride, padding=r.choice(("same", "valid")), use_bias=r.random() < 0.7,
        activation=r.choice((None, "relu", "relu6", "swish")),
    )  # fmt: skip
    if stride == 1 and kind is layers.Conv2D:
        options["dilation_rate"] = r.choice((1, 1, 2))
        channels = x.shape[-1]
        if channels % 2 == 0 and r.random() < 0.2:
            return kind(channels * 2, r.randint(1, 3), groups=2, **options)(x)
    size = (r.randint(1, 3), r.randint(1, 3))
    return kind(r.randint(1, 8), size, **options)(x)


def _depthwise(g: Grown) -> Any:
    from keras import layers

    x, r = g.pick(4), g.random
    if x is None:
        return None
    return layers.DepthwiseConv2D(
        r.randint(1, 4), r.choice((1, 1, 2)), r.choice(("same", "valid")),
        depth_multiplier=r.choice((1, 1, 2)), activation=r.choice((None, "relu")),
    )(x)  # fmt: skip


def _block(g: Grown) -> Any:
    """Convolution, normalisation, activation, with a shortcut where shapes allow."""
    from keras import layers

    x, r = g.pick(4), g.random
    if x is None:
        return None
    y = layers.Conv2D(x.shape[-1], 3, padding="same", use_bias=False)(x)
    y = layers.BatchNormalization()(y)
    y = layers.Activation(r.choice(("relu", "relu6", "hard_swish", "swish", "linear")))(y)
    return layers.Add()([x, y]) if r.random() < 0.7 else y


def _signal(g: Grown) -> Any:
    from keras import layers

    x, r = g.pick(3), g.random
    if x is None:
        return None
    kind = r.choice(("conv", "conv", "separable", "max", "average", "global", "lstm", "gru"))
    padding = r.choice(("same", "valid", "causal"))
    if kind == "conv":
        dilation = r.choice((1, 1, 2))
        return layers.Conv1D(r.randint(1, 8), r.randint(1, 4), padding=padding,
                             dilation_rate=dilation)(x)  # fmt: skip
    if kind == "separable":
        return layers.SeparableConv1D(r.randint(1, 8), 3, padding="same")(x)
    if kind in ("max", "average"):
        made = layers.MaxPooling1D if kind == "max" else layers.AveragePooling1D
        return made(2, padding=r.choice(("same", "valid")))(x)
    if kind == "global":
        return r.choice((layers.GlobalAveragePooling1D, layers.GlobalMaxPooling1D))()(x)
    made = layers.LSTM if kind == "lstm" else layers.GRU
    return made(r.randint(2, 6), return_sequences=r.random() < 0.6, unroll=r.random() < 0.7)(x)


def _pool(g: Grown) -> Any:
    from keras import layers

    x, r = g.pick(4), g.random
    if x is None:
        return None
    padding, size, stride = r.choice(("same", "valid")), r.randint(1, 3), r.randint(1, 3)
    return r.choice(
        (
            lambda v: layers.MaxPooling2D(size, stride, padding)(v),
            lambda v: layers.AveragePooling2D(size, stride, padding)(v),
            lambda v: layers.GlobalAveragePooling2D()(v),
            lambda v: layers.GlobalMaxPooling2D()(v),
        )
    )(x)


def _dense(g: Grown) -> Any:
    from keras import layers

    x, r = g.pick(), g.random
    if r.random() < 0.5 and len(x.shape) > 2:
        x = layers.Flatten()(x)
    activation = r.choice((None, "relu", "sigmoid", "tanh", "softmax"))
    return layers.Dense(r.randint(1, 10), activation=activation, use_bias=r.random() < 0.8)(x)


def _activation(g: Grown) -> Any:
    from keras import layers

    r = g.random
    names = (
        *("relu", "relu6", "sigmoid", "tanh", "swish", "hard_swish", "hard_sigmoid", "elu", "selu"),
        *("gelu", "softplus", "softsign", "exponential", "mish", "leaky_relu", "softmax"),
    )
    made = r.choice((*map(layers.Activation, names), layers.PReLU(), layers.LeakyReLU(0.2)))
    return made(g.pick())


def _normalisation(g: Grown) -> Any:
    from keras import layers

    return g.random.choice(
        (layers.BatchNormalization(), layers.LayerNormalization(), layers.UnitNormalization())
    )(g.pick())


def _image(g: Grown) -> Any:
    from keras import layers

    x, r = g.pick(4), g.random
    if x is None:
        return None
    sides = ((r.randint(0, 2), r.randint(0, 2)), (r.randint(0, 2), r.randint(0, 2)))
    return r.choice(
        (
            lambda v: layers.ZeroPadding2D(sides)(v),
            lambda v: layers.Cropping2D(((1, 0), (0, 1)))(v),
            lambda v: layers.UpSampling2D(2, interpolation="nearest")(v),
            lambda v: layers.UpSampling2D((2, 3), interpolation="bilinear")(v),
            lambda v: layers.Resizing(r.randint(2, 12), r.randint(2, 12))(v),
            lambda v: layers.Permute(tuple(r.sample((1, 2, 3), 3)))(v),
            lambda v: layers.Reshape((-1, v.shape[-1]))(v),
            lambda v: v * layers.GlobalAveragePooling2D(keepdims=True)(v),
            lambda v: v[:, ::2, 1:, :],
        )
    )(x)


def _function(g: Grown) -> Any:
    from keras import ops

    x, r = g.pick(), g.random
    axis, number = r.randrange(1, len(x.shape)), r.uniform(-2, 2)
    keep = r.random() < 0.5
    return r.choice(
        (
            lambda v: ops.mean(v, axis, keep), lambda v: ops.max(v, axis, keep),
            lambda v: ops.sum(v, axis, keep), lambda v: ops.min(v, axis, keep),
            lambda v: v + number,
            lambda v: v * number, lambda v: number - v, lambda v: ops.abs(v), lambda v: -v,
            lambda v: ops.clip(v, -0.7, 1.1), lambda v: ops.maximum(v, number), lambda v: v / 3.0,
            lambda v: ops.transpose(v, (0, *reversed(range(1, len(v.shape))))),
            lambda v: ops.concatenate([v, v], axis), lambda v: ops.square(v), lambda v: ops.exp(-v),
            lambda v: ops.split(v, 2, axis)[1], lambda v: ops.expand_dims(v, axis),
            lambda v: ops.sqrt(ops.relu(v)),
            lambda v: ops.tile(v, (*(1,) * (len(v.shape) - 1), 2)),
            lambda v: ops.roll(v, 1, axis), lambda v: ops.flip(v, axis), lambda v: ops.sin(v),
            lambda v: ops.where(v > 0.0, v, v * 0.1), lambda v: ops.floor(v), lambda v: ops.cos(v),
            lambda v: ops.log(ops.abs(v) + 1.0), lambda v: ops.stack([v, v], axis),
            lambda v: ops.take(v, [0, -1], axis), lambda v: ops.repeat(v, 2, axis),
            lambda v: ops.argmax(v, axis), lambda v: ops.rsqrt(ops.abs(v) + 0.5),
        )
    )(x)  # fmt: skip


def _pair(g: Grown) -> Any:
    from keras import layers, ops

    x, r = g.pick(), g.random
    alike = [k for k, v in enumerate(g.values) if v.shape == x.shape]
    k = r.choice(alike)
    g.read.add(k)
    y = g.values[k]
    return r.choice(
        (
            lambda a, b: layers.Add()([a, b]), lambda a, b: layers.Subtract()([a, b]),
            lambda a, b: layers.Multiply()([a, b]), lambda a, b: layers.Concatenate()([a, b]),
            lambda a, b: layers.Maximum()([a, b]), lambda a, b: layers.Minimum()([a, b]),
            lambda a, b: layers.Average()([a, b]), lambda a, b: a / (ops.abs(b) + 1.0),
            lambda a, b: layers.Concatenate(1)([a, b]), lambda a, b: ops.squared_difference(a, b)
            if hasattr(ops, "squared_difference") else ops.square(a - b),
        )
    )(x, y)  # fmt: skip


def _product(g: Grown) -> Any:
    from keras import layers, ops

    x, r = g.pick(3), g.random
    if x is None:
        return None
    return r.choice(
        (
            lambda v: ops.matmul(v, ops.transpose(v, (0, 2, 1))),
            lambda v: layers.Attention()([v, v]),
            lambda v: layers.MultiHeadAttention(2, 4)(v, v),
        )
    )(x)


STEPS: tuple[Maker, ...] = (
    *(_convolution, _block, _pool, _dense, _activation, _image, _function, _pair) * 2,
    *(_depthwise, _convolution, _signal, _signal, _normalisation, _product),
)
GENERATOR = Generator("keras-models", draw, ("tensorflow", "keras", "tflite_micro"))
