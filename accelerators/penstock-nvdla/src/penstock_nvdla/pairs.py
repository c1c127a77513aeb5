"""pairs: depthwise convolutions that read two rows of a pack of channels as one of two packs.

The core multiplies the channels of two packs in a step.  A convolution of a single pack, as one of
each channel by itself is, uses half of them.  The rows of an image are at equal distances, so the
core can take the second row of a pair for further channels of the first.  A kernel then reaches
over half as many rows, and its weights are zero where it does not reach over the second or the
first row of a pair.  With a stride of one row, the two output rows of a pair are kernels of their
own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from penstock.uma import Array
from penstock_nvdla.cut import Convolution
from penstock_nvdla.sizes import TaskSizes


@dataclass(frozen=True, slots=True)
class RowPairs:
    """How a convolution of rows becomes one of pairs of rows.

    outputs: the number of output rows for each pair that its window moves on: 2 or 1.
    rows: the number of output rows that it computes.
    missing: the number of rows between the first pair of a window and its first row: 0 or 1.
    height: the number of pairs that a window spans.
    top: the number of pairs of padding above the input."""

    outputs: int
    rows: int
    missing: int
    height: int
    top: int

    @staticmethod
    def of(task: TaskSizes) -> RowPairs | None:
        """Return the pairs of as many first output rows as possible: those whose windows reach over
        no pair of which the task reads only the first row.  None if there are none."""
        chip, stride = task.hardware, task.stride_h
        if chip.atomic_c < 2 * chip.memory_atom_bytes or task.dilation_h > 1 or stride > 2:
            return None
        outputs, (_, end) = 2 // stride, task.reads(0, task.out_h)
        most = range(task.out_h // outputs * outputs, 0, -outputs)
        rows = next((n for n in most if -(-task.reads(0, n)[1] // 2) * 2 <= end), 0)
        missing = task.pad_top % 2
        height = -(-(missing + task.kernel_h + outputs - 1) // 2)
        top = (task.pad_top + missing) // 2
        return RowPairs(outputs, rows, missing, height, top) if rows else None

    def channels(self, count: int, atom_bytes: int) -> tuple[int, int]:
        """Return the numbers of input and of output channels of the convolution of pairs of rows,
        for `count` channels of a pack."""
        return atom_bytes + count, (self.outputs - 1) * atom_bytes + count

    def weights(self, weights: Array, atom_bytes: int) -> Array:
        """Return the weights of the convolution of pairs of rows.

        weights: those of some channels, of shape (channels, rows, columns).

        The result has shape (kernels, pairs, columns, input channels)."""
        count, rows, columns = weights.shape
        inputs, kernels = self.channels(count, atom_bytes)
        found = np.zeros((kernels, self.height, columns, inputs), np.int8)
        each = np.arange(count)
        for output in range(self.outputs):
            for row in range(rows):
                pair, second = divmod(row + self.missing + output, 2)
                kernel, channel = (at * atom_bytes + each for at in (output, second))
                found[kernel, pair, :, channel] = weights[:, row]
        return found

    def convolution(self, single: Convolution, weight_address: int) -> Convolution:
        """Return the convolution of pairs of rows, from that of the same output rows of a pack."""
        atom, source, output = single.hardware.memory_atom_bytes, single.source, single.output
        if self.outputs > 1:
            lines = output.line_stride
            output = replace(output, line_stride=2 * lines, surface_stride=lines)
        pairs = -(-single.height // 2)
        below = self.rows // self.outputs - 1 + self.height - self.top - pairs
        channels, kernels = self.channels(single.channels, atom)
        return replace(
            single,
            height=pairs + min(0, below),
            channels=channels,
            kernels=kernels,
            kernel_height=self.height,
            source=replace(
                source, line_stride=2 * source.line_stride, surface_stride=source.line_stride
            ),
            output=output,
            weight_address=weight_address,
            stride_y=1,
            padding=replace(single.padding, top=self.top, bottom=max(0, below)),
        )
