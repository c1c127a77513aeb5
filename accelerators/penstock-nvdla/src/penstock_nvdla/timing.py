"""timing: cycles of hardware layers on NVIDIA's RTL, from the last register write to the interrupt.

The rules follow the sources of the RTL; the constants were measured on it.

A convolution begins when all its features and the weights of the first group of kernels are in the
convolution buffer.  Features and weights share the read channel.  A pass over up to `2 * atomic_k`
points, a stripe, takes a cycle per point and step (a tap of a block of channels).  The core begins
the last step of a stripe when the accumulators have space for all its points: they have space for
`2 * atomic_k` points, and SDP takes them out one by one.  The weights of later groups arrive
meanwhile, as far as the buffer's banks for weights have space.  SDP needs its operands for the
first point.

A layer may start while the convolution before it runs.  The read engine then begins when it is done
with that convolution, and a group of registers is free; the core takes over when it is done.  SDP
requests its operands only when it is done, so they arrive the latency later.

SDP and PDP work on packs of channels.  A read engine has a limited number of packs outstanding, so
the latency of memory limits the rate.  PDP takes further cycles for windows that reach into the
padding behind the input: their results follow the last column or row.

Source: nvdla/hw, branch nv_small, vmod/nvdla/csc, cacc, cdma and pdp.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from penstock_nvdla.configurations import CVSRAM, NvdlaConfiguration, NvdlaPort
from penstock_nvdla.layer import ConvolutionLayer
from penstock_nvdla.pdp import PoolingLayer
from penstock_nvdla.sdp import SdpLayer
from penstock_nvdla.sizes import HardwareLayer, LayerTraffic

# Cycles from the last register write to the first read of a convolution, and from the last element
# to the interrupt; those that it takes longer if SDP reads operands.
CONVOLUTION_START, CONVOLUTION_END, WITH_OPERANDS = 32, 40, 28
# Cycles in which SDP and PDP start and end, without the latency of memory.
SINGLE_START = 62
# Cycles from the last step of a point to SDP, and back to the space in the accumulators.
TO_SDP = FROM_SDP = 27.5
# Cycles besides the latency for which a beat of read data is outstanding, and those of a pack.
BEAT_OVERHEAD, SDP_OVERHEAD, PDP_OVERHEAD = 14, 14, 15
OPERANDS_AHEAD = 160  # The packs that a read engine of SDP's operands has outstanding.
MOST_BEATS = 256  # The beats that the memory interface has outstanding.
# Cycles in which the read engine of a convolution issues a request, which reads a row of a pack,
# and the requests that it has outstanding.
REQUEST_CYCLES, MOST_REQUESTS = 2, 128
# Cycles from the release of weights to the request of others.
REFILL_CYCLES = 30
# Stripes that are simulated of many equal ones; the others take as long as the last of these.
SIMULATED_STRIPES = 4

Busy = Mapping[str, float]
NOTHING = LayerTraffic()


@dataclass(frozen=True, slots=True)
class LayerBefore:
    """When parts of the hardware finished a convolution, in cycles after its end; all are negative.

    registers: when the other group of registers was free.
    fetched: when the convolution buffer contained all that it fetches.
    multiplied: when the core had computed the last sum."""

    registers: float
    fetched: float
    multiplied: float


@dataclass(frozen=True, slots=True)
class ConvolutionWork:
    """What the cycles of a convolution depend on.

    points: the number of output pixels.
    steps: the number of steps per group of kernels: taps times blocks of channels.
    kernels: the number of output channels.
    rows, packs: the input rows that are fetched, and the packs of channels of each.
    feature_bytes, weight_bytes: what is fetched.
    kernel_bytes: the size of the weights of a kernel.
    weight_banks: the banks of the buffer for weights.
    operands: whether SDP reads operands.
    element_bytes: those of one operand for each element; 0 without.
    operands_in_sram: whether these are in the memory at the second port.
    in_sram: whether the features are in the memory at the second port.
    through_y: whether SDP's unit Y is used."""

    points: int
    steps: int
    kernels: int
    rows: int
    packs: int
    feature_bytes: int
    weight_bytes: int
    kernel_bytes: int
    weight_banks: int
    operands: bool
    in_sram: bool = False
    through_y: bool = False
    element_bytes: int = 0
    operands_in_sram: bool = False


@dataclass(frozen=True, slots=True)
class PoolAxis:
    """Rows or columns of a pool: the size of the input, the window and its stride, and the padding
    before and behind."""

    size: int
    window: int
    stride: int
    before: int
    behind: int

    @property
    def flushed(self) -> int:
        """The number of outputs that are complete only behind the input."""
        if not self.behind // self.stride:
            return 0
        if self._is_small:
            return (self.size + self.before + self.behind - self.window) // self.stride
        return self.behind // self.stride

    @property
    def bubble(self) -> int:
        """How many of these outputs are not hidden by the inputs that follow without an output."""
        first = self.size if self._is_small else self.window - self.before
        return max(0, self.flushed - first + 1) if self.flushed else 0

    @property
    def _is_small(self) -> bool:
        return self.size + self.before < self.window


