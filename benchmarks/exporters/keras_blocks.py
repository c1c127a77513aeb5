"""More architectures as Keras models: the blocks that recent small networks are made of.

Those in `KERAS_3` use `keras.ops` or layers that tf_keras lacks.
"""

# pyright: reportMissingImports=false, reportMissingModuleSource=false
# pyright: reportUnknownLambdaType=false
# The packages are in the extra `exporters`.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.exporters.keras_networks import Maker


def densenet(k: Any) -> Any:
    """Dense blocks, normalised before each convolution."""
    n = k.layers
    made = k.Input((12, 12, 3))
    x = n.Conv2D(6, 3, padding="same")(made)
    for _ in range(3):
        y = n.ReLU()(n.BatchNormalization()(x))
        x = n.Concatenate()([x, n.Conv2D(4, 3, padding="same", use_bias=False)(y)])
    x = n.AveragePooling2D(2)(n.Conv2D(8, 1)(n.ReLU()(n.BatchNormalization()(x))))
    return k.Model(made, n.Dense(3, activation="softmax")(n.GlobalAveragePooling2D()(x)))


def squeezenet(k: Any) -> Any:
    """Fire modules."""
    n = k.layers
    made = k.Input((20, 20, 3))
    x = n.MaxPooling2D(3, 2)(n.Conv2D(8, 3, 2, activation="relu")(made))
    for _ in range(2):
        x = n.Conv2D(4, 1, activation="relu")(x)
        x = n.Concatenate()([n.Conv2D(6, 1, activation="relu")(x),
                             n.Conv2D(6, 3, padding="same", activation="relu")(x)])  # fmt: skip
    x = n.GlobalAveragePooling2D()(n.Conv2D(4, 1)(n.Dropout(0.5)(x)))
    return k.Model(made, n.Softmax()(x))


def mobilenet_v2(k: Any) -> Any:
    """Keras' own MobileNetV2, cut off early."""
    whole = k.applications.MobileNetV2((32, 32, 3), alpha=0.35, include_top=False, weights=None)
    x = whole.get_layer("block_4_add").output
    x = k.layers.Dense(2)(k.layers.GlobalAveragePooling2D()(x))
    return k.Model(whole.input, x)


def mobilenet_v3(k: Any) -> Any:
    """Keras' own MobileNetV3, cut off early."""
    whole = k.applications.MobileNetV3Small((32, 32, 3), alpha=0.5, include_top=False,
                                            minimalistic=False, weights=None)  # fmt: skip
    layers = [layer for layer in whole.layers if type(layer).__name__ == "Add"]
    x = k.layers.GlobalAveragePooling2D()(layers[-6].output)
    return k.Model(whole.input, k.layers.Dense(2)(x))


def efficientnet(k: Any) -> Any:
    """Keras' own EfficientNetB0, cut off early."""
    whole = k.applications.EfficientNetB0(False, None, input_shape=(32, 32, 3))
    x = k.layers.GlobalAveragePooling2D()(whole.get_layer("block2b_add").output)
    return k.Model(whole.input, k.layers.Dense(2)(x))


def convolution_of_patches(k: Any) -> Any:
    """ConvMixer."""
    n = k.layers
    made = k.Input((16, 16, 3))
    x = n.BatchNormalization()(n.Activation("gelu")(n.Conv2D(8, 4, 4)(made)))
    for _ in range(2):
        y = n.BatchNormalization()(n.Activation("gelu")(n.DepthwiseConv2D(3, padding="same")(x)))
        x = n.Add()([x, y])
        x = n.BatchNormalization()(n.Activation("gelu")(n.Conv2D(8, 1)(x)))
    return k.Model(made, n.Dense(3)(n.GlobalAveragePooling2D()(x)))


def convnext(k: Any) -> Any:
    """A ConvNeXt block with layer scale."""
    n = k.layers
    made = k.Input((16, 16, 3))
    x = n.LayerNormalization(epsilon=1e-6)(n.Conv2D(8, 4, 4)(made))
    y = n.LayerNormalization(epsilon=1e-6)(n.DepthwiseConv2D(7, padding="same")(x))
    y = n.Dense(8)(n.Dense(16, activation="gelu")(y))
    x = n.Add()([x, n.Rescaling(0.3)(y)])
    return k.Model(made, n.Dense(3)(n.GlobalAveragePooling2D()(x)))


