"""Law: on every simulated core, whatever kernel serves a random layer computes the reference.

`--layers COUNT` says how many; views lie at odd addresses, as whole tensors, rings or row by row.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.small_tensors import Sample
from c_header import RUNTIME
from c_kernels import View, ring_of, row_region, rows_as_bytes, rows_of, table_of
from c_kernels import whole as whole_layout
from core_kernels import CoreLibrary
from found import elements
from penstock.backends.cores.family import core_family, select_kernels
from penstock.hardware.load import load_target
from penstock.ir.tensor import Region, TensorType, row_count
from random_layers import random_layer

PORTABLE = (
    *("conv2d_s8", "depthwise_conv2d_s8", "fully_connected_s8", "add_s8", "mul_s8"),
    *("average_pool2d_s8", "max_pool2d_s8", "lookup_s8"),
)
SPECIAL = (
    *("conv2d_s8", "conv2d_direct_s8", "conv2d_groups_s8", "depthwise_conv2d_s8"),
    *("fully_connected_s8", "fully_connected_forms_s8"),
    *("add_s8", "mul_s8", "pool2d_s8"),
)
TARGETS = ("cortex-m0plus", "cortex-m4", "cortex-m33")


@pytest.mark.parametrize("name", TARGETS)
def test_random_layers(
    name: str, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for extra in ("ziglang", "unicorn"):
        pytest.importorskip(extra, reason="the extra 'simulate' is not installed")
    kernels = load_target(name).engines[0].kernels
    special = (f"{each}_{kernels}" for each in SPECIAL)
    there = (each for each in special if (RUNTIME / f"{each}.h").is_file())
    core = CoreLibrary((*PORTABLE, *there), tmp_path_factory.mktemp(name), name)
    for number in range(pytestconfig.getoption("--layers")):
        _check(core, kernels, random_layer(number), number)


def _check(core: CoreLibrary, kernels: str, layer: Sample, number: int) -> None:
    """Some rows of a layer, or all of them, in views of some layout."""
    rng, site, op = np.random.default_rng([number, 1]), layer.site, layer.op
    selected = select_kernels(op, site, core_family(kernels))
    fallback = selected.fallback
    kernel = selected.kernel if fallback is None or rng.integers(2) else fallback
    count = row_count(site.output.shape)
    lower, upper = 0, count
    if kernel.by_rows and rng.integers(2):
        lower = int(rng.integers(count))
        upper = int(rng.integers(lower, count)) + 1
    values = [
        elements(type, number + k) if constant is None else site.constant(k)
        for k, (type, constant) in enumerate(zip(site.inputs, site.constants, strict=True))
    ]
    regions = [row_region(site.output.shape, row) for row in range(lower, upper)]
    inputs: list[View] = []
    unseen = {*kernel.folded, *(k for k, _ in kernel.constants)}
    for k, type in enumerate(site.inputs):
        if k in unseen:
            continue
        rows = set().union(*(rows_of(type.shape, op.needs(site, r)[k]) for r in regions))
        view = _view(type, rows, kernel.by_rows, rng)
        view.write(values[k], rows)
        inputs.append(view)
    output = _view(site.output, set(range(lower, upper)), kernel.by_rows, rng)
    core.run(kernel, inputs, output, (lower, upper), site)
    assert output.memory.intact
    expected = rows_as_bytes(op.evaluate(site, tuple(values), Region.whole(site.output.shape)))
    for row in range(lower, upper):
        found = output.row(row)
        assert (found == expected[row]).all(), f"layer {number}, row {row}: {op}, {kernel.name}"


def _view(type: TensorType, rows: set[int], by_rows: bool, rng: np.random.Generator) -> View:
    style = rng.integers(3) if by_rows else 0
    if style == 1:
        return View(type, ring_of(type, sorted(rows), gap_bytes=int(rng.integers(4))))
    return View(type, table_of(type, sorted(rows), rng) if style else whole_layout(type))
