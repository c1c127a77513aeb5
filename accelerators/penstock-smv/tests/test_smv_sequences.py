"""smv: loop nests in free form, which a user's tiler states as a sequence of tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import pytest

from available import TARGET
from offloading import assert_exact, claimed
from penstock.errors import BackendError, CapacityError, UsageError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.compilation import Compilation, compile_graph
from penstock.pipeline.request import Request
from penstock.uma import (
    Cut,
    Layer,
    LeastTraffic,
    Offloaded,
    Scratchpads,
    TileSequence,
    TileShape,
    TileVisit,
    Tiling,
    choose,
    choose_sequence,
    does_not_fit,
)
from penstock_smv import Smv
from penstock_smv.cost import cycles
from penstock_smv.tiling import tiling_of

HOST = load_target("host")


@dataclass(frozen=True)
class Snake(LeastTraffic):
    """Output channels from the last to the first; rows down and up; sums in any order.

    Inputs and weights hold all channels that are summed; weights stay while rows pass."""

    rows: int = 3

    def shapes(
        self, layer: Layer, scratchpads: Scratchpads, dims: frozenset[str]
    ) -> tuple[TileShape, ...]:
        sizes = {"h": self.rows, "c": 8, "sum": 32}
        return (TileShape(tuple(sizes.get(axis.name, axis.extent) for axis in layer.axes)),)

    def cut(self, layer: Layer, shape: TileShape) -> tuple[Cut, ...]:
        return shape.cuts([axis.extent for axis in layer.axes])

    def visits(self, tiling: Tiling) -> Iterator[TileVisit]:
        rows, sums = range(len(tiling.tiles["h"])), len(tiling.tiles["sum"])
        held = {"sum": (0, sums)}
        for c in reversed(range(len(tiling.tiles["c"]))):
            for h in rows if c % 2 else reversed(rows):
                for k in range(sums):
                    tile = {"h": h, "c": c, "sum": (h + 2 * k) % sums if sums % 2 else k}
                    yield TileVisit(tile, {"input 0": held, "input 1": held})


@dataclass(frozen=True)
class Shuffled(Snake):
    """Parts of the output in a random order, and the sums of each in another."""

    seed: int = 0

    def visits(self, tiling: Tiling) -> Iterator[TileVisit]:
        dice = Random(self.seed)
        parts = [
            (h, c) for h in range(len(tiling.tiles["h"])) for c in range(len(tiling.tiles["c"]))
        ]
        dice.shuffle(parts)
        for h, c in parts:
            sums = list(range(len(tiling.tiles["sum"])))
            dice.shuffle(sums)
            yield from (TileVisit({"h": h, "c": c, "sum": k}) for k in sums)


@dataclass(frozen=True)
class HeldOutput(Snake):
    """Sums outermost: the whole output stays in the scratchpad as partial sums."""

    backwards: bool = False

    def visits(self, tiling: Tiling) -> Iterator[TileVisit]:
        rows, channels = len(tiling.tiles["h"]), len(tiling.tiles["c"])
        held = {"output": {"h": (0, rows), "c": (0, channels)}}
        for k in range(len(tiling.tiles["sum"])):
            for h in range(rows):
                for c in reversed(range(channels)) if self.backwards else range(channels):
                    yield TileVisit({"h": h, "c": c, "sum": k}, held)


def convolution(outputs: int = 24) -> Graph:
    net = GraphBuilder("net")
    return net.build(net.conv2d(net.input((1, 10, 6, 96)), outputs, 3, activation="relu"))


def compiled_with(tiler: Snake, target: str = "host") -> Compilation:
    chip, smv = load_target(target), Smv()
    smv._register_tiler("nn.conv2d", tiler)
    accelerators = (smv.accelerator({}, chip),)
    return compile_graph(convolution(), Request("zoo:net", chip, accelerators=accelerators))


def sequence(done: Compilation) -> TileSequence:
    (node,) = claimed(done.graph).values()
    found = tiling_of(Offloaded(node, done.request.accelerators[0].target))
    assert isinstance(found, TileSequence)
    return found


@pytest.mark.parametrize(
    "tiler", [Shuffled(seed=1), Shuffled(rows=2, seed=2), HeldOutput(), HeldOutput(backwards=True)]
)
def test_any_order_of_tiles_and_sums_is_exact(tiler: Snake) -> None:
    done = compiled_with(tiler)
    assert sequence(done).count > 30
    assert_exact(done, "points")


def test_a_loop_nest_in_free_form_is_exact_in_c() -> None:
    done = compiled_with(Snake(), TARGET)
    found = sequence(done)
    assert [visit.tile["c"] for visit in found.visits[:13]] == [2] * 12 + [1]
    assert [v.tile["sum"] for v in found.visits[:6]] == [0, 2, 1, 2, 1, 0]
    assert_exact(done, "core")


def test_weights_are_loaded_once_per_channels_and_the_turning_row_stays() -> None:
    """By hand: weights of 8 channels for each of 3 turns; 4 tiles of rows, of which the one at a
    turn is already there: 4 + 3 + 3 loads; 12 stores."""
    found = sequence(compiled_with(Snake()))
    copies = {moved.operand.name: moved.copies for moved in found.moved}
    assert copies == {"input 0": 10, "input 1": 3, "input 2": 3, "output": 12}
    shuffled = sequence(compiled_with(Shuffled(seed=1)))
    assert shuffled.moved_bytes > found.moved_bytes


def test_cycles_are_those_of_the_operations() -> None:
    """The functional models count the same, visit by visit."""
    done = compiled_with(Snake())
    (node,) = claimed(done.graph).values()
    found = cycles(Offloaded(node, done.request.accelerators[0].target), 10)
    assert done.schedule.cost.cycles == found.cycles
    groups = 3 * 3 * 9
    assert found.by_resource["engine"] == groups * 60 + groups * 4


def test_sums_that_leave_the_scratchpad_are_refused() -> None:
    @dataclass(frozen=True)
    class Leaving(Snake):
        def visits(self, tiling: Tiling) -> Iterator[TileVisit]:
            return iter(sorted(super().visits(tiling), key=lambda visit: visit.tile["sum"]))

    smv = Smv()
    smv._register_tiler("nn.conv2d", Leaving())
    request = Request("net", HOST, accelerators=(smv.accelerator({}, HOST),))
    (left,) = assign_engines(convolution(), request).cpu_fallbacks
    assert "incomplete sums would have to be stored to memory" in left.reason


def wrong_visit(tiling: Tiling) -> Iterator[TileVisit]:
    yield TileVisit({"rows": 0})


def missing_name(tiling: Tiling) -> Iterator[TileVisit]:
    yield TileVisit({"h": len(tiling.tiles["rows"])})


def refusal(tiling: Tiling) -> Iterator[TileVisit]:
    raise does_not_fit(tiling.layer, "the author refuses it")


@dataclass(frozen=True)
class Stating(Snake):
    """Visits that a function returns."""

    function: Callable[[Tiling], Iterator[TileVisit]] = wrong_visit

    def visits(self, tiling: Tiling) -> Iterator[TileVisit]:
        return self.function(tiling)


def test_a_tiler_that_refuses_a_layer_leaves_it_to_the_processor() -> None:
    smv = Smv()
    smv._register_tiler("nn.conv2d", Stating(function=refusal))
    request = Request("net", HOST, accelerators=(smv.accelerator({}, HOST),))
    (left,) = assign_engines(convolution(), request).cpu_fallbacks
    assert "the author refuses it" in left.reason


def test_a_mistake_of_a_tiler_is_no_refusal() -> None:
    with pytest.raises(UsageError, match='axis "rows"') as wrong:
        compiled_with(Stating(function=wrong_visit))
    assert wrong.value.where.startswith("tiler Stating, layer ")
    with pytest.raises(BackendError, match="KeyError: rows") as failing:
        compiled_with(Stating(function=missing_name))
    assert "test_smv_sequences.py:" in failing.value.where


def test_tiles_of_a_sequence_partition_the_layer() -> None:
    @dataclass(frozen=True)
    class Short(Snake):
        def cut(self, layer: Layer, shape: TileShape) -> tuple[Cut, ...]:
            first, *rest = super().cut(layer, shape)
            return (first[:-1], *rest)

    with pytest.raises(UsageError, match="the tiler Short splits axis") as caught:
        compiled_with(Short())
    assert caught.value.code == "tiling-004"


def test_choose_refuses_visits_and_choose_sequence_returns_them() -> None:
    found = sequence(compiled_with(Snake()))
    layer, scratchpads = found.layer, found.scratchpads
    with pytest.raises(UsageError, match="the tiler Snake states visits") as caught:
        choose(Snake(), layer, scratchpads)
    assert caught.value.code == "tiling-010"
    assert choose_sequence(Snake(), layer, scratchpads) == found
    with pytest.raises(CapacityError, match="too slow"):
        choose_sequence(Snake(), layer, scratchpads, lambda one: ("too slow",))


def grid() -> Tiling:
    return sequence(compiled_with(Snake(rows=5))).grid


Visits = tuple[TileVisit, ...]
WRONG: tuple[tuple[Callable[[Visits], Visits], str], ...] = (
    (lambda visits: visits[1:], "1 tiles are not visited"),
    (lambda visits: (*visits, visits[0]), "is visited 2 times"),
    (lambda visits: (*visits, TileVisit({"h": 9})), "does not exist"),
    (lambda visits: (*visits, TileVisit({"d": 0})), 'names the axis "d"'),
    (lambda visits: (replace(visits[0], held={"x": {}}), *visits[1:]), 'holds "x"'),
    (
        lambda visits: (replace(visits[0], held={"output": {"c": (0, 1)}}), *visits[1:]),
        'of tile 2 along "c" holds tiles [0, 1) of 3',
    ),
)


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_visits_that_are_wrong_are_errors(change: Callable[[Visits], Visits], message: str) -> None:
    tiling = grid()
    with pytest.raises(UsageError) as caught:
        TileSequence(tiling, change(tuple(Snake(rows=5).visits(tiling))))
    assert message in caught.value.what