def stripes(points: int, chip: NvdlaConfiguration) -> tuple[int, ...]:
    """Return the numbers of points of the stripes into which the core divides an output.

    >>> from penstock_nvdla.configurations import SMALL
    >>> stripes(53, SMALL), stripes(27, SMALL), stripes(15, SMALL)
    ((16, 16, 8, 13), (8, 8, 11), (15,))
    """
    most, found = 2 * chip.atomic_k, list[int]()
    while points > 0:
        size = most if points >= 2 * most else points if points <= most else chip.atomic_k
        found.append(size)
        points -= size
    return tuple(found)


def read_cycles(port: NvdlaPort, beats: float) -> float:
    """Return the cycles of a port's read channel for a number of beats, after the latency of the
    first one.

    >>> from penstock_nvdla.configurations import LARGE
    >>> read_cycles(LARGE.memory, 256), read_cycles(LARGE.memory, 512)
    (256, 1470)
    """
    return _late(port, beats, MOST_BEATS, 1, BEAT_OVERHEAD)


def _late(port: NvdlaPort, count: float, outstanding: int, each: float, overhead: int) -> float:
    """The cycles for a number of reads, of which some are outstanding at a time.

    each: the cycles of a read if memory were fast."""
    if count <= 0:
        return 0
    full = (ceil(count) - 1) // outstanding
    interval = max(port.latency_cycles + overhead, outstanding * each)
    return full * interval + (count - full * outstanding) * each


