"""traffic: bytes that a hardware layer transfers between the memories and the accelerator."""

from __future__ import annotations

from dataclasses import dataclass

from penstock_nvdla.extension import (
    TABLE_ROW_BYTES,
    ElementwiseMode,
    Post,
    WindowKind,
    WindowLayer,
)
from penstock_nvdla.layer import ConvolutionLayer


@dataclass(frozen=True, slots=True)
class LayerTraffic:
    """The bytes that a hardware layer transfers to and from memory.

    features, weights: the bytes of the (first) input and of the weights that are read.
    table: the bytes that post-processing reads for each channel: biases, multipliers, shifts, and
        second operands of an element-wise operation that have one element per channel.
    second: the bytes of any other second tensor that an element-wise operation reads.
    output: the bytes of the output that are written.

    >>> (LayerTraffic(features=64, output=8) + LayerTraffic(features=8)).total
    80
    """

    features: int = 0
    weights: int = 0
    table: int = 0
    second: int = 0
    output: int = 0

    def __add__(self, other: LayerTraffic) -> LayerTraffic:
        return LayerTraffic(
            self.features + other.features,
            self.weights + other.weights,
            self.table + other.table,
            self.second + other.second,
            self.output + other.output,
        )

    @property
    def total(self) -> int:
        """The number of bytes read and written: the sum of all fields."""
        return self.features + self.weights + self.table + self.second + self.output


def traffic_of(layer: ConvolutionLayer | WindowLayer, post: Post, atom_bytes: int) -> LayerTraffic:
    """Return the bytes that a hardware layer transfers to and from memory.

    atom_bytes: the size in bytes of a memory atom."""
    # Each input element and each weight is read once, unless the convolution buffer already holds
    # it.
    output = layer.out_height, layer.out_width, layer.kernels
    combines = post.elementwise is not ElementwiseMode.NONE and not post.by_channel
    return LayerTraffic(
        features=packed_bytes(_fetched_rows(layer), layer.width, layer.channels, atom_bytes),
        weights=_weight_bytes(layer),
        table=layer.kernels * (TABLE_ROW_BYTES * post.requantise + post.by_channel),
        second=packed_bytes(*output, atom_bytes) if combines else 0,
        output=packed_bytes(*output, atom_bytes),
    )


def traffic_of_convolution(layer: ConvolutionLayer, atom_bytes: int) -> LayerTraffic:
    """Return the bytes of features and weights that a convolution transfers to and from memory.

    atom_bytes: the size in bytes of a memory atom."""
    return LayerTraffic(
        features=packed_bytes(_fetched_rows(layer), layer.width, layer.channels, atom_bytes),
        weights=_weight_bytes(layer),
        output=packed_bytes(layer.out_height, layer.out_width, layer.kernels, atom_bytes),
    )


def packed_bytes(rows: int, columns: int, channels: int, atom_bytes: int) -> int:
    """Return the size in bytes of int8 features that are stored in packs of `atom_bytes` channels,
    where the last pack is padded.

    >>> packed_bytes(2, 3, channels=9, atom_bytes=8)
    96
    """
    return rows * columns * -(-channels // atom_bytes) * atom_bytes


def _fetched_rows(layer: ConvolutionLayer | WindowLayer) -> int:
    if isinstance(layer, WindowLayer):
        return layer.height
    return 0 if layer.reuse.data else layer.fetched_rows


def _weight_bytes(layer: ConvolutionLayer | WindowLayer) -> int:
    """The number of bytes of weights that a layer reads from memory: 0 if the weights are
    already in the convolution buffer, or if the layer has no weights."""
    if not isinstance(layer, WindowLayer):
        return 0 if layer.reuse.weights else layer.weight_bytes
    is_depthwise = layer.kind is WindowKind.DEPTHWISE
    return layer.window_height * layer.window_width * layer.kernels if is_depthwise else 0
