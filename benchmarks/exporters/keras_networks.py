"""Architectures that people train for microcontrollers, as models of Keras 3 or tf_keras.

Each maker takes the module of the framework, `keras` or `tf_keras`, and returns a model.  Those in
`KERAS_3` use `keras.ops`, which tf_keras lacks.
"""

# pyright: reportMissingImports=false, reportMissingModuleSource=false
# pyright: reportUnknownLambdaType=false
# The packages are in the extra `exporters`.

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Maker = Callable[[Any], Any]


def lenet(k: Any) -> Any:
    """Digits: convolutions, average pools, dense layers."""
    n = k.layers
    return k.Sequential(
        [
            k.Input((20, 20, 1)),
            n.Conv2D(6, 5, padding="same", activation="tanh"),
            n.AveragePooling2D(2),
            n.Conv2D(12, 5, activation="relu"),
            n.MaxPooling2D(2),
            n.Flatten(),
            n.Dropout(0.3),
            n.Dense(24, activation="relu"),
            n.Dense(10, activation="softmax"),
        ]
    )


def _separable(k: Any, x: Any, channels: int, stride: int, activation: str) -> Any:
    n = k.layers
    x = n.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(x)
    x = n.Activation(activation)(n.BatchNormalization()(x))
    x = n.Conv2D(channels, 1, use_bias=False)(x)
    return n.Activation(activation)(n.BatchNormalization()(x))


def ds_cnn(k: Any) -> Any:
    """Keyword spotting on MFCCs."""
    n = k.layers
    x = made = k.Input((25, 10, 1))
    x = n.Conv2D(16, (10, 4), (2, 2), padding="same", use_bias=False)(x)
    x = n.ReLU()(n.BatchNormalization()(x))
    for _ in range(2):
        x = _separable(k, x, 16, 1, "relu")
    x = n.GlobalAveragePooling2D()(x)
    return k.Model(made, n.Dense(12, activation="softmax")(x))


def residual(k: Any) -> Any:
    """CIFAR images: residual blocks, one with a projection."""
    n = k.layers
    made = k.Input((16, 16, 3))
    x = n.Conv2D(8, 3, padding="same", activation="relu")(made)
    for channels, stride in ((8, 1), (16, 2)):
        y = n.Conv2D(channels, 3, stride, padding="same")(x)
        y = n.ReLU()(n.BatchNormalization()(y))
        y = n.BatchNormalization()(n.Conv2D(channels, 3, padding="same")(y))
        if stride > 1:
            x = n.Conv2D(channels, 1, stride, padding="same")(x)
        x = n.ReLU()(n.Add()([x, y]))
    x = n.Flatten()(n.AveragePooling2D(4)(x))
    return k.Model(made, n.Dense(10, activation="softmax")(x))


def mobilenet(k: Any) -> Any:
    """Person detection: depthwise-separable convolutions with ReLU6."""
    n = k.layers
    made = k.Input((24, 24, 3))
    x = n.Rescaling(1 / 127.5, offset=-1)(made)
    x = n.ZeroPadding2D(((0, 1), (0, 1)))(x)
    x = n.ReLU(6.0)(n.BatchNormalization()(n.Conv2D(8, 3, 2, use_bias=False)(x)))
    for channels, stride in ((16, 1), (16, 2), (24, 1)):
        x = _separable(k, x, channels, stride, "relu6")
    x = n.GlobalAveragePooling2D(keepdims=True)(x)
    x = n.Reshape((2,))(n.Conv2D(2, 1)(x))
    return k.Model(made, n.Softmax()(x))


