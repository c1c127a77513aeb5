"""PackChannels, PackView, UnpackChannels: stores channels in packs, as accelerators do.

With packs of A channels (UnpackChannels is the inverse):

    x  (N, H, W,     S * A)  any type
    y  (N, H, S * W, A)      y[n, h, s * W + w, a] = x[n, h, w, s * A + a]

A row of the image remains contiguous: one pack after the other, each with its points in order.
Source: the feature formats of NVDLA (hardware manual, in-memory formats) and, with A = 16, of Arm's
Ethos-U (NHCWB16).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.frozen import frozen
from penstock.ir.op import Kernel, Site, Types
from penstock.ir.tensor import ChannelBlocks, TensorType
from penstock.opkit.checks import image_shape, require
from penstock.opkit.rearrangement import AxisGrouping, Rearrangement
from penstock.opkit.selection import pack_kernel
from penstock.ops.reshape import Reshape


@frozen
class PackChannels(Rearrangement):
    """Groups the channels of each point into packs of `pack` channels."""

    pack: int

    def layout(self, x: tuple[int, ...]) -> AxisGrouping:
        n, h, w, c = image_shape(x)
        require(
            self.pack > 0 and c % self.pack == 0,
            f"{c} channels are no multiple of a pack of {self.pack}",
        )
        return AxisGrouping(
            ((n,), (h,), (w,), (c // self.pack, self.pack)), ((0,), (1,), (3, 2), (4,))
        )

    def kernel(self, site: Site) -> Kernel:
        packs = site.x.shape[-1] // self.pack
        return pack_kernel(site, packs, packing=True) or Rearrangement.kernel(self, site)

    def result_type(self, inputs: Types) -> TensorType:
        stored = Rearrangement.result_type(self, inputs)
        return replace(stored, layout=ChannelBlocks(self.pack))


@frozen
class PackView(Reshape):
    """Packs the channels of a tensor that are a single pack of `pack` channels: no element moves.

    The inverse is `Reshape`."""

    pack: int

    TFLITE = ()
    RELAY = ()

    def result_type(self, inputs: Types) -> TensorType:
        stored = Reshape.result_type(self, inputs)
        return replace(stored, layout=ChannelBlocks(self.pack))


@frozen
class UnpackChannels(Rearrangement):
    """Merges the `packs` packs of a row into the channels of its points."""

    packs: int

    def layout(self, x: tuple[int, ...]) -> AxisGrouping:
        n, h, w, c = image_shape(x)
        require(
            self.packs > 0 and w % self.packs == 0,
            f"a row of {w} runs is no multiple of {self.packs} packs",
        )
        return AxisGrouping(
            ((n,), (h,), (self.packs, w // self.packs), (c,)), ((0,), (1,), (3,), (2, 4))
        )

    def kernel(self, site: Site) -> Kernel:
        found = pack_kernel(site, self.packs, packing=False)
        return found or Rearrangement.kernel(self, site)
