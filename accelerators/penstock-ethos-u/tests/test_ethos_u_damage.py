"""Law: a damaged command stream for Ethos-U runs or is refused with an ordinary error."""

from __future__ import annotations

import contextlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ethos_u_layers import Stage, api, layouts
from penstock.uma import PenstockError
from penstock_ethos_u.interpreter import disassemble
from strategies import seeds


def layers(stage: Stage, layout: str) -> None:
    """A copy, a convolution, a sum and a pooling."""
    maps = [stage.map((6, 6, 20), layout=layout, scale=0.5) for _ in range(4)]
    source = api.NpuAddressRange(0, 4096, 64)
    stage.add(api.NpuDmaOperation(source, api.NpuAddressRange(1, 0, 64)))
    conv = api.NpuConv2DOperation()
    conv.ifm, conv.ofm = maps[:2]
    conv.kernel, conv.padding = api.NpuKernel(3, 3), api.NpuPadding(1, 1, 1, 1)
    stage.add(conv)
    stage.weights(conv, stage.rng.integers(-9, 10, (20, 3, 3, 20)))
    stage.biases(conv, [(1, 1 << 30, 34)] * 20)
    total = api.NpuElementWiseOperation(api.NpuElementWiseOp.ADD)
    total.ifm, total.ifm2, total.ofm = maps[:3]
    stage.add(total)
    pool = api.NpuPoolingOperation(api.NpuPoolingOp.AVERAGE)
    pool.ifm, pool.ofm = maps[2:]
    pool.kernel, pool.padding = api.NpuKernel(3, 3), api.NpuPadding(1, 1, 1, 1)
    stage.add(pool)


@given(data=st.data(), layout=layouts, seed=seeds)
def test_a_damaged_stream_runs_or_is_refused(data: st.DataObject, layout: str, seed: int) -> None:
    stage = Stage("ethos-u65-256", seed)
    layers(stage, layout)
    words = stage.stream()
    stage.run(words)
    for _ in range(4):
        damaged = list(words)
        for _ in range(data.draw(st.integers(1, 3))):
            damaged[int(stage.rng.integers(len(words)))] ^= 1 << int(stage.rng.integers(32))
        with contextlib.suppress(PenstockError):
            stage.run(damaged)
        with contextlib.suppress(PenstockError):
            disassemble(np.array(damaged, "<u4").tobytes())