def squeeze_excite(k: Any) -> Any:
    """Inverted residuals with squeeze-and-excite and hard swish."""
    n = k.layers

    def hard_sigmoid(v: Any) -> Any:
        return n.ReLU(6.0)(n.Rescaling(1.0, offset=3.0)(v))

    made = k.Input((16, 16, 3))
    x = n.Conv2D(8, 3, 2, padding="same", use_bias=False)(made)
    x = n.BatchNormalization()(x)
    x = n.Multiply()([x, n.Rescaling(1 / 6)(hard_sigmoid(x))])
    for _ in range(2):
        y = n.Conv2D(24, 1, activation="relu")(x)
        y = n.DepthwiseConv2D(5, padding="same")(y)
        s = n.GlobalAveragePooling2D(keepdims=True)(y)
        s = n.Conv2D(24, 1)(n.Conv2D(8, 1, activation="relu")(s))
        y = n.Multiply()([y, n.Rescaling(1 / 6)(hard_sigmoid(s))])
        x = n.Add()([x, n.Conv2D(8, 1)(y)])
    x = n.GlobalAveragePooling2D()(x)
    return k.Model(made, n.Dense(5)(x))


def efficient(k: Any) -> Any:
    """Swish activations and sigmoid gates, as in EfficientNet."""
    n = k.layers
    made = k.Input((16, 16, 3))
    x = n.Normalization(mean=[0.4, 0.5, 0.6], variance=[0.05, 0.06, 0.07])(made)
    x = n.Activation("swish")(n.BatchNormalization()(n.Conv2D(8, 3, 2, padding="same")(x)))
    s = n.Reshape((1, 1, 8))(n.GlobalAveragePooling2D()(x))
    s = n.Conv2D(8, 1, activation="sigmoid")(n.Conv2D(2, 1, activation="swish")(s))
    x = n.Conv2D(12, 1)(n.Multiply()([x, s]))
    return k.Model(made, n.Dense(4, activation="softmax")(n.GlobalMaxPooling2D()(x)))


def unet(k: Any) -> Any:
    """Segmentation with transposed convolutions and shortcuts."""
    n = k.layers
    made = k.Input((16, 16, 2))
    a = n.Conv2D(6, 3, padding="same", activation="relu")(made)
    b = n.Conv2D(8, 3, padding="same", activation="relu")(n.MaxPooling2D(2)(a))
    c = n.Conv2D(12, 3, padding="same", activation="relu")(n.MaxPooling2D(2)(b))
    y = n.Concatenate()([n.Conv2DTranspose(8, 2, 2, padding="same")(c), b])
    y = n.Conv2D(8, 3, padding="same", activation="relu")(y)
    y = n.Concatenate()([n.Conv2DTranspose(6, 3, 2, padding="same", activation="relu")(y), a])
    return k.Model(made, n.Conv2D(2, 1, activation="softmax")(y))


def resized(k: Any) -> Any:
    """Segmentation with dilated convolutions and interpolation."""
    n = k.layers
    made = k.Input((16, 16, 3))
    x = n.Conv2D(8, 3, 2, padding="same", activation="relu")(made)
    branches = [n.Conv2D(4, 3, padding="same", dilation_rate=d, activation="relu")(x)
                for d in (1, 2, 3)]  # fmt: skip
    pooled = n.Conv2D(4, 1, activation="relu")(n.GlobalAveragePooling2D(keepdims=True)(x))
    branches.append(n.UpSampling2D((8, 8), interpolation="bilinear")(pooled))
    y = n.Conv2D(6, 1)(n.Concatenate()(branches))
    y = n.UpSampling2D(2, interpolation="nearest")(y)
    y = n.Conv2D(3, 3, padding="same")(y)
    return k.Model(made, n.Resizing(20, 20)(y))


def dense_autoencoder(k: Any) -> Any:
    """Anomaly detection, as in MLPerf Tiny."""
    n = k.layers
    x = made = k.Input((64,))
    for units in (24, 24, 4, 24):
        x = n.ReLU()(n.BatchNormalization()(n.Dense(units)(x)))
    return k.Model(made, n.Dense(64)(x))