def mlp_mixer(k: Any) -> Any:
    n = k.layers
    made = k.Input((16, 16, 3))
    x = n.Reshape((16, 8))(n.Conv2D(8, 4, 4)(made))
    y = n.Permute((2, 1))(n.LayerNormalization()(x))
    y = n.Permute((2, 1))(n.Dense(16)(n.Dense(24, activation="gelu")(y)))
    x = n.Add()([x, y])
    y = n.Dense(8)(n.Dense(16, activation="gelu")(n.LayerNormalization()(x)))
    x = n.GlobalAveragePooling1D()(n.Add()([x, y]))
    return k.Model(made, n.Dense(3)(x))


def gan_generator(k: Any) -> Any:
    n = k.layers
    made = k.Input((8,))
    x = n.Dense(96, use_bias=False)(made)
    x = n.Reshape((4, 4, 6))(n.LeakyReLU()(n.BatchNormalization()(x)))
    x = n.Conv2DTranspose(6, 5, 1, padding="same", use_bias=False)(x)
    x = n.LeakyReLU()(n.BatchNormalization()(x))
    x = n.Conv2DTranspose(4, 4, 2, padding="same", use_bias=False)(x)
    x = n.LeakyReLU()(n.BatchNormalization()(x))
    return k.Model(made, n.Conv2DTranspose(1, 5, 2, padding="same", activation="tanh")(x))


def wavenet(k: Any) -> Any:
    """Gated causal convolutions with skips."""
    n = k.layers
    made = k.Input((32, 1))
    x, skips = n.Conv1D(6, 1)(made), []
    for dilation in (1, 2, 4):
        a = n.Conv1D(6, 2, padding="causal", dilation_rate=dilation, activation="tanh")(x)
        b = n.Conv1D(6, 2, padding="causal", dilation_rate=dilation, activation="sigmoid")(x)
        y = n.Conv1D(6, 1)(n.Multiply()([a, b]))
        x = n.Add()([x, y])
        skips.append(y)
    return k.Model(made, n.Conv1D(4, 1)(n.ReLU()(n.Add()(skips))))


def signal_unet(k: Any) -> Any:
    """1-D: upsampled, transposed, padded and cropped."""
    n = k.layers
    made = k.Input((30, 2))
    a = n.Conv1D(6, 5, padding="same", activation="relu")(n.ZeroPadding1D(1)(made))
    b = n.Conv1D(8, 5, 2, padding="same", activation="relu")(a)
    y = n.Conv1DTranspose(6, 4, 2, padding="same", activation="relu")(b)
    y = n.Concatenate()([y, a, n.UpSampling1D(2)(b)])
    return k.Model(made, n.Cropping1D(1)(n.Conv1D(3, 1, activation="softmax")(y)))


def attention_gates(k: Any) -> Any:
    """CBAM: gates of channels and of places."""
    n = k.layers
    made = k.Input((10, 10, 3))
    x = n.Conv2D(8, 3, padding="same", activation="relu")(made)
    one, two = n.Dense(4, activation="relu"), n.Dense(8)
    gate = n.Add()([two(one(n.GlobalAveragePooling2D()(x))), two(one(n.GlobalMaxPooling2D()(x)))])
    x = n.Multiply()([x, n.Reshape((1, 1, 8))(n.Activation("sigmoid")(gate))])
    place = n.Conv2D(1, 7, padding="same", activation="sigmoid")(x)
    return k.Model(made, n.Dense(3)(n.GlobalAveragePooling2D()(n.Multiply()([x, place]))))


def highway(k: Any) -> Any:
    n = k.layers
    x = made = k.Input((8,))
    for _ in range(2):
        gate = n.Dense(8, activation="sigmoid")(x)
        y = n.Dense(8, activation="relu")(x)
        rest = n.Rescaling(-1.0, offset=1.0)(gate)
        x = n.Add()([n.Multiply()([gate, y]), n.Multiply()([rest, x])])
    return k.Model(made, n.Dense(2, activation="softmax")(x))


def triplets(k: Any) -> Any:
    """One embedding of three images; distances between them."""
    n = k.layers
    inputs = [k.Input((8, 8, 1)) for _ in range(3)]
    body = k.Sequential([k.Input((8, 8, 1)), n.Conv2D(4, 3, activation="relu"), n.Flatten(),
                         n.Dense(6)])  # fmt: skip
    a, b, c = (body(x) for x in inputs)
    near, far = n.Subtract()([a, b]), n.Subtract()([a, c])
    return k.Model(inputs, [n.Dot(1)([near, near]), n.Dot(1)([far, far])])


