"""Law: every attribute of an operator matters in C.

1. A kernel computes what the operator's arithmetic says, whatever value an attribute has.
2. If another value of an attribute changes the numbers of an operator whose output keeps its type,
   it also changes what the kernel computes; for every kernel that runs the operator.
3. Every attribute changes numbers or the type of the output, unless the types of the inputs or the
   other attributes determine it.
4. The samples of operators, and a few random layers, use every kernel of the runtime.

The samples are those of the operators, with every attribute replaced by other values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
from test_fields_read import KERNELS

from attributes import REFUSALS, Mutant, at, mutants, paths
from benchmarks.small_tensors import Sample, bias, int8, integers, sample, weights
from c_kernels import Library, View, rows_as_bytes, whole
from found import SAMPLES, inputs_of
from penstock.backends.cores.family import core_families, select_kernels
from penstock.ir.op import Kernel, Op, Site
from penstock.ir.tensor import Array, Data, DType, Region, TensorType, row_count
from penstock.opkit.requantise import Multipliers
from penstock.opkit.sliding import Window
from penstock.ops.conversions import QuantizeReal
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.partial_product import PartialProduct, RequantiseSums
from penstock.ops.pool import MaxPool2D
from penstock.ops.running import AverageLast, RequantiseLast, RunningMax, RunningSum
from penstock.ops.unary import Exp, Gelu
from random_layers import random_layer

THREE = Window(3, 1, 1, 1, 1)
FAR = Window(2, 5, 3, 2, 3)
"""A window that computes as many columns of six with other strides and dilations."""
SMALL = Data.of(np.arange(-400, 400, dtype=np.int32))
SUMS = TensorType((1, 1, 800, 1), DType.INT32), SMALL
"""Sums most of which are inside int8 when they are requantised."""
HALVES = TensorType((64,), DType.FLOAT32), Data.of(np.arange(-32, 32, dtype=np.float32) / 2)
EXTRA: tuple[Sample, ...] = (
    sample(DepthwiseConv2D(THREE, THREE), int8(1, 4, 5, 20), weights(1, 3, 3, 20), bias(20)),
    sample(FullyConnected(), int8(1, 4096), weights(5, 4096), bias(5)),
    sample(PartialProduct(), bias(6), int8(3, 8), weights(6, 8, axis=0)),
    sample(
        Conv2D(Window(3, 5, 1, 1, 1), Window(2, 5, 1, 1, 2)),
        int8(1, 7, 6, 4),
        weights(5, 3, 2, 4),
        bias(5),
    ),
    sample(MaxPool2D(Window(3, 5, 2, 2, 1), FAR), int8(1, 7, 6, 9)),
    sample(RunningMax(4, FAR), int8(1, 5, 6, 2)),
    sample(RunningSum(4, FAR), int8(1, 5, 6, 2)),
    sample(AverageLast((9_000, 12_000)), integers(1, 4, 2, 3)),
    sample(RequantiseLast(Multipliers.of([0.05])), SUMS),
    sample(RequantiseSums(Multipliers.of([0.05])), SUMS),
    sample(Exp(), int8(32, 32), scale=2.0),
    sample(QuantizeReal(to_even=True), HALVES, scale=1.0),
    sample(Gelu(), int8(32, 32, scale=0.03), scale=0.005, zero=-121),
)
"""Samples for kernels that those of operators and random layers do not use, and for attributes that
have no effect there, such as ties of a rounding."""
LAYERS = 40
MOST_WORK = 50_000
SEED = 5


@cache
def samples() -> Mapping[type[Op], tuple[Sample, ...]]:
    """Samples of each operator that computes something, and small random layers."""
    made: dict[type[Op], list[Sample]] = defaultdict(list)
    layers = (random_layer(number) for number in range(LAYERS))
    small = (layer for layer in layers if work(layer) < MOST_WORK)
    for each in (*(found for _, found in SAMPLES), *EXTRA, *small):
        if not each.op.ALIAS:
            made[type(each.op)].append(each)
    return {kind: tuple(some) for kind, some in made.items()}


def work(sample: Sample) -> int:
    found = sample.op.work(sample.site, Region.whole(sample.site.output.shape))
    return found.macs + found.elements


def kernels(op: Op, site: Site) -> tuple[Kernel, ...]:
    """The kernels that run an operator, one of each name: portable ones, and those of families."""
    found = [op.kernel(site)]
    for family in core_families().values():
        chosen = select_kernels(op, site, family)
        found += [chosen.kernel, *((chosen.fallback,) if chosen.fallback else ())]
    return tuple({kernel.name: kernel for kernel in found}.values())


@pytest.fixture(scope="module")
def library(host_compilers: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(set(KERNELS), host_compilers[0], tmp_path_factory.mktemp("kernels"))


@dataclass(slots=True)
class Effect:
    """What other values of an attribute change, where one kernel runs the operator before and
    after.

    numbers: by the operator's arithmetic; c: what the kernel computes.
    """

    numbers: bool = False
    c: bool = False


@dataclass(slots=True)
class Effects:
    """What other values of an attribute change.

    by_kernel: the effect on numbers, by the kernel's name; type: whether they change the type of
    the output; values: how many values were observed.
    """

    by_kernel: dict[str, Effect] = field(default_factory=lambda: defaultdict(Effect))
    type: bool = False
    values: int = 0


@pytest.mark.parametrize("kind", samples(), ids=lambda kind: kind.__name__)
def test_every_attribute_matters(library: Library, kind: type[Op]) -> None:
    some = samples()[kind]
    for path in paths(some[0].op):
        effects = Effects()
        known = [at(one.op, path) for one in some]
        for one in some:
            for mutant in mutants(one, path, known):
                observe(library, mutant, effects)
        name = f"{kind.__name__}.{'.'.join(path)}"
        ignored = [k for k, effect in effects.by_kernel.items() if effect.numbers and not effect.c]
        assert ignored == [], f"{name} changes numbers, but not what these kernels compute"
        numbers = any(effect.numbers for effect in effects.by_kernel.values())
        assert numbers or effects.type or not effects.values, f"{name} has no effect"


def observe(library: Library, mutant: Mutant, effects: Effects) -> None:
    """Checks the kernels of a mutant, and notes what it changes."""
    old, new = mutant.original, mutant.sample
    try:
        wanted = expected(new.op, new.site)
        before, after = kernels(old.op, old.site), kernels(new.op, new.site)
    except REFUSALS:
        return
    effects.values += 1
    keeps_type = old.site.output == new.site.output
    effects.type |= not keeps_type
    found = {kernel.name: computed(library, kernel, new.op, new.site) for kernel in after}
    for name, rows in found.items():
        np.testing.assert_array_equal(rows, wanted, f"{new.op} by {name}")
    numbers = keeps_type and bool((wanted != expected(old.op, old.site)).any())
    for kernel in before if numbers else ():
        if kernel.name in found:
            effect = effects.by_kernel[kernel.name]
            effect.numbers = True
            known = computed(library, kernel, old.op, old.site)
            effect.c |= bool((found[kernel.name] != known).any())


def test_samples_use_every_kernel() -> None:
    every = (one for some in samples().values() for one in some)
    used = {kernel.name for one in every for kernel in kernels(one.op, one.site)}
    assert used == set(KERNELS)


def computed(library: Library, kernel: Kernel, op: Op, site: Site) -> Array:
    """The rows of an output as a kernel computes them, as bytes."""
    inputs = inputs_of(site, SEED)
    unseen = {*kernel.folded, *(k for k, _ in kernel.constants)}
    views: list[View] = []
    for k, type in enumerate(site.inputs):
        if k not in unseen:
            views.append(View(type, whole(type)))
            views[-1].write(inputs[k], set(range(row_count(type.shape))))
    output = View(site.output, whole(site.output))
    library.run(Sample(op, site), views, output, (0, row_count(site.output.shape)), kernel)
    assert output.memory.intact, kernel.name
    return rows_as_bytes(output.memory.bytes.reshape(row_count(site.output.shape), -1))


def expected(op: Op, site: Site) -> Array:
    """The rows of an output by the operator's arithmetic, as bytes."""
    result = op.evaluate(site, inputs_of(site, SEED), Region.whole(site.output.shape))
    assert result.shape == site.output.shape
    return rows_as_bytes(result)