def conv_autoencoder(k: Any) -> Any:
    """Images through a dense bottleneck, upsampled again."""
    n = k.layers
    made = k.Input((12, 12, 1))
    x = n.Conv2D(8, 3, 2, padding="same", activation="elu")(made)
    x = n.Conv2D(8, 3, 2, padding="same", activation="elu")(x)
    x = n.Dense(6, activation="tanh")(n.Flatten()(x))
    x = n.Reshape((3, 3, 8))(n.Dense(72, activation="elu")(x))
    x = n.Conv2D(8, 3, padding="same", activation="elu")(n.UpSampling2D()(x))
    x = n.Conv2DTranspose(1, 3, 2, padding="same", activation="sigmoid")(x)
    return k.Model(made, n.Cropping2D(((0, 0), (0, 0)))(x))


def variational(k: Any) -> Any:
    """The encoder of a variational autoencoder; its noise is an input."""
    n = k.layers
    made, noise = k.Input((20,)), k.Input((4,))
    x = n.Dense(16, activation="softplus")(made)
    mean, spread = n.Dense(4)(x), n.Dense(4)(x)
    spread = n.Activation("exponential")(n.Rescaling(0.5)(spread))
    return k.Model([made, noise], n.Add()([mean, n.Multiply()([spread, noise])]))


def audio(k: Any) -> Any:
    """Raw audio: 1-D convolutions with large strides."""
    n = k.layers
    made = k.Input((256, 1))
    x = n.Conv1D(8, 16, 4, activation="relu")(made)
    x = n.MaxPooling1D(2)(n.BatchNormalization()(x))
    x = n.SeparableConv1D(12, 3, padding="same", activation="relu")(x)
    x = n.AveragePooling1D(2, padding="same")(x)
    x = n.Conv1D(16, 3, activation="relu")(x)
    return k.Model(made, n.Dense(4, activation="softmax")(n.GlobalMaxPooling1D()(x)))


def temporal(k: Any) -> Any:
    """A temporal convolutional network: causal dilated convolutions, residual."""
    n = k.layers
    made = k.Input((32, 4))
    x = n.Conv1D(8, 1)(made)
    for dilation in (1, 2, 4):
        y = n.Conv1D(8, 3, padding="causal", dilation_rate=dilation, activation="relu")(x)
        y = n.SpatialDropout1D(0.1)(y)
        y = n.Conv1D(8, 3, padding="causal", dilation_rate=dilation)(y)
        x = n.ReLU()(n.Add()([x, y]))
    return k.Model(made, n.Dense(3)(x[:, -1, :]))


def lstm(k: Any) -> Any:
    """Activity recognition: an LSTM on sensor data."""
    n = k.layers
    return k.Sequential([k.Input((16, 6)), n.LSTM(8), n.Dense(4, activation="softmax")])


def stacked_lstm(k: Any) -> Any:
    """Two LSTM layers; the first returns sequences."""
    n = k.layers
    return k.Sequential([k.Input((12, 4)), n.LSTM(6, return_sequences=True), n.LSTM(6), n.Dense(1)])


def unrolled_lstm(k: Any) -> Any:
    """An LSTM, unrolled."""
    n = k.layers
    return k.Sequential([k.Input((6, 4)), n.LSTM(6, unroll=True), n.Dense(2)])


def gru(k: Any) -> Any:
    """A GRU on sensor data."""
    n = k.layers
    return k.Sequential([k.Input((12, 5)), n.GRU(8), n.Dense(3, activation="softmax")])


def unrolled_gru(k: Any) -> Any:
    """A GRU, unrolled, that returns its sequence."""
    n = k.layers
    return k.Sequential(
        [k.Input((5, 4)), n.GRU(6, unroll=True, return_sequences=True), n.Flatten(), n.Dense(2)]
    )


def simple_rnn(k: Any) -> Any:
    """Elman's network."""
    n = k.layers
    return k.Sequential([k.Input((10, 4)), n.SimpleRNN(8), n.Dense(2, activation="sigmoid")])


