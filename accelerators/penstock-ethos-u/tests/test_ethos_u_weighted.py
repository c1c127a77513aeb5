"""Law: convolutions and depthwise convolutions of Vela's API, run by the functional model, are what
plain loops make of the same elements: any window, padding, type, layout, tiles and order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ethos_u_judge import limited, scaled, taps, upscaled
from ethos_u_layers import Stage, accelerators, api, compared, cuts, layouts
from strategies import seeds


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    """A kernel, its stride, dilation and padding, and an output's height and width, for which the
    input has rows and columns."""
    found: dict[str, Any] = {}
    for axis in "yx":
        size = draw(st.sampled_from((1, 1, 2, 3, 3, 4, 5, 9)))
        stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        reach = (size - 1) * dilation + 1
        before, after = draw(st.integers(0, reach - 1)), draw(st.integers(0, reach - 1))
        least = max(1, -(-(before + after + 1 - reach) // stride) + 1)
        out = least + draw(st.integers(0, 4))
        extent = (out - 1) * stride + reach - before - after
        found[axis] = (size, stride, dilation, before, after, out, extent)
    return found


def with_window(operation: Any, of: dict[str, Any]) -> None:
    y, x = of["y"], of["x"]
    operation.kernel = api.NpuKernel(x[0], y[0], x[1], y[1], x[2], y[2])
    operation.padding = api.NpuPadding(top=y[3], left=x[3], bottom=y[4], right=x[4])


def at_taps(of: dict[str, Any], i: int, j: int) -> Any:
    both = tuple(zip(of["y"], of["x"], strict=True))
    size, stride, dilation, before, _, _, extent = both
    return taps((i, j), size, stride, dilation, before, extent)


def drawn_scales(data: st.DataObject, channels: int) -> list[tuple[int, int, int]]:
    one = st.tuples(st.integers(-5000, 5000), st.integers(1 << 30, (1 << 31) - 1),
                    st.integers(29, 45))  # fmt: skip
    return data.draw(st.lists(one, min_size=channels, max_size=channels))


@given(data=st.data(), of=windows(), accelerator=accelerators, seed=seeds)
def test_a_convolution(
    data: st.DataObject, of: dict[str, Any], accelerator: str, seed: int
) -> None:
    stage = Stage(accelerator, seed)
    upscale = data.draw(st.sampled_from(("NONE", "NONE", "NEAREST", "TRANSPOSE")))
    extent = (of["y"][6], of["x"][6])
    size = tuple(-(-n // 2) for n in extent) if upscale != "NONE" else extent
    depth, channels = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 36))
    dtype = data.draw(st.sampled_from(("INT8", "INT8", "UINT8", "INT16")))
    zero, out_zero = (0, 0) if dtype == "INT16" else data.draw(st.tuples(*[st.integers(0, 99)] * 2))
    shape, out = (*size, depth), (of["y"][5], of["x"][5], channels)
    op = api.NpuConv2DOperation()
    op.ifm = stage.map(shape, dtype, data.draw(layouts), zero, cut=data.draw(cuts(shape)))
    op.ofm = stage.map(out, dtype, data.draw(layouts), out_zero, cut=data.draw(cuts(out)))
    op.block_traversal = data.draw(st.sampled_from(tuple(api.NpuBlockTraversal)))
    op.rounding_mode = data.draw(st.sampled_from(tuple(api.NpuRoundingMode)))
    op.ifm_upscale = api.NpuResamplingMode[upscale]
    if dtype == "INT16":
        op.accumulator_type = api.NpuAccumulatorType.Int40
    with_window(op, of)
    image = upscaled(stage.filled(op.ifm), upscale, zero)
    stage.add(op, data.draw(st.integers(0, 99)))
    kernel = stage.rng.integers(-127, 128, (channels, of["y"][0], of["x"][0], depth))
    stage.weights(op, kernel, op.ifm.data_type.size_in_bits())
    scales = drawn_scales(data, channels)
    stage.biases(op, scales)
    stage.run()
    weights, mode, limits = kernel.tolist(), op.rounding_mode.name, op.ofm.data_type

    def element(i: int, j: int, c: int) -> int:
        bias, scale, shift = scales[c]
        total = bias + sum(
            (image[y][x][d] - zero) * weights[c][k][m][d]
            for k, m, y, x in at_taps(of, i, j)
            for d in range(depth)
        )
        value = scaled(total, scale, shift, mode) + out_zero
        return limited(value, limits.min_value(), limits.max_value())

    compared(stage, op.ofm, element)


@given(data=st.data(), of=windows(), accelerator=accelerators, seed=seeds)
def test_a_depthwise_convolution(
    data: st.DataObject, of: dict[str, Any], accelerator: str, seed: int
) -> None:
    stage = Stage(accelerator, seed)
    channels, zero = data.draw(st.integers(1, 36)), data.draw(st.integers(-128, 127))
    shape, out = (of["y"][6], of["x"][6], channels), (of["y"][5], of["x"][5], channels)
    op = api.NpuConvDepthWiseOperation()
    op.ifm = stage.map(shape, "INT8", data.draw(layouts), zero, cut=data.draw(cuts(shape)))
    op.ofm = stage.map(out, "INT8", data.draw(layouts), 7, cut=data.draw(cuts(out)))
    with_window(op, of)
    op.activation = api.NpuActivation(api.NpuActivationOp.NONE_OR_RELU)
    op.activation.min, op.activation.max = 0.0, 90.0
    image = stage.filled(op.ifm)
    stage.add(op, data.draw(st.integers(0, 99)))
    kernel = stage.rng.integers(-255, 256, (channels, of["y"][0], of["x"][0], 1))
    stage.weights(op, kernel)
    scales = drawn_scales(data, channels)
    stage.biases(op, scales)
    stage.run()
    weights = kernel.tolist()

    def element(i: int, j: int, c: int) -> int:
        bias, scale, shift = scales[c]
        total = bias + sum(
            (image[y][x][c] - zero) * weights[c][k][m][0] for k, m, y, x in at_taps(of, i, j)
        )
        return limited(scaled(total, scale, shift, "TFL") + 7, 7, 97)

    compared(stage, op.ofm, element)
