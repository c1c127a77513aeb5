"""Samples of the operators of `penstock.ops.channel_packs`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, sample
from penstock.ops.channel_packs import PackChannels, PackView, UnpackChannels

SAMPLES = (
    sample(PackChannels(4), int8(1, 3, 5, 8)),
    sample(PackChannels(3), int8(2, 2, 1, 9)),
    sample(PackChannels(8), int8(1, 2, 3, 16)),
    sample(PackView((1, 3, 5, 4), 4), int8(1, 3, 5, 4)),
    sample(UnpackChannels(2), int8(1, 4, 6, 3)),
    sample(UnpackChannels(3), int8(2, 3, 6, 1)),
)