def bidirectional(k: Any) -> Any:
    """LSTMs in both directions after a convolution."""
    n = k.layers
    made = k.Input((16, 4))
    x = n.Conv1D(8, 3, padding="same", activation="relu")(made)
    x = n.Bidirectional(n.LSTM(5, return_sequences=True))(x)
    return k.Model(made, n.TimeDistributed(n.Dense(3, activation="softmax"))(x))


def bidirectional_gru(k: Any) -> Any:
    """GRUs in both directions, their last states joined."""
    n = k.layers
    return k.Sequential([k.Input((10, 4)), n.Bidirectional(n.GRU(5)), n.Dense(2)])


def lstm_autoencoder(k: Any) -> Any:
    """Anomalies in time series: the code is repeated and decoded."""
    n = k.layers
    return k.Sequential(
        [
            k.Input((10, 3)),
            n.LSTM(6),
            n.RepeatVector(10),
            n.LSTM(6, return_sequences=True),
            n.TimeDistributed(n.Dense(3)),
        ]
    )


def conv_lstm(k: Any) -> Any:
    """Image features per step, then an LSTM."""
    n = k.layers
    made = k.Input((4, 8, 8, 1))
    x = n.TimeDistributed(n.Conv2D(4, 3, activation="relu"))(made)
    x = n.TimeDistributed(n.MaxPooling2D(2))(x)
    x = n.LSTM(6)(n.TimeDistributed(n.Flatten())(x))
    return k.Model(made, n.Dense(3, activation="softmax")(x))


def text(k: Any) -> Any:
    """Sentiment: embedding and a mean over the words that are there."""
    n = k.layers
    made = k.Input((12,), dtype="int32")
    x = n.Embedding(50, 8, mask_zero=True)(made)
    x = n.Dense(8, activation="relu")(n.GlobalAveragePooling1D()(x))
    return k.Model(made, n.Dense(1, activation="sigmoid")(x))


def text_lstm(k: Any) -> Any:
    """An LSTM on embedded words, with a mask."""
    n = k.layers
    made = k.Input((10,), dtype="int32")
    x = n.LSTM(6)(n.Embedding(40, 6, mask_zero=True)(made))
    return k.Model(made, n.Dense(2, activation="softmax")(x))


def text_cnn(k: Any) -> Any:
    """Kim's convolutions over embedded words."""
    n = k.layers
    made = k.Input((16,), dtype="int32")
    x = n.Embedding(60, 8)(made)
    pooled = [n.GlobalMaxPooling1D()(n.Conv1D(6, size, activation="relu")(x)) for size in (2, 3, 4)]
    return k.Model(made, n.Dense(4, activation="softmax")(n.Concatenate()(pooled)))


def transformer(k: Any) -> Any:
    """An encoder layer: attention, normalisations, GELU."""
    n = k.layers
    made = k.Input((8, 12))
    x = n.Dense(16)(made)
    x = n.LayerNormalization(epsilon=1e-6)(n.Add()([x, n.MultiHeadAttention(2, 8)(x, x)]))
    y = n.Dense(16)(n.Dense(32, activation="gelu")(x))
    x = n.LayerNormalization(epsilon=1e-6)(n.Add()([x, y]))
    return k.Model(made, n.Dense(3, activation="softmax")(n.GlobalAveragePooling1D()(x)))


def token_transformer(k: Any) -> Any:
    """Tokens with positions, pre-normalised."""
    n = k.layers
    made = k.Input((8,), dtype="int32")
    x = n.Embedding(32, 16)(made)
    positions = n.Embedding(8, 16)(np.arange(8, dtype=np.int32)[None])
    x = x + positions
    y = n.LayerNormalization()(x)
    x = x + n.MultiHeadAttention(4, 4)(y, y)
    y = n.LayerNormalization()(x)
    x = x + n.Dense(16)(n.Dense(24, activation="relu")(y))
    return k.Model(made, n.Dense(5)(n.Flatten()(x)))


