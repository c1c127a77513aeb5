"""sequencer: the time that hardware layers take in the functional model.

The sequencer of the extension queues layers.  While a layer runs, the sequencer fetches the
register writes and the first constants of the next one.  This module computes the time of a layer
from its registers and from the bytes that the functional model has counted.  `dataflow.py` predicts
the same time when a network is compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from penstock_nvdla.configurations import NvdlaConfiguration, NvdlaPort
from penstock_nvdla.extension import HardwareLayer, WindowLayer
from penstock_nvdla.layer import ConvolutionLayer, NvdlaMemory
from penstock_nvdla.pdp import PoolingLayer
from penstock_nvdla.sdp import SdpLayer

SHORTEST, LONGEST = 16, 32
"""Minimum and maximum number of cycles for which the multipliers keep their weights."""


@dataclass
class Sequencer:
    """The state of the queue of layers.

    cycles: the cycles that all layers so far have taken.
    idle: whether the queue is empty, so that nothing has been prefetched for the next layer.
    port_bytes: the bytes that all layers so far have transferred, by memory."""

    cycles: int = 0
    idle: bool = True
    port_bytes: Counter[NvdlaMemory] = field(default_factory=Counter[NvdlaMemory])

    def run(
        self,
        hardware: NvdlaConfiguration,
        layer: HardwareLayer,
        port_bytes: Mapping[NvdlaMemory, int],
        sources: Set[NvdlaMemory],
        *,
        combines: bool,
    ) -> None:
        """Update the fields `cycles`, `idle` and `port_bytes` for a layer that runs next.

        port_bytes: the bytes that this layer transfers, by memory.
        sources: the memories from which the layer reads features.
        combines: whether post-processing combines the results with a second tensor."""
        fetch = hardware.memory.latency_cycles
        computing = _computing_steps(hardware, layer, combines=combines)
        transfers = (_steps(n, port(hardware, m).bytes_per_cycle) for m, n in port_bytes.items())
        busy = max(computing, *transfers)
        if self.idle or hardware.extension is None:
            self.cycles += fetch + busy
        else:
            latency = max((port(hardware, memory).latency_cycles for memory in sources), default=0)
            self.cycles += max(fetch, latency + busy)
        self.idle = False
        self.port_bytes.update(port_bytes)


def port(hardware: NvdlaConfiguration, memory: NvdlaMemory) -> NvdlaPort:
    """Return the port by which the hardware accesses a memory: its bandwidth and latency."""
    return hardware.memory if memory is NvdlaMemory.MAIN else hardware.buffer_port


def _computing_steps(hardware: NvdlaConfiguration, layer: HardwareLayer, *, combines: bool) -> int:
    """Return the cycles of the units that compute a layer, without memory transfers.

    combines: whether post-processing combines the results with a second tensor; it affects the
        cycles of convolutions only."""
    if isinstance(layer, WindowLayer):
        return window_steps(hardware, layer)
    if isinstance(layer, SdpLayer):
        points = layer.width * layer.height
        rates = hardware.rates
        rate = rates.elementwise if layer.through_y else rates.single_point
        return _steps(points * layer.channels, rate)
    if isinstance(layer, PoolingLayer):
        points = max(layer.width * layer.height, layer.out_width * layer.out_height)
        return _steps(points * layer.channels, hardware.rates.pooling)
    return convolution_steps(hardware, layer, combines=combines)


def convolution_steps(
    hardware: NvdlaConfiguration, layer: ConvolutionLayer, *, combines: bool
) -> int:
    """Return the cycles of the multipliers or of post-processing in a convolution, whichever take
    longer.

    combines: whether post-processing combines the results with a second tensor.  If so, at most
        `rates.pooling` results are processed in a cycle, the rate of unit WINDOW."""
    weights = (
        layer.kernel_height
        * layer.kernel_width
        * len(range(0, layer.kernels, hardware.atomic_k))
        * len(range(0, layer.channels, hardware.atomic_c))
    )
    points = layer.out_height * layer.out_width
    stripes = [min(LONGEST, points - at) for at in range(0, points, LONGEST)]
    multiplying = weights * sum(max(SHORTEST, stripe) for stripe in stripes)
    rates = hardware.rates
    rate = min(rates.single_point, rates.pooling) if combines else rates.single_point
    return max(multiplying, _steps(points * layer.kernels, rate))


def window_steps(hardware: NvdlaConfiguration, layer: WindowLayer) -> int:
    """Return the cycles of unit WINDOW: the number of elements in all windows of the layer, divided
    by the `rates.pooling` elements that the unit processes in a cycle, rounded up."""
    windows = layer.out_height * layer.out_width * layer.kernels
    return _steps(windows * layer.window_height * layer.window_width, hardware.rates.pooling)


def _steps(elements: int, per_cycle: int) -> int:
    return len(range(0, elements, per_cycle))
