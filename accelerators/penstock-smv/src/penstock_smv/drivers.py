"""drivers: the functions of the smv driver, each with its functional model and its cycles.

The generated C calls functions of the same names, which `smv.h` declares and `smv.c` implements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from penstock.uma import Driver
from penstock_smv import models
from penstock_smv.cycles import (
    DEFAULT_TIMING,
    EngineTiming,
    convolution_cycles,
    depthwise_cycles,
    elementwise_cycles,
    fully_connected_cycles,
    load_cycles,
    pool_cycles,
    store_cycles,
)
from penstock_smv.engine import SmvEngine
from penstock_smv.operations import (
    AddTiles,
    ConvolveTile,
    DepthwiseTile,
    ElementRange,
    FullyConnectedTile,
    LoadTile,
    LookUpTile,
    MultiplyTiles,
    NormaliseTile,
    PoolTile,
    ProductScales,
    StoreTile,
    TermScales,
    TilePitches,
    WindowSteps,
)


@dataclass(frozen=True, slots=True)
class DriverModel:
    """A function of the smv driver, as the simulator sees it.

    name: name of the C function without the prefix smv_.
    model: functional model; receives the state of the engine and the record of arguments.
    cycles: returns the cycles of a call, given the timing of the engine and the record of
        arguments; None if calls take no cycles."""

    name: str
    model: Callable[[SmvEngine, Any], None]
    cycles: Callable[[EngineTiming, Any], float] | None = None


MODELS: Mapping[type, DriverModel] = {
    WindowSteps: DriverModel("window", models.set_window),
    ElementRange: DriverModel("numbers", models.set_range),
    TilePitches: DriverModel("pitches", models.set_pitches),
    TermScales: DriverModel("terms", models.set_terms),
    ProductScales: DriverModel("scaling", models.set_products),
    LoadTile: DriverModel("load", models.load, load_cycles),
    StoreTile: DriverModel("store", models.store, store_cycles),
    ConvolveTile: DriverModel("conv2d", models.conv2d, convolution_cycles),
    DepthwiseTile: DriverModel("depthwise_conv2d", models.depthwise_conv2d, depthwise_cycles),
    FullyConnectedTile: DriverModel(
        "fully_connected", models.fully_connected, fully_connected_cycles
    ),
    PoolTile: DriverModel("pool", models.pool, pool_cycles),
    AddTiles: DriverModel("add", models.add, elementwise_cycles),
    MultiplyTiles: DriverModel("mul", models.mul, elementwise_cycles),
    NormaliseTile: DriverModel("batch_norm", models.batch_norm, elementwise_cycles),
    LookUpTile: DriverModel("lookup", models.lookup, elementwise_cycles),
}
"""The driver functions by the class of their record."""


@lru_cache(maxsize=16)
def drivers(
    engine: str, sizes: tuple[int, int, int], timing: EngineTiming = DEFAULT_TIMING
) -> Mapping[type, Driver]:
    """Return the functions of the smv driver, by the class of the record of their arguments.

    For example, the class `ConvolveTile` is mapped to the function `smv_conv2d`.

    engine: name of the accelerator.
    sizes: bytes of the scratchpads of inputs, weights and outputs.
    timing: properties of the engine that determine the cycles of the functions."""
    device = partial(SmvEngine, sizes)
    return {
        record: Driver(
            f"smv_{each.name}",
            engine,
            each.model,
            device,
            each.cycles and partial(_cycles, each, timing),
        )
        for record, each in MODELS.items()
    }


def _cycles(model: DriverModel, timing: EngineTiming, engine: SmvEngine, op: object) -> float:
    """Return the cycles of a call of the driver function that `model` describes.

    timing: properties of the engine that determine the cycles.
    engine: the state of the engine, which `Driver.cycles` receives; unused.
    op: the record of the call's arguments."""
    return 0.0 if model.cycles is None else model.cycles(timing, op)