def attention_pooling(k: Any) -> Any:
    """A learned weighted mean over time."""
    n = k.layers
    made = k.Input((12, 6))
    x = n.Conv1D(8, 3, padding="same", activation="tanh")(made)
    weights = n.Softmax(axis=1)(n.Dense(1)(x))
    x = n.Dot(axes=1)([weights, x])
    return k.Model(made, n.Dense(3, activation="softmax")(n.Flatten()(x)))


def dot_attention(k: Any) -> Any:
    """Keras' own attention layers."""
    n = k.layers
    made = k.Input((10, 6))
    x = n.Conv1D(8, 3, padding="same")(made)
    x = n.Concatenate()([n.Attention()([x, x]), n.AdditiveAttention()([x, x])])
    return k.Model(made, n.Dense(2)(n.GlobalMaxPooling1D()(x)))


def ssd(k: Any) -> Any:
    """Boxes and classes from two feature maps."""
    n = k.layers
    made = k.Input((24, 24, 3))
    x = n.Conv2D(8, 3, 2, padding="same", activation="relu6")(made)
    a = n.Conv2D(12, 3, 2, padding="same", activation="relu6")(x)
    b = n.Conv2D(16, 3, 2, padding="same", activation="relu6")(a)
    boxes = [n.Reshape((-1, 4))(n.Conv2D(8, 3, padding="same")(v)) for v in (a, b)]
    scores = [n.Reshape((-1, 3))(n.Conv2D(6, 3, padding="same")(v)) for v in (a, b)]
    joined = n.Activation("sigmoid")(n.Concatenate(axis=1)(scores))
    return k.Model(made, [n.Concatenate(axis=1)(boxes), joined])


def fusion(k: Any) -> Any:
    """An image, a signal and numbers, joined."""
    n = k.layers
    image, signal, numbers = k.Input((8, 8, 1)), k.Input((16, 3)), k.Input((5,))
    a = n.GlobalAveragePooling2D()(n.Conv2D(6, 3, activation="relu")(image))
    b = n.GlobalAveragePooling1D()(n.Conv1D(6, 3, activation="relu")(signal))
    c = n.Dense(6, activation="relu")(numbers)
    x = n.Concatenate()([n.Maximum()([a, b]), n.Average()([b, c]), n.Subtract()([a, c])])
    return k.Model([image, signal, numbers], n.Dense(2, activation="softmax")(x))


def siamese(k: Any) -> Any:
    """Cosine similarity of two embeddings by one network."""
    n = k.layers
    one, other = k.Input((8, 8, 1)), k.Input((8, 8, 1))
    branch = k.Sequential(
        [k.Input((8, 8, 1)), n.Conv2D(6, 3, activation="relu"), n.Flatten(), n.Dense(8)]
    )
    return k.Model([one, other], n.Dot(axes=1, normalize=True)([branch(one), branch(other)]))


def group_norm(k: Any) -> Any:
    """Group, layer and unit normalisation on images."""
    n = k.layers
    made = k.Input((8, 8, 3))
    x = n.Conv2D(8, 3, padding="same")(made)
    x = n.ReLU()(n.GroupNormalization(4)(x))
    x = n.LayerNormalization()(n.Conv2D(8, 3, 2, padding="same")(x))
    return k.Model(made, n.UnitNormalization()(n.Dense(4)(n.Flatten()(x))))


def video(k: Any) -> Any:
    """Gestures: 3-D convolutions."""
    n = k.layers
    made = k.Input((6, 8, 8, 1))
    x = n.Conv3D(4, 3, 2, padding="same", activation="relu")(made)
    x = n.Conv3D(6, 2, activation="relu")(x)
    return k.Model(made, n.Dense(3, activation="softmax")(n.GlobalAveragePooling3D()(x)))


