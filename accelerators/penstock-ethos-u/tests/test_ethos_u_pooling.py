"""Law: poolings of Vela's API on the functional model equal plain loops over the same elements."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethos_u_judge import half_away, limited, taps, upscaled
from ethos_u_layers import Stage, accelerators, api, compared, cuts, layouts
from strategies import seeds


@st.composite
def sides(draw: st.DrawFn, padded: bool) -> tuple[int, int, int, int, int, int]:
    """Of a window and its input: size, stride, padding before and after, output, input."""
    size, stride = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    most = size - 1 if padded else 0
    before, after = draw(st.integers(0, most)), draw(st.integers(0, most))
    least = max(1, -(-(before + after + 1 - size) // stride) + 1)
    out = least + draw(st.integers(0, 4))
    return size, stride, before, after, out, (out - 1) * stride + size - before - after


def pooling(stage: Stage, data: st.DataObject, kind: str, of: Any, upscale: str = "NONE") -> Any:
    """A pooling with windows of two sides, of 8 bits; zero points as TFLite has them, equal."""
    y, x = of
    depth = data.draw(st.integers(1, 36))
    dtype = data.draw(st.sampled_from(("INT8", "UINT8")))
    size = (y[5], x[5]) if upscale == "NONE" else (-(-y[5] // 2), -(-x[5] // 2))
    shape, out = (*size, depth), (y[4], x[4], depth)
    op = api.NpuPoolingOperation(api.NpuPoolingOp[kind])
    op.ifm = stage.map(shape, dtype, data.draw(layouts), 0, 1.0, data.draw(cuts(shape)))
    op.ofm = stage.map(out, dtype, data.draw(layouts), 0, 1.0, data.draw(cuts(out)))
    op.kernel = api.NpuKernel(x[0], y[0], x[1], y[1])
    op.padding = api.NpuPadding(top=y[2], left=x[2], bottom=y[3], right=x[3])
    op.ifm_upscale = api.NpuResamplingMode[upscale]
    return op


def elements_under(image: Any, of: Any, i: int, j: int, c: int) -> list[int]:
    size, stride, before, _, _, extent = zip(*of, strict=True)
    return [image[y][x][c] for _, _, y, x in taps((i, j), size, stride, (1, 1), before, extent)]


@given(data=st.data(), of=st.tuples(*[sides(padded=True)] * 2), accelerator=accelerators,
       seed=seeds)  # fmt: skip
def test_the_greatest_of_a_window(
    data: st.DataObject, of: Any, accelerator: str, seed: int
) -> None:
    stage = Stage(accelerator, seed)
    upscale = data.draw(st.sampled_from(("NONE", "NEAREST")))
    op = pooling(stage, data, "MAX", of, upscale)
    image = upscaled(stage.filled(op.ifm), upscale, 0)
    stage.add(op, data.draw(st.integers(0, 99)))
    stage.run()
    compared(stage, op.ofm, lambda i, j, c: max(elements_under(image, of, i, j, c)))


@pytest.mark.parametrize("padded", [False, True])
@given(data=st.data(), accelerator=accelerators, seed=seeds)
def test_the_mean_of_a_window_is_of_its_own_elements(
    padded: bool, data: st.DataObject, accelerator: str, seed: int
) -> None:
    stage = Stage(accelerator, seed)
    of = data.draw(st.tuples(*[sides(padded)] * 2))
    op = pooling(stage, data, "AVERAGE", of)
    image = stage.filled(op.ifm)
    stage.add(op, data.draw(st.integers(0, 99)))
    stage.run()

    def element(i: int, j: int, c: int) -> int:
        found = elements_under(image, of, i, j, c)
        return half_away(Fraction(sum(found), len(found)))

    compared(stage, op.ofm, element)


@given(data=st.data(), accelerator=accelerators, seed=seeds)
def test_the_sum_of_all_channels(data: st.DataObject, accelerator: str, seed: int) -> None:
    stage = Stage(accelerator, seed)
    height, width, depth = data.draw(st.tuples(*[st.integers(1, 9)] * 2, st.integers(1, 70)))
    dtype = data.draw(st.sampled_from(("INT8", "INT16", "INT32")))
    op = api.NpuPoolingOperation(api.NpuPoolingOp.REDUCE_SUM)
    op.ifm = stage.map((height, width, depth), dtype)
    op.ofm = stage.map((height, width, 1), "INT32")
    op.kernel, op.padding = api.NpuKernel(1, 1), api.NpuPadding(0, 0, 0, 0)
    drawn = stage.rng.integers(-(1 << 20), 1 << 20, (height, width, depth)).tolist()
    image = stage.filled(op.ifm, drawn if dtype == "INT32" else None)
    stage.add(op, data.draw(st.integers(0, 99)))
    stage.run()
    compared(stage, op.ofm, lambda i, j, _: limited(sum(image[i][j]), -(1 << 31), (1 << 31) - 1))