def tasks(k: Any) -> Any:
    """One body and three heads."""
    n = k.layers
    made = k.Input((12, 12, 1))
    x = n.Conv2D(6, 3, 2, padding="same", activation="relu")(made)
    y = n.GlobalAveragePooling2D()(x)
    return k.Model(made, [n.Dense(4, activation="softmax")(y), n.Dense(1, activation="sigmoid")(y),
                          n.Conv2D(2, 1)(n.UpSampling2D()(x))])  # fmt: skip


def deep_sets(k: Any) -> Any:
    """PointNet: a function of each point, then the maximum."""
    n = k.layers
    made = k.Input((16, 3))
    x = n.ReLU()(n.BatchNormalization()(n.Conv1D(8, 1)(made)))
    x = n.GlobalMaxPooling1D()(n.Conv1D(12, 1, activation="relu")(x))
    return k.Model(made, n.Dense(4, activation="softmax")(n.Dense(8, activation="relu")(x)))


def autoencoder_of_signals(k: Any) -> Any:
    n = k.layers
    made = k.Input((32, 2))
    x = n.Conv1D(6, 5, 2, padding="same", activation="relu")(made)
    x = n.Conv1D(4, 5, 2, padding="same", activation="relu")(x)
    x = n.Conv1DTranspose(6, 5, 2, padding="same", activation="relu")(x)
    return k.Model(made, n.Conv1DTranspose(2, 5, 2, padding="same")(x))


def gru_seq(k: Any) -> Any:
    """A GRU of the original form (`reset_after=False`) whose sequence is classified."""
    n = k.layers
    return k.Sequential([k.Input((8, 4)), n.GRU(5, return_sequences=True, reset_after=False),
                         n.Dense(3, activation="softmax")])  # fmt: skip


def lstm_states(k: Any) -> Any:
    """States go in and come out, for streams."""
    n = k.layers
    made, h, c = k.Input((4, 3)), k.Input((5,)), k.Input((5,))
    y, h_new, c_new = n.LSTM(5, return_state=True)(made, initial_state=[h, c])
    return k.Model([made, h, c], [n.Dense(2)(y), h_new, c_new])


def masked_lstm(k: Any) -> Any:
    """Padded steps are skipped."""
    n = k.layers
    return k.Sequential([k.Input((8, 3)), n.Masking(0.0), n.LSTM(5), n.Dense(2)])


def conv_lstm_2d(k: Any) -> Any:
    """A convolutional LSTM."""
    n = k.layers
    return k.Sequential([k.Input((4, 6, 6, 1)), n.ConvLSTM2D(3, 3, padding="same"), n.Flatten(),
                         n.Dense(2)])  # fmt: skip


def unrolled_bidirectional(k: Any) -> Any:
    n = k.layers
    return k.Sequential([k.Input((6, 3)), n.Bidirectional(n.LSTM(4, unroll=True)), n.Dense(2)])


def unrolled_rnn(k: Any) -> Any:
    n = k.layers
    return k.Sequential([k.Input((6, 3)), n.SimpleRNN(4, unroll=True, return_sequences=True),
                         n.GlobalMaxPooling1D(), n.Dense(2)])  # fmt: skip


def noise(k: Any) -> Any:
    """Layers that do nothing after training, and constraints of shapes."""
    n = k.layers
    made = k.Input((12,))
    x = n.GaussianNoise(0.1)(made)
    x = n.ActivityRegularization(0.1)(n.AlphaDropout(0.1)(n.Dense(12, activation="relu6")(x)))
    x = n.Reshape((3, 4))(n.GaussianDropout(0.2)(x))
    x = n.Minimum()([x, n.Permute((1, 2))(x)])
    return k.Model(made, n.Dense(2, activation="hard_sigmoid")(n.Flatten()(x)))


def depthwise_signals(k: Any) -> Any:
    n = k.layers
    made = k.Input((32, 3))
    x = n.DepthwiseConv1D(5, 2, depth_multiplier=2, padding="same", activation="relu")(made)
    x = n.SeparableConv1D(8, 3, activation="relu")(x)
    return k.Model(made, n.Dense(2)(n.GlobalAveragePooling1D()(x)))


def volumes(k: Any) -> Any:
    """3-D convolutions, also transposed."""
    n = k.layers
    made = k.Input((4, 8, 8, 1))
    x = n.Conv3D(4, 3, 2, padding="same", activation="relu")(made)
    return k.Model(made, n.Conv3DTranspose(2, 3, 2, padding="same", activation="relu")(x))