def tabular(k: Any) -> Any:
    """Numbers and categories: normalised, put into bins, one-hot."""
    n = k.layers
    numbers, age, kind = k.Input((5,)), k.Input((1,)), k.Input((1,), dtype="int32")
    a = n.Normalization(mean=[1.0, 0.5, 0, -1, 2], variance=[1.0, 2, 3, 1, 0.5])(numbers)
    b = n.Discretization(bin_boundaries=[-0.5, 0.0, 0.7])(age)
    b = n.CategoryEncoding(4, output_mode="one_hot")(b)
    c = n.Flatten()(n.Embedding(6, 3)(kind))
    x = n.Concatenate()([a, b, c])
    x = n.Dense(8, activation="selu", kernel_initializer="lecun_normal")(x)
    return k.Model([numbers, age, kind], n.Dense(1)(x))


def activations(k: Any) -> Any:
    """Every activation layer in a row of convolutions."""
    n = k.layers
    x = made = k.Input((8, 8, 2))
    for made_layer in (
        n.PReLU(shared_axes=[1, 2]), n.ELU(), n.LeakyReLU(0.2), n.Activation("selu"),
        n.Activation("swish"), n.Activation("softplus"), n.Activation("gelu"),
        n.Activation("hard_sigmoid"), n.Activation("softsign"), n.Activation("tanh"),
        n.ReLU(max_value=1.5, negative_slope=0.1, threshold=0.2),
    ):  # fmt: skip
        x = made_layer(n.Conv2D(3, 1)(x))
    return k.Model(made, n.Dense(2)(n.Flatten()(x)))


def grouped(k: Any) -> Any:
    """Grouped, separable and depth-multiplied convolutions."""
    n = k.layers
    made = k.Input((12, 12, 4))
    x = n.Conv2D(8, 3, groups=2, padding="same", activation="relu")(made)
    x = n.SeparableConv2D(8, 3, depth_multiplier=2, activation="relu")(x)
    x = n.DepthwiseConv2D((3, 1), depth_multiplier=2, dilation_rate=2, padding="same")(x)
    x = n.Permute((3, 1, 2))(x)
    return k.Model(made, n.Dense(3)(n.Flatten()(n.GlobalAveragePooling2D()(x))))


def inception(k: Any) -> Any:
    """Parallel branches that are joined."""
    n = k.layers
    made = k.Input((12, 12, 3))
    a = n.Conv2D(4, 1, activation="relu")(made)
    b = n.Conv2D(6, (1, 5), padding="same")(n.Conv2D(4, (5, 1), padding="same")(made))
    c = n.Conv2D(4, 1)(n.MaxPooling2D(3, 1, padding="same")(made))
    d = n.AveragePooling2D(3, 1, padding="same")(made)
    x = n.ReLU()(n.Concatenate()([a, b, c, d]))
    return k.Model(made, n.Dense(5, activation="softmax")(n.GlobalAveragePooling2D()(x)))


def mask_where(k: Any) -> Any:
    """Values below a threshold are replaced; sums over what remains."""
    o, n = k.ops, k.layers
    made = k.Input((12, 4))
    x = n.Dense(6)(made)
    mask = o.greater(x, 0.1)
    x = o.where(mask, x, o.full_like(x, -1.0))
    count = o.maximum(o.sum(o.cast(mask, "float32"), axis=1), 1.0)
    return k.Model(made, o.sum(x, axis=1) / count)


def causal_attention(k: Any) -> Any:
    """Attention with a causal mask."""
    n = k.layers
    made = k.Input((6, 8))
    x = n.MultiHeadAttention(2, 4)(made, made, use_causal_mask=True)
    return k.Model(made, n.Dense(2)(n.LayerNormalization(rms_scaling=True)(x + made)))


