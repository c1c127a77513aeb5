"""buffer: the convolution buffer in the functional model.

Weights pass through a ring of entries.  The read engine (CDMA) appends as many entries as
`D_WEIGHT_BYTES` states.  The core (CSC) reads weights from the oldest entry on, and releases the
entries that it has read, unless the layer keeps its weights.  Entries that are appended but never
read therefore remain, and the next layer takes them for its weights.  Rows of the input pass
through a ring of their own.  If a layer has another number of banks than the previous one, its
ring is emptied.

The contents outlast a stream.

Source: nvdla/hw, branch nv_small, vmod/nvdla/cdma and vmod/nvdla/csc.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from penstock.uma import Array
from penstock_nvdla.layer import ConvolutionLayer
from penstock_nvdla.packing import unpack_weights
from penstock_nvdla.stream import invalid_stream


def _nothing() -> Array:
    return np.zeros(0, np.uint8)


@dataclass
class ConvolutionBuffer:
    """The contents of the convolution buffer between two hardware layers.

    layer: the previous convolution; None if there was none.
    weights: the bytes that have not been released, oldest first.
    rows: the input rows that have not been released, of shape (rows, columns, channels)."""

    layer: ConvolutionLayer | None = None
    weights: Array = field(default_factory=_nothing)
    rows: Array | None = None

    def load(
        self,
        layer: ConvolutionLayer,
        read_rows: Callable[[], Array],
        read_weights: Callable[[], Array],
    ) -> tuple[Array, Array]:
        """Return the input of a layer, of shape (rows, columns, channels), and its weights, of
        shape (kernels, rows, columns, channels), and release what the layer releases.

        read_rows, read_weights: read from memory what the layer fetches.

        Raises BackendError if the buffer does not contain what the layer uses."""
        rows = self._input_rows(layer, read_rows)
        weights = self._kernels(layer, read_weights)
        self.rows = rows if layer.reuse.keep_data else rows[layer.release :]
        if not layer.reuse.keep_weights:
            entry = layer.hardware.entry_bytes
            self.weights = self.weights[-(-weights.size // entry) * entry :]
        self.layer = layer
        return rows, weights

    def _kernels(self, layer: ConvolutionLayer, read: Callable[[], Array]) -> Array:
        shape = (layer.kernels, layer.kernel_height, layer.kernel_width, layer.channels)
        before = self.layer
        if before and _banks(before) != _banks(layer):
            self.weights = _nothing()
        if layer.reuse.weights:
            if before is None or _kept_weights(before) != shape or not self.weights.size:
                raise invalid_stream("a layer reuses weights that are not in the buffer",
                                     "they must be those that the previous layer kept")  # fmt: skip
        else:
            if before and before.reuse.keep_weights:
                self.weights = self.weights[before.weight_bytes :]
            self.weights = np.concatenate((self.weights, read()))
        return unpack_weights(self.weights, shape, layer.hardware)

    def _input_rows(self, layer: ConvolutionLayer, read: Callable[[], Array]) -> Array:
        """The rows that the layer takes over, followed by those that it fetches."""
        before = self.layer
        same = before is not None and before.data_banks == layer.data_banks
        if layer.reuse.data or layer.kept_rows:
            rows = layer.height if layer.reuse.data else layer.kept_rows
            wanted = (rows, layer.width, layer.channels)
            kept_whole = before is not None and before.reuse.keep_data
            there = self.rows is not None and kept_whole is layer.reuse.data
            if self.rows is None or not there or self.rows.shape != wanted:
                raise invalid_stream(
                    f"a layer reuses data of {wanted}, in the buffer are "
                    f"{self.rows.shape if there and self.rows is not None else 'none'}",
                    "they must be those that the previous layer kept",
                )
            if before is not None and not same:
                raise invalid_stream(
                    f"a layer reuses data in {before.data_banks} banks, and has {layer.data_banks}",
                    "the buffer must be split as it was for the layer before",
                )
            return self.rows if layer.reuse.data else np.concatenate((self.rows, read()))
        left = 0 if self.rows is None else len(self.rows)
        if before and same and not before.reuse.keep_data and left:
            raise invalid_stream(
                f"a layer finds {left} rows that the layer before left in the buffer",
                "the core reads rows in the order in which they were fetched",
            )
        return read()


def _banks(layer: ConvolutionLayer) -> tuple[int, int]:
    return layer.data_banks, layer.weight_banks


def _kept_weights(layer: ConvolutionLayer) -> tuple[int, int, int, int] | None:
    """The shape of the weights that a layer keeps for the next one; None if it keeps none."""
    if not layer.reuse.keep_weights:
        return None
    return layer.kernels, layer.kernel_height, layer.kernel_width, layer.channels