def seq2seq(k: Any) -> Any:
    """Words of a sentence attend to those of another."""
    n = k.layers
    one, other = k.Input((6,), dtype="int32"), k.Input((5,), dtype="int32")
    a = n.Embedding(20, 8)(one)
    b = n.Embedding(20, 8)(other)
    x = n.LayerNormalization()(n.Add()([a, n.MultiHeadAttention(2, 4)(a, b)]))
    return k.Model([one, other], n.Dense(20)(x))


def rms_attention(k: Any) -> Any:
    """Grouped queries, RMS normalisation, SwiGLU."""
    n = k.layers
    made = k.Input((6, 8))
    y = n.RMSNormalization()(made)
    x = made + n.GroupQueryAttention(4, 4, 2)(y, y, use_causal_mask=True)
    y = n.RMSNormalization()(x)
    x = x + n.Dense(8)(n.Dense(12, activation="silu")(y) * n.Dense(12)(y))
    return k.Model(made, n.Dense(3)(x))


def rotary(k: Any) -> Any:
    """Rotary positions by sines."""
    n, o = k.layers, k.ops
    made = k.Input((6, 8))
    q, v = n.Dense(8)(made), n.Dense(8)(made)
    rates = np.array([1.0, 0.1, 0.01, 0.001], np.float32)
    angles = o.cast(o.expand_dims(o.arange(6), -1), "float32") * rates
    left, right = o.split(q, 2, axis=-1)
    q = o.concatenate([left * o.cos(angles) - right * o.sin(angles),
                       left * o.sin(angles) + right * o.cos(angles)], axis=-1)  # fmt: skip
    scores = o.softmax(o.matmul(q, o.transpose(q, (0, 2, 1))) / 3.0)
    return k.Model(made, n.Dense(2)(o.matmul(scores, v)))


def einsum(k: Any) -> Any:
    n, o = k.layers, k.ops
    made = k.Input((6, 8))
    x = n.EinsumDense("abc,cde->abde", output_shape=(None, 2, 4), bias_axes="de")(made)
    scores = o.einsum("bihd,bjhd->bhij", x, x)
    return k.Model(made, n.Dense(2)(o.einsum("bhij,bjhd->bihd", o.softmax(scores), x)))


def mathematics(k: Any) -> Any:
    n, o = k.layers, k.ops
    made = k.Input((5,))
    x = n.Dense(6)(made)
    a = o.floor(x) + o.round(x) + o.sign(x) + o.ceil(x)
    b = o.sin(x) * o.cos(x) + o.log1p(o.abs(x)) + o.rsqrt(o.square(x) + 1.0)
    c = o.clip(x, -1.0, 1.0) + o.minimum(x, x * x) + o.power(o.abs(x) + 0.1, 1.5)
    d = o.logsumexp(x, axis=-1, keepdims=True) + o.norm(x, axis=-1, keepdims=True)
    return k.Model(made, n.Dense(2)(o.concatenate([a, b, c, d, o.prod(x, -1, True)], -1)))


def picked(k: Any) -> Any:
    """Gathers, rolls, flips, tiles, one-hot, cumulative sums."""
    n, o = k.layers, k.ops
    made, index = k.Input((6, 4)), k.Input((3,), dtype="int32")
    x = o.roll(o.flip(made, axis=1), 2, axis=1)
    hot = o.one_hot(index, 6)
    rows = o.matmul(hot, x)
    y = o.concatenate([o.take(x, [0, 2, 5], axis=1), o.tile(rows[:, :1], (1, 2, 1))], axis=1)
    return k.Model([made, index], n.Dense(2)(o.cumsum(y, axis=1)))


def padded(k: Any) -> Any:
    n, o = k.layers, k.ops
    made = k.Input((8, 8, 2))
    x = n.Conv2D(4, 3)(o.pad(made, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="reflect"))
    x = n.Conv2D(4, 3)(o.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="symmetric"))
    return k.Model(made, x[:, ::2, 1:-1, :3])


def logic(k: Any) -> Any:
    n, o = k.layers, k.ops
    made = k.Input((8, 8, 1))
    y = n.Conv2D(2, 3, padding="same", activation="sigmoid")(made)
    peaks = o.equal(n.MaxPooling2D(3, 1, padding="same")(y), y)
    kept = o.where(o.logical_and(peaks, y > 0.4), y, -y)
    return k.Model(made, [o.sum(kept, (1, 2)), o.cast(o.any(y > 0.5, axis=2), "float32")])