def super_resolution(k: Any) -> Any:
    """Sub-pixel convolution: channels become pixels."""
    import tensorflow as tf

    n = k.layers
    made = k.Input((12, 12, 1))
    x = n.Conv2D(8, 5, padding="same", activation="relu")(made)
    x = n.Conv2D(4, 3, padding="same")(x)
    return k.Model(
        made, n.Lambda(lambda v: tf.nn.depth_to_space(v, 2), output_shape=(24, 24, 1))(x)
    )


def argmax_head(k: Any) -> Any:
    """A segmentation whose output are class numbers."""
    n, o = k.layers, k.ops
    made = k.Input((10, 10, 2))
    x = n.Conv2D(4, 3, padding="same")(n.Conv2D(6, 3, padding="same", activation="relu")(made))
    return k.Model(made, o.argmax(x, axis=-1))


def top_classes(k: Any) -> Any:
    """The two best classes and their scores."""
    n, o = k.layers, k.ops
    made = k.Input((16,))
    x = n.Dense(10, activation="softmax")(n.Dense(12, activation="relu")(made))
    values, indices = o.top_k(x, 2)
    return k.Model(made, [values, indices])


def yolo(k: Any) -> Any:
    """A head that decodes boxes of a grid, rank 5."""
    n, o = k.layers, k.ops
    made = k.Input((16, 16, 3))
    x = n.LeakyReLU(0.1)(n.Conv2D(8, 3, 4, padding="same")(made))
    x = n.Reshape((4, 4, 2, 7))(n.Conv2D(14, 1)(x))
    y, xs = np.meshgrid(np.arange(4.0), np.arange(4.0), indexing="ij")
    grid = np.stack([xs, y], -1)[None, :, :, None].astype(np.float32)
    anchors = np.array([[1.0, 2.0], [3.0, 1.5]], np.float32)
    centre = (o.sigmoid(x[..., 0:2]) + grid) * 4.0
    size = o.exp(o.clip(x[..., 2:4], -4.0, 4.0)) * anchors
    boxes = o.concatenate([centre, size, o.sigmoid(x[..., 4:])], axis=-1)
    return k.Model(made, o.reshape(boxes, (-1, 32, 7)))


def capsules(k: Any) -> Any:
    """Capsules: squashed vectors and predictions of rank 5."""
    n, o = k.layers, k.ops
    made = k.Input((8, 8, 1))
    x = n.Conv2D(8, 3, 2, activation="relu")(made)
    x = o.reshape(x, (-1, 18, 4))
    squares = o.sum(o.square(x), axis=-1, keepdims=True)
    x = x * (squares / (1.0 + squares)) / o.sqrt(squares + 1e-7)
    weights = np.random.default_rng(3).normal(0, 0.5, (1, 18, 3, 4, 4)).astype(np.float32)
    votes = o.sum(x[:, :, None, :, None] * weights, axis=3)
    total = o.sum(votes, axis=1)
    return k.Model(made, o.sqrt(o.sum(o.square(total), axis=-1) + 1e-7))


def spectrogram(k: Any) -> Any:
    """Audio to a spectrogram by STFT, then convolutions."""
    n, o = k.layers, k.ops
    made = k.Input((320,))
    real, imaginary = o.stft(made, 64, 32, 64)
    x = o.log(o.sqrt(real * real + imaginary * imaginary) + 1e-3)
    x = n.Conv2D(4, 3, activation="relu")(o.expand_dims(x, -1))
    return k.Model(made, n.Dense(3, activation="softmax")(n.GlobalAveragePooling2D()(x)))


def power_spectrum(k: Any) -> Any:
    """A spectrogram by convolutions with windowed sines; logarithm of its energy."""
    n, o = k.layers, k.ops
    made = k.Input((320, 1))
    x = n.Conv1D(16, 64, 32, use_bias=False)(made)
    x = o.log(o.square(x[..., :8]) + o.square(x[..., 8:]) + 1e-2)
    x = n.Conv1D(6, 3, activation="relu")(x)
    return k.Model(made, n.Dense(3, activation="softmax")(n.GlobalAveragePooling1D()(x)))


