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
    matrix_cycles,
    pool_cycles,
    softmax_cycles,
    store_cycles,
)
from penstock_smv.engine import SmvEngine
from penstock_smv.operations import (
    AddTiles,
    CompareTiles,
    ConvolveTile,
    DepthwiseTile,
    ElementRange,
    ExtremeTiles,
    FullyConnectedTile,
    HalfTile,
    LoadTile,
    LookUpTile,
    MatrixTile,
    MultiplyTiles,
    NormaliseTile,
    PoolTile,
    ProductScales,
    SelectEngine,
    SoftmaxTile,
    StoreTile,
    TermScales,
    TilePitches,
    WaitForEngines,
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
    SelectEngine: DriverModel("select", models.select),
    WaitForEngines: DriverModel("wait", models.wait),
    WindowSteps: DriverModel("window", models.set_window),
    ElementRange: DriverModel("numbers", models.set_range),
    TilePitches: DriverModel("pitches", models.set_pitches),
    TermScales: DriverModel("terms", models.set_terms),
    ProductScales: DriverModel("scaling", models.set_products),
    LoadTile: DriverModel("load", models.load, load_cycles),
    StoreTile: DriverModel("store", models.store, store_cycles),
    ConvolveTile: DriverModel("conv2d", models.conv2d, convolution_cycles),
    HalfTile: DriverModel("half_layer", models.half_layer, convolution_cycles),
    DepthwiseTile: DriverModel("depthwise_conv2d", models.depthwise_conv2d, depthwise_cycles),
    FullyConnectedTile: DriverModel(
        "fully_connected", models.fully_connected, fully_connected_cycles
    ),
    MatrixTile: DriverModel("matmul", models.matmul, matrix_cycles),
    PoolTile: DriverModel("pool", models.pool, pool_cycles),
    AddTiles: DriverModel("add", models.add, elementwise_cycles),
    MultiplyTiles: DriverModel("mul", models.mul, elementwise_cycles),
    NormaliseTile: DriverModel("batch_norm", models.batch_norm, elementwise_cycles),
    LookUpTile: DriverModel("lookup", models.lookup, elementwise_cycles),
    ExtremeTiles: DriverModel("extreme", models.extreme, elementwise_cycles),
    CompareTiles: DriverModel("compare", models.compare, elementwise_cycles),
    SoftmaxTile: DriverModel("softmax", models.softmax, softmax_cycles),
}
"""The driver functions by the class of their record."""
COPIES = (LoadTile, StoreTile)
"""The records of the functions that occupy the port to memory."""


@lru_cache(maxsize=16)
def drivers(
    engine: str,
    sizes: tuple[int, int, int],
    timing: EngineTiming = DEFAULT_TIMING,
    engines: int = 1,
) -> Mapping[type, Driver]:
    """Return the functions of the smv driver, by the class of the record of their arguments.

    For example, the class `ConvolveTile` is mapped to the function `smv_conv2d`.

    engine: name of the accelerator.
    sizes: bytes of the scratchpads of inputs, weights and outputs.
    timing: properties of the engine that determine the cycles of the functions.
    engines: the number of engines."""
    device = partial(SmvEngine, sizes, engines)
    return {
        record: Driver(
            f"smv_{each.name}",
            engine,
            each.model,
            device,
            partial(_cycles, each, timing),
        )
        for record, each in MODELS.items()
    }


def _cycles(model: DriverModel, timing: EngineTiming, engine: SmvEngine, op: object) -> float:
    """Return the cycles by which a call of the driver function that `model` describes delays the
    end of all operations so far.

    timing: properties of the engine that determine the cycles.
    engine: the state of the engines, with their clocks.
    op: the record of the call's arguments."""
    before = engine.clocks.end
    if isinstance(op, WaitForEngines):
        engine.clocks.wait()
    if model.cycles is None:
        return 0.0
    advance = engine.clocks.copy if type(op) in COPIES else engine.clocks.compute
    advance(engine.selected, model.cycles(timing, op))
    return engine.clocks.end - before
