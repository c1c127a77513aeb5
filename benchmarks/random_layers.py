"""Random layers of every kind side by side, and small networks of them.

The result depends on the seed only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from benchmarks.drawing import Drawing
from benchmarks.layer_kinds import (
    LAYERS,
    average_pool,
    convolution,
    dense,
    depthwise,
    joining,
    max_pool,
    multiplied,
    pointwise,
)
from benchmarks.plain_drawing import PlainDrawing
from benchmarks.plain_layer_kinds import PLAIN_LAYERS, convolutions, products
from benchmarks.recurrent_layers import recurrent_layers
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.tensor import DType, Quantisation
from penstock.opkit.layers import Layer
from penstock.opkit.requantise import Multipliers
from penstock.opkit.sliding import Window
from penstock.ops.batch_matmul import BatchMatmul
from penstock.ops.channel_packs import PackChannels, UnpackChannels
from penstock.ops.concatenation import Concatenation
from penstock.ops.conversions import ShiftZero
from penstock.ops.integer_vectors import IntegerNorm, RatioSoftmax, ShiftSoftmax
from penstock.ops.pad import Pad
from penstock.ops.pool import UnsignedAveragePool2D
from penstock.ops.resize import UnsignedResizeBilinear
from penstock.ops.slice import Slice

NETWORK_LAYERS = (
    convolution,
    pointwise,
    pointwise,
    depthwise,
    depthwise,
    multiplied,
    average_pool,
    max_pool,
    joining,
)

INTEGERS, NATURALS = Quantisation((1.0,), (0,)), Quantisation((1.0,), (-128,))
JOINED = 6
"""Concatenations side by side."""


def network(seed: int) -> Graph:
    """A small classifier of random layers, with odd and with few channels."""
    d = Drawing("network", seed)
    x = d.net.input((1, d.random.randint(16, 48), d.random.randint(8, 48), d.one_of(1, 1, 3)))
    x = d.net.conv2d(x, d.channels(), d.window(x), d.one_of(1, 2), "same", "relu")
    for _ in range(d.random.randint(4, 9)):
        if x.type.elements <= 64:
            break
        before, x = x, d.random.choice(NETWORK_LAYERS)(d, x)
        if before.type.shape == x.type.shape and d.random.random() < 0.5:
            x = d.net.add(before, x)
    x = d.net.global_average_pool(x) if d.random.random() < 0.5 else x
    return d.net.build(d.net.softmax(dense(d, x)))


def mixture(seed: int) -> Graph:
    """A layer of every kind, side by side."""
    d = Drawing("mixture", seed)
    return d.net.build(*(layer(d, d.image()) for layer in LAYERS.values()))


def plain_mixture(seed: int) -> Graph:
    """Layers of every kind on plain numbers, on int16, and of conversions, side by side."""
    d = PlainDrawing("plain mixture", seed)
    for layers in PLAIN_LAYERS:
        layers(d)
    return d.graph()


def real_mixture(seed: int) -> Graph:
    """Layers of float32 with weights of float32 or int8, and pools, side by side."""
    d = PlainDrawing("real mixture", seed)
    for _ in range(3):
        convolutions(d)
        products(d)
    return d.graph()


def recurrent_mixture(seed: int) -> Graph:
    """Recurrent layers on real numbers, side by side."""
    d = PlainDrawing("recurrent mixture", seed)
    recurrent_layers(d)
    return d.graph()


def joined_mixture(seed: int) -> Graph:
    """Concatenations along channels, of inputs with few and with many channels, side by side."""
    d = Drawing("joined mixture", seed)
    found: list[Value] = []
    for _ in range(JOINED):
        rows, columns = d.random.randint(2, 12), d.random.randint(2, 12)
        channels = [d.random.randint(4, d.one_of(15, 96)) for _ in range(d.random.randint(2, 5))]
        images = [d.net.input((1, rows, columns, each)) for each in channels]
        found.append(d.net.apply(Concatenation(3), *images))
    return d.net.build(*found)


def channel_mixture(seed: int) -> Graph:
    """Padding, slices, packing and unpacking of channels, side by side."""
    d = Drawing("channel mixture", seed)
    r = d.random.randint
    rows, columns, pack, packs = r(2, 12), r(2, 24), d.one_of(2, 3, 4, 8, 8, 16, 32), r(2, 6)
    pixels, blocks = (
        d.net.input(shape)
        for shape in ((1, rows, columns, pack * packs), (1, rows, packs * columns, pack))
    )
    few = d.net.input((1, rows, r(2, 96), d.one_of(1, 2, 3, 3, r(4, 12))))
    column = d.net.input((1, rows, 1, 8 * r(2, 60)))
    start, channels = r(0, pack), r(1, pack)
    return d.net.build(
        d.net.apply(Pad((0,) * 4, (0, 0, 0, r(1, 9)), few.type.zero_point), few),
        d.net.apply(Slice((0, 0, 0, start), (1, rows, columns, channels), (1,) * 4), pixels),
        d.net.apply(PackChannels(pack), pixels),
        d.net.apply(PackChannels(8), column),
        d.net.apply(UnpackChannels(packs), blocks),
    )


def unsigned_mixture(seed: int) -> Graph:
    """Layers whose weights exceed int8, and what else uint8 networks have, side by side."""
    d = Drawing("unsigned mixture", seed)
    layers = (convolution, convolution, pointwise, depthwise, depthwise, multiplied, dense)
    images = [d.image() for _ in range(2)]
    rows, columns = (Window(d.one_of(1, 2, 3, 4), d.one_of(1, 2)) for _ in range(2))
    graph = d.net.build(
        *(layer(d, d.image()) for layer in layers),
        d.net.apply(
            UnsignedAveragePool2D(rows, columns),
            images[0],
            quantisation=images[0].type.quantisation,
        ),
        d.net.apply(
            UnsignedResizeBilinear(d.random.randint(2, 24), d.random.randint(2, 24)),
            images[0],
            quantisation=images[0].type.quantisation,
        ),
        d.net.apply(ShiftZero(DType.UINT8), images[1], quantisation=Quantisation((0.1,), (128,))),
    )
    return graph.with_nodes(tuple(map(_with_wide_weights, graph.nodes)))


def _with_wide_weights(node: Node) -> Node:
    """A layer with int16 weights of 9 bits; other nodes as they are."""
    if not isinstance(node.op, Layer):
        return node
    x, w, *others = node.inputs
    assert w.data is not None
    elements = w.data.array(w.type).astype(np.int16)
    elements[np.abs(elements) > 64] *= 2
    wide = Value.constant(f"{w.name}/wide", elements, w.type.quantisation)
    return replace(node, inputs=(x, wide, *others))


def integer_mixture(seed: int) -> Graph:
    """Products and functions of vectors of networks of integers, side by side."""
    d = Drawing("integer mixture", seed)
    r = d.random.randint
    group, stated = r(2, 8), Multipliers((r(100, 900),), (15,), (r(-90000, 90000),))
    powers = tuple((84 - k % 62) ** 2 + 3735 >> k // 62 for k in range(256))
    inner = r(2, 48)
    left, right = (d.net.input((1, 2, *size)) for size in ((r(2, 16), inner), (inner, r(2, 16))))
    rows = [d.net.input((1, r(1, 6), r(1, 16), group * r(2, 12))) for _ in range(3)]
    depth = rows[2].type.shape[-1]
    parts = (np.full(depth, 2 ** r(16, 22)), np.arange(depth) * 2**10)
    parameters = [d.net.constant(part.astype(np.int32)) for part in parts]
    return d.net.build(
        d.net.apply(BatchMatmul(stated=stated), left, right, quantisation=INTEGERS),
        d.net.apply(RatioSoftmax(powers, 255), rows[0], quantisation=NATURALS),
        d.net.apply(ShiftSoftmax(127, d.one_of(0, group)), rows[1], quantisation=INTEGERS),
        d.net.apply(
            IntegerNorm(d.one_of(True, False), 16), rows[2], *parameters, quantisation=INTEGERS
        ),
    )


MIXTURES: Mapping[str, Callable[[int], Graph]] = {
    "int8": mixture,
    "plain": plain_mixture,
    "real": real_mixture,
    "recurrent": recurrent_mixture,
    "joined": joined_mixture,
    "channels": channel_mixture,
    "unsigned": unsigned_mixture,
    "integers": integer_mixture,
}
"""By name."""