def vision_transformer(k: Any) -> Any:
    """Patches, a class token and an encoder layer."""
    n, o = k.layers, k.ops
    made = k.Input((16, 16, 1))
    x = n.Reshape((16, 12))(n.Conv2D(12, 4, 4)(made))
    token = np.random.default_rng(1).normal(0, 1, (1, 1, 12)).astype(np.float32)
    x = o.concatenate([o.zeros_like(x[:, :1]) + token, x], axis=1)
    y = n.LayerNormalization()(x)
    x = x + n.MultiHeadAttention(3, 4)(y, y)
    x = x + n.Dense(12)(n.Dense(24, activation="gelu")(n.LayerNormalization()(x)))
    return k.Model(made, n.Dense(4)(x[:, 0]))


def positions(k: Any) -> Any:
    """Soft arg-max of heat maps: expected coordinates."""
    n, o = k.layers, k.ops
    made = k.Input((12, 12, 1))
    x = n.Conv2D(3, 3, padding="same")(n.Conv2D(6, 3, padding="same", activation="mish")(made))
    x = o.softmax(o.reshape(x, (-1, 144, 3)), axis=1)
    at = np.stack(np.meshgrid(np.arange(12.0), np.arange(12.0)), -1).reshape(1, 144, 1, 2)
    return k.Model(made, o.sum(o.expand_dims(x, -1) * at.astype(np.float32), axis=1))


def statistics(k: Any) -> Any:
    """Features of a window of sensor data: mean, deviation, extremes."""
    n, o = k.layers, k.ops
    made = k.Input((32, 3))
    features = [o.mean(made, 1), o.std(made, 1), o.max(made, 1), o.min(made, 1),
                o.mean(o.abs(made), 1), o.sqrt(o.mean(o.square(made), 1))]  # fmt: skip
    x = n.Dense(8, activation="silu")(o.concatenate(features, axis=-1))
    return k.Model(made, o.log_softmax(n.Dense(4)(x)))


def shuffled(k: Any) -> Any:
    """ShuffleNet's unit: split, transform, join, shuffle channels."""
    n, o = k.layers, k.ops
    made = k.Input((10, 10, 4))
    x = n.Conv2D(8, 3, padding="same", activation="relu")(made)
    for _ in range(2):
        left, right = o.split(x, 2, axis=-1)
        right = n.Conv2D(4, 1, activation="relu")(right)
        right = n.DepthwiseConv2D(3, padding="same")(right)
        right = n.Conv2D(4, 1, activation="relu")(right)
        x = o.concatenate([left, right], axis=-1)
        x = o.reshape(x, (-1, 10, 10, 2, 4))
        x = o.reshape(o.transpose(x, (0, 1, 2, 4, 3)), (-1, 10, 10, 8))
    return k.Model(made, n.Dense(3)(n.GlobalAveragePooling2D()(x)))


COMMON: Mapping[str, Maker] = {
    maker.__name__: maker
    for maker in (
        lenet, ds_cnn, residual, mobilenet, squeeze_excite, efficient, unet, resized,
        dense_autoencoder, conv_autoencoder, variational, audio, temporal, lstm, stacked_lstm,
        unrolled_lstm, gru, unrolled_gru, simple_rnn, bidirectional, bidirectional_gru,
        lstm_autoencoder, conv_lstm, text, text_lstm, text_cnn, transformer, token_transformer,
        attention_pooling, dot_attention, ssd, fusion, siamese, group_norm, video, tabular,
        activations, grouped, inception, super_resolution,
    )
}  # fmt: skip
KERAS_3: Mapping[str, Maker] = {
    maker.__name__: maker
    for maker in (
        mask_where, causal_attention, argmax_head, top_classes, yolo, capsules, spectrogram,
        power_spectrum, vision_transformer, positions, statistics, shuffled,
    )
}  # fmt: skip
