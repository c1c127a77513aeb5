"""overlap: convolutions that are fetched while the one before runs.

The hardware layers of packs of channels overlap, and so do those of rows.  A convolution is
therefore divided by rows into more layers than it needs where this takes fewer cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from penstock_nvdla.cut import LATE_CYCLES, Convolution, hardware_layers
from penstock_nvdla.layer import (
    WEIGHT_ROOM_BYTES,
    BankSplit,
    ConvolutionLayer,
    ResidentWeights,
    allocate,
    fits_beside,
)
from penstock_nvdla.sizes import LayerTraffic, traffic_of_convolution
from penstock_nvdla.timing import layer_timing

PARTS = (2, 3, 4, 6, 8, 12)  # The numbers of layers into which a convolution may be divided.
MOST_PACKS = 3  # The packs of channels whose cycles are compared; the others take as long.


def overlapping(layers: Sequence[ConvolutionLayer]) -> tuple[ConvolutionLayer, ...]:
    """Return consecutive layers with banks such that each can be fetched while the one before runs,
    or nothing if memory is not late, or if the buffer has no space for that."""
    chip = layers[0].hardware
    if len(layers) == 1 or chip.memory.latency_cycles < LATE_CYCLES:
        return ()
    weight_bytes = max(a.weight_bytes + b.fetched_weight_bytes for a, b in pairwise(layers))
    weight_banks = -(-(weight_bytes + WEIGHT_ROOM_BYTES) // chip.bank_bytes)
    data_banks = chip.banks - weight_banks
    if data_banks < max(layer.data_banks for layer in layers):
        return ()
    found = tuple(
        replace(layer, data_banks=data_banks, weight_banks=weight_banks) for layer in layers
    )
    return found if all(fits_beside(*pair) for pair in pairwise(found)) else ()


def divided(
    convolution: Convolution, table_bytes: int = 0, packs: int = 1, *, through_y: bool = False
) -> tuple[ConvolutionLayer, ...]:
    """Return the hardware layers that compute a convolution, in order: as many as take the fewest
    cycles.

    table_bytes: the size of the operands of SDP.
    packs: the number of such convolutions, one for each pack of channels, that overlap.
    through_y: whether SDP's unit Y is used.

    Raises the errors of `hardware_layers`."""
    source, output = (
        replace(surface, address=0) for surface in (convolution.source, convolution.output)
    )
    anywhere = replace(convolution, source=source, output=output, weight_address=0)
    return hardware_layers(convolution, _quickest(anywhere, table_bytes, packs, through_y))


def divided_cycles(
    convolution: Convolution, table_bytes: int, packs: int, *, through_y: bool
) -> int:
    """Return the cycles of the layers of `divided`, for as many convolutions as there are packs but
    at most `MOST_PACKS`, in the sum of those with their input in each of the memories."""
    layers = divided(convolution, table_bytes, packs, through_y=through_y)
    layers *= min(packs, MOST_PACKS)
    return _cycles(layers, table_bytes, through_y=through_y)


@lru_cache(maxsize=4096)
def _quickest(convolution: Convolution, table_bytes: int, packs: int, through_y: bool) -> BankSplit:
    """The allocation of the convolution buffer with which a convolution takes the fewest cycles."""
    demand = convolution.demand
    split, height = allocate(demand), demand.height
    if split.weights is not ResidentWeights.ALL:
        return split

    def layers(one: BankSplit) -> tuple[ConvolutionLayer, ...]:
        return hardware_layers(convolution, one) * min(packs, MOST_PACKS)

    late = convolution.hardware.memory.latency_cycles >= LATE_CYCLES
    best, least = split, _cycles(layers(split), table_bytes, through_y=through_y) if late else 0
    for part in PARTS:
        rows = -(-height // part) + split.overlap
        if late and part <= convolution.out_height and rows <= split.rows:
            one = replace(split, rows=rows, data_banks=demand.data_banks(rows))
            taken = _cycles(layers(one), table_bytes, through_y=through_y)
            if taken < least:
                best, least = one, taken
            elif overlapping(layers(one)):
                break  # nor do more layers take fewer cycles
    return best


def _cycles(layers: tuple[ConvolutionLayer, ...], table_bytes: int, *, through_y: bool) -> int:
    """The cycles of consecutive layers, in the sum of those with their input in each memory."""
    chip, found, overlap = layers[0].hardware, 0, overlapping(layers)
    every = [
        (replace(layer, through_y=True) if through_y else layer, replace(moved, table=table_bytes))
        for layer in overlap or layers
        for moved in (traffic_of_convolution(layer, chip.memory_atom_bytes),)
    ]
    for inside in (False, True)[: 1 + (chip.sram is not None)]:
        before = None
        for layer, moved in every:
            second_port = LayerTraffic(features=moved.features * inside)
            taken, _, before = layer_timing(
                chip, layer, moved, second_port, before if overlap else None
            )
            found += taken
    return found