def moments(k: Any) -> Any:
    """Instance normalisation by `moments`, global response normalisation."""
    n, o = k.layers, k.ops
    made = k.Input((8, 8, 2))
    x = n.Conv2D(4, 3, padding="same")(made)
    mean, variance = o.moments(x, axes=(1, 2), keepdims=True)
    x = (x - mean) * o.rsqrt(variance + 1e-3)
    size = o.sqrt(o.sum(o.square(x), axis=(1, 2), keepdims=True))
    x = x * (size / (o.mean(size, axis=-1, keepdims=True) + 1e-3)) + x
    return k.Model(made, n.Dense(2)(o.mean(x, axis=(1, 2))))


def resampled(k: Any) -> Any:
    n, o = k.layers, k.ops
    made = k.Input((8, 8, 2))
    x = n.Conv2D(3, 3, padding="same")(made)
    a = o.image.resize(x, (16, 16), interpolation="bilinear")
    b = n.UpSampling2D(2, interpolation="nearest")(x)
    return k.Model(made, [n.Conv2D(1, 1)(a + b), n.CenterCrop(6, 6)(x)])


def graph_network(k: Any) -> Any:
    n, o = k.layers, k.ops
    made, links = k.Input((5, 6)), k.Input((5, 5))
    degrees = o.maximum(o.sum(links, axis=-1, keepdims=True), 1.0)
    x = made
    for _ in range(2):
        x = o.relu(n.Dense(6)(o.matmul(links, x) / degrees)) + x
    return k.Model([made, links], n.Dense(2)(o.max(x, axis=1)))


def radial_basis(k: Any) -> Any:
    n, o = k.layers, k.ops
    made = k.Input((4,))
    centres = np.random.default_rng(5).normal(0, 1, (1, 6, 4)).astype(np.float32)
    squares = o.sum(o.square(o.expand_dims(made, 1) - centres), axis=-1)
    return k.Model(made, n.Dense(2)(o.exp(-0.5 * squares)))


def sequence_steps(k: Any) -> Any:
    """A recurrence written in Python: an exponential moving mean of features."""
    n, o = k.layers, k.ops
    made = k.Input((5, 4))
    x = n.Dense(4, activation="tanh")(made)
    state, rows = x[:, 0], []
    for row in o.unstack(x, axis=1)[1:]:
        state = 0.7 * state + 0.3 * row
        rows.append(state)
    return k.Model(made, n.Dense(2)(o.stack(rows, axis=1)))


def windows(k: Any) -> Any:
    """Windows of images, of rank 6, as in Swin."""
    n, o = k.layers, k.ops
    made = k.Input((8, 8, 4))
    x = o.reshape(made, (-1, 2, 4, 2, 4, 4))
    x = o.reshape(o.transpose(x, (0, 1, 3, 2, 4, 5)), (-1, 4, 16, 4))
    x = n.Dense(4)(n.LayerNormalization()(x))
    x = o.reshape(x, (-1, 2, 2, 4, 4, 4))
    x = o.reshape(o.transpose(x, (0, 1, 3, 2, 4, 5)), (-1, 8, 8, 4))
    return k.Model(made, x + made)


def activations_of_keras_3(k: Any) -> Any:
    n = k.layers
    x = made = k.Input((12,))
    for name in ("celu", "glu", "hard_shrink", "hard_tanh", "log_sigmoid", "mish", "silu",
                 "soft_shrink", "sparse_plus", "squareplus", "tanh_shrink", "threshold",
                 "hard_silu", "relu6", "leaky_relu", "log_softmax"):  # fmt: skip
        if hasattr(k.activations, name) and name != "threshold":
            x = n.Activation(name)(n.Dense(12)(x))
    return k.Model(made, x)


COMMON: Mapping[str, Maker] = {
    maker.__name__: maker
    for maker in (
        densenet, squeezenet, mobilenet_v2, mobilenet_v3, efficientnet, convolution_of_patches,
        convnext, mlp_mixer, gan_generator, wavenet, signal_unet, attention_gates, highway,
        triplets, tasks, deep_sets, autoencoder_of_signals, gru_seq, lstm_states, masked_lstm,
        conv_lstm_2d, unrolled_bidirectional, unrolled_rnn, noise, depthwise_signals, volumes,
        seq2seq,
    )
}  # fmt: skip
KERAS_3: Mapping[str, Maker] = {
    maker.__name__: maker
    for maker in (
        rms_attention, rotary, einsum, mathematics, picked, padded, logic, moments, resampled,
        graph_network, radial_basis, sequence_steps, windows, activations_of_keras_3,
    )
}  # fmt: skip