@lru_cache(maxsize=1 << 15)
def convolution_timing(
    chip: NvdlaConfiguration, work: ConvolutionWork, before: LayerBefore | None = None
) -> tuple[float, Busy, LayerBefore]:
    """Return the cycles of a convolution, the busy cycles of each resource, and what the next layer
    needs to know of it.

    before: the convolution during which it starts; its cycles are then those after the end of that
        one.  None if it starts when the layer before is complete."""
    least = chip.atomic_k
    point = _pack_cycles(chip, _rate(chip, through_y=work.through_y))
    begin = max(before.registers, before.fetched) if before else 0
    port = chip.second_port if work.operands_in_sram else chip.memory
    sdp = (-CONVOLUTION_END if before else 0) + port.latency_cycles * work.operands
    groups, sizes = -(-work.kernels // least), stripes(work.points, chip)
    if work.element_bytes:
        packs = groups * work.points
        point = _late(port, packs, OPERANDS_AHEAD, point, SDP_OVERHEAD) / packs
    weights = _Weights.of(chip, work, begin)
    fetched, multiplied, end = _pipelined(chip, work, weights, before, (point, sdp))
    end += CONVOLUTION_END + WITH_OPERANDS * work.operands
    multiplying = groups * work.steps * sum(max(least, size) for size in sizes)
    busy = {"multipliers": multiplying, "post-processing": groups * work.points * point}
    shared = work.feature_bytes * (not work.in_sram)
    shared += work.element_bytes * (not work.operands_in_sram)
    beats = (shared + work.weight_bytes) / chip.memory.bytes_per_cycle
    busy["memory"] = read_cycles(chip.memory, beats)
    if work.in_sram:
        port = chip.second_port
        busy[CVSRAM] = read_cycles(port, work.feature_bytes / port.bytes_per_cycle)
    return end, busy, LayerBefore(-end, fetched - end, multiplied - end)


@dataclass(frozen=True, slots=True)
class _Weights:
    """When the features, and the weights of each group of kernels, are in the buffer.

    start, refill: when the first data of main memory arrive, and how long after a release others
        do.
    features, ends: the beats of the features in main memory, and of the weights up to each group.
    requests: the cycles in which these features are requested.
    other_features: when features that come through the second port are complete; 0 without them.
    capacity: the beats of as many weights as the buffer can store.
    elements: the beats of operands of SDP in main memory, which share its read channel."""

    chip: NvdlaConfiguration

    start: float
    refill: float
    features: float
    requests: float
    other_features: float
    ends: tuple[float, ...]
    capacity: float
    elements: float

    @staticmethod
    def of(chip: NvdlaConfiguration, work: ConvolutionWork, begin: float) -> _Weights:
        """What a convolution fetches whose read engine begins at some time."""
        port = chip.memory
        feature_bytes, other_features = work.feature_bytes, 0.0
        requests = _late(
            chip.second_port if work.in_sram else port,
            work.rows * work.packs,
            MOST_REQUESTS,
            REQUEST_CYCLES + 1 / work.packs,
            BEAT_OVERHEAD,
        )
        if work.in_sram:
            beats = feature_bytes / chip.second_port.bytes_per_cycle
            other_features = begin + CONVOLUTION_START + chip.second_port.latency_cycles
            other_features += max(requests, read_cycles(chip.second_port, beats))
            feature_bytes = 0
        fetches = feature_bytes + work.weight_bytes > 0
        start = begin + CONVOLUTION_START + port.latency_cycles * fetches
        features = feature_bytes / port.bytes_per_cycle
        groups = -(-work.kernels // chip.atomic_k)
        each = work.kernel_bytes * chip.atomic_k
        ends = [min(work.weight_bytes, each * (k + 1)) for k in range(groups)]
        ends[-1] = work.weight_bytes
        return _Weights(
            chip,
            start,
            port.latency_cycles + REFILL_CYCLES,
            features,
            requests if features else 0,
            other_features,
            tuple(n / port.bytes_per_cycle for n in ends),
            work.weight_banks * chip.bank_bytes / port.bytes_per_cycle,
            work.element_bytes * (not work.operands_in_sram) / port.bytes_per_cycle,
        )

    @property
    def first(self) -> float:
        """When features and the weights of the first group are complete."""
        features = self.features + min(self.features, self.ends[-1])
        features += min(self.features, self.elements, OPERANDS_AHEAD)
        beats = max(features, self.ends[0] + min(self.ends[0], self.features))
        fetched = self.start + max(self.requests, read_cycles(self.chip.memory, beats))
        return max(fetched, self.other_features)

    def arrival(self, group: int, released: Sequence[float]) -> float:
        """When the weights of a later group are complete.

        released: when the core released those of earlier groups."""
        end = self.ends[group]
        port = self.chip.memory
        found = self.start + read_cycles(port, end + min(end, self.features))
        needed = end - self.capacity
        if needed > 0:
            last = next((k for k in range(group) if self.ends[k] >= needed), group - 1)
            before = self.ends[last - 1] if last else 0
            missing = min(needed - before, end - self.ends[group - 1])
            missing_cycles = read_cycles(port, missing)
            found = max(found, released[last] + self.refill + missing_cycles)
        return found


def _pipelined(
    chip: NvdlaConfiguration,
    work: ConvolutionWork,
    weights: _Weights,
    before: LayerBefore | None,
    post: tuple[float, float],
) -> tuple[float, float, float]:
    """When all weights of a convolution are in the buffer, when the core has computed its last sum,
    and when SDP has taken its last element from the accumulators.

    post: the cycles of SDP for a point, and when it can take the first one."""
    point, sdp = post
    steps, sizes = work.steps, stripes(work.points, chip)
    least, most = chip.atomic_k, 2 * chip.atomic_k
    full = sum(size == most for size in sizes)
    left_out = max(0, full - SIMULATED_STRIPES)
    period = max(most * steps, most * point + TO_SDP + FROM_SDP)
    fetched, space = weights.first, most
    free = max(fetched, before.multiplied) if before else fetched
    leaving, released = deque[tuple[float, int]](), list[float]()
    for group in range(-(-work.kernels // least)):
        if group:
            fetched = weights.arrival(group, released)
            free = max(free, fetched)
        for index, size in enumerate(sizes[left_out:]):
            last_step = free + max(least, size) * (steps - 1)
            while space < size:
                first, points = leaving.popleft()
                taken = min(points, size - space)
                last_step = max(last_step, first + (taken - 1) * point)
                space += taken
                if taken < points:
                    leaving.appendleft((first + taken * point, points - taken))
            space -= size
            free = last_step + max(least, size)
            first = max(sdp, last_step + TO_SDP) + point
            sdp = max(first + (size - 1) * point, last_step + TO_SDP + size - 1 + point)
            leaving.append((sdp - (size - 1) * point + FROM_SDP, size))
            if index == SIMULATED_STRIPES - 1:
                later = left_out * period
                free, sdp = free + later, sdp + later
                leaving = deque((time + later, points) for time, points in leaving)
        released.append(free)
    return fetched, free, sdp


def layer_timing(
    chip: NvdlaConfiguration,
    layer: HardwareLayer,
    moved: LayerTraffic,
    second_port: LayerTraffic = NOTHING,
    before: LayerBefore | None = None,
) -> tuple[int, Busy, LayerBefore | None]:
    """Return the cycles of a hardware layer of NVDLA's own units, the busy cycles of each resource,
    and what a layer that starts meanwhile needs to know of it; None unless it is a convolution.

    moved: the bytes that it transfers.
    second_port: those of them that it transfers to and from the memory at the second port.
    before: the convolution during which it starts, if it does."""
    after = None
    atom = chip.memory_atom_bytes
    if isinstance(layer, SdpLayer):
        packs = layer.width * layer.height * -(-layer.channels // atom)
        tensors, inside = (
            (one.features + one.second) // moved.features for one in (moved, second_port)
        )
        cycles, busy = sdp_timing(chip, packs, tensors, inside, through_y=layer.through_y)
    elif isinstance(layer, PoolingLayer):
        pad = layer.padding
        columns = PoolAxis(layer.width, layer.window_width, layer.stride_x, pad.left, pad.right)
        rows = PoolAxis(layer.height, layer.window_height, layer.stride_y, pad.top, pad.bottom)
        port = chip.second_port if second_port.features else chip.memory
        cycles, busy = pooling_timing(chip, -(-layer.channels // atom), columns, rows, port=port)
    else:
        assert isinstance(layer, ConvolutionLayer), "NVDLA itself has no unit WINDOW"
        taps = layer.kernel_width * layer.kernel_height
        work = ConvolutionWork(
            points=layer.atomics,
            steps=taps * -(-layer.channels // chip.atomic_c),
            kernels=layer.kernels,
            rows=0 if layer.reuse.data else layer.fetched_rows,
            packs=-(-layer.channels // atom),
            feature_bytes=moved.features,
            weight_bytes=moved.weights,
            kernel_bytes=layer.bytes_per_kernel,
            weight_banks=layer.weight_banks,
            operands=moved.table + moved.second > 0,
            in_sram=second_port.features > 0,
            element_bytes=moved.second,
            operands_in_sram=second_port.second > 0,
            through_y=layer.through_y,
        )
        cycles, busy, after = convolution_timing(chip, work, before)
    return ceil(cycles), busy, after


def sdp_timing(
    chip: NvdlaConfiguration, packs: int, tensors: int, inside: int = 0, *, through_y: bool
) -> tuple[float, Busy]:
    """Return the cycles of a layer of SDP alone, and the busy cycles of each resource.

    packs: the packs of channels of the output: pixels times packs of each.
    tensors: how many tensors are read.
    inside: how many of them are in the memory at the second port."""
    rate = _rate(chip, through_y=through_y)
    busy = {"post-processing": packs * _pack_cycles(chip, rate)}
    latency = 0
    for name, port, count in (
        ("memory", chip.memory, tensors - inside),
        (CVSRAM, chip.second_port, inside),
    ):
        if count:
            latency = max(latency, port.latency_cycles)
            busy[name] = max(
                read_cycles(port, packs * count * _beats(chip, port)),
                _late(port, packs, chip.sdp_ahead, _pack_cycles(chip, rate), SDP_OVERHEAD),
            )
    return SINGLE_START + latency + max(busy.values()), busy


def pooling_timing(
    chip: NvdlaConfiguration,
    packs: int,
    columns: PoolAxis,
    rows: PoolAxis,
    overlap: int = 0,
    port: NvdlaPort | None = None,
) -> tuple[float, Busy]:
    """Return the cycles of a pooling layer, and the busy cycles of each resource.

    packs: the packs of channels of a pixel.
    overlap: the columns of the input that are read twice, because the columns are divided.
    port: the memory port of the input; None: that of main memory."""
    port = port or chip.memory
    width = columns.size + overlap
    out_width = (
        columns.size + columns.before + columns.behind - columns.window
    ) // columns.stride + 1
    cycles = _pack_cycles(chip, chip.rates.pooling)
    computed = packs * rows.size * (width + columns.bubble)
    computed += (packs - 1) * rows.bubble * out_width
    behind = rows.flushed * out_width + columns.flushed - columns.bubble
    read = packs * rows.size * width
    reading = _late(port, read, chip.pdp_ahead, cycles, PDP_OVERHEAD)
    name = "memory" if port is chip.memory else CVSRAM
    busy = {"pooling": computed * cycles, name: reading}
    end = SINGLE_START + port.latency_cycles + max(busy.values()) + behind * cycles
    return end, busy


def _rate(chip: NvdlaConfiguration, *, through_y: bool) -> int:
    """The elements that SDP processes in a cycle."""
    return chip.rates.elementwise if through_y else chip.rates.single_point


def _pack_cycles(chip: NvdlaConfiguration, rate: int) -> float:
    """The cycles that a unit takes for a pack of channels of a pixel.

    rate: the elements that it processes in a cycle."""
    return max(1, chip.memory_atom_bytes / rate)


def _beats(chip: NvdlaConfiguration, port: NvdlaPort) -> int:
    """The beats of a port's read channel for a pack of channels of a pixel."""
    return ceil(chip.memory_atom_bytes / port.bytes_per_cycle)
