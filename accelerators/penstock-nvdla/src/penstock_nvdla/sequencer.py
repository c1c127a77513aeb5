"""sequencer: the time that hardware layers take in the functional model.

The sequencer of the extension queues layers.  While a layer runs, the sequencer fetches the
register writes and the first constants of the next one.  This module computes the time of a layer
from its registers and from the bytes that the functional model has counted.  `dataflow.py` predicts
the same time when a network is compiled.  Without the extension, both take it from `timing.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from penstock_nvdla.buffer import ConvolutionBuffer
from penstock_nvdla.configurations import NvdlaConfiguration, NvdlaPort
from penstock_nvdla.extension import HardwareLayer, WindowLayer
from penstock_nvdla.layer import ConvolutionLayer, NvdlaMemory, Surface
from penstock_nvdla.stream import invalid_stream
from penstock_nvdla.task import LayerTraffic
from penstock_nvdla.timing import layer_timing

# Minimum and maximum number of cycles for which the multipliers keep their weights.
SHORTEST, LONGEST = 16, 32


@dataclass
class Sequencer:
    """The state of the queue of layers.

    cycles: the cycles that all layers so far have taken.
    idle: whether the queue is empty, so that nothing has been prefetched for the next layer.
    port_bytes: the bytes that all layers so far have transferred, by memory.
    buffer: the contents of the convolution buffer, which outlast a stream."""

    cycles: int = 0
    idle: bool = True
    port_bytes: Counter[NvdlaMemory] = field(default_factory=Counter[NvdlaMemory])
    buffer: ConvolutionBuffer = field(default_factory=ConvolutionBuffer)

    def run(
        self,
        hardware: NvdlaConfiguration,
        layer: HardwareLayer,
        port_bytes: Mapping[NvdlaMemory, int],
        sources: Set[NvdlaMemory],
        moved: LayerTraffic,
        sram_bytes: int = 0,
        *,
        combines: bool,
    ) -> None:
        """Update the fields `cycles`, `idle` and `port_bytes` for a layer that runs next.

        port_bytes: the bytes that this layer transfers, by memory.
        moved: the same bytes by tensor.
        sram_bytes: how many bytes of features it reads from the memory at the second port.
        combines: whether post-processing combines the results with a second tensor."""
        self.port_bytes.update(port_bytes)
        if hardware.extension is None:
            self.cycles += layer_timing(hardware, layer, moved, sram_bytes)[0]
            return
        fetch = hardware.memory.latency_cycles
        computing = _computing_steps(hardware, layer, combines=combines)
        transfers = (_steps(n, port(hardware, m).bytes_per_cycle) for m, n in port_bytes.items())
        busy = max(computing, *transfers)
        if self.idle:
            self.cycles += fetch + busy
        else:
            latency = max((port(hardware, memory).latency_cycles for memory in sources), default=0)
            self.cycles += max(fetch, latency + busy)
        self.idle = False


def port(hardware: NvdlaConfiguration, memory: NvdlaMemory) -> NvdlaPort:
    """Return the port by which the hardware accesses a memory: its bandwidth and latency."""
    return hardware.memory if memory is NvdlaMemory.MAIN else hardware.buffer_port


def _computing_steps(hardware: NvdlaConfiguration, layer: HardwareLayer, *, combines: bool) -> int:
    """The cycles of the units that compute a layer, without memory transfers."""
    if isinstance(layer, WindowLayer):
        return window_steps(hardware, layer)
    assert isinstance(layer, ConvolutionLayer), "the extension does not use SDP and PDP alone"
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


# Refuses hardware layers that read and write the same bank of the feature buffer.


# Features in memory, and their shape (rows, columns, channels).
FeaturePlace = tuple[Surface, tuple[int, int, int]]


def check_ports(
    hardware: NvdlaConfiguration, read: Iterable[FeaturePlace], written: FeaturePlace
) -> None:
    """Raise BackendError if a layer reads a bank of the feature buffer that it writes.

    read, written: the features that the layer reads, and those that it writes."""
    # The banks have a single port.  They are checked if the configuration states their size.
    extension = hardware.extension
    if extension is None or not extension.feature_bank_bytes:
        return
    atom, bank = hardware.memory_atom_bytes, extension.feature_bank_bytes
    banks_read = {index for place in read for index in _banks(place, atom, bank)}
    shared = banks_read & _banks(written, atom, bank)
    if shared:
        raise invalid_stream(
            f"a layer reads and writes bank {min(shared)} of the feature buffer",
            "a bank has a single port",
        )


def _banks(place: FeaturePlace, atom_bytes: int, bank_bytes: int) -> set[int]:
    surface, (rows, columns, channels) = place
    if surface.memory is not NvdlaMemory.FEATURE_BUFFER:
        return set()
    found: set[int] = set()
    for row in range(rows):
        for pack in range(-(-channels // atom_bytes)):
            begin = surface.address + row * surface.line_stride + pack * surface.surface_stride
            end = begin + columns * atom_bytes
            found.update(range(begin // bank_bytes, (end - 1) // bank_bytes + 1))
    return found
