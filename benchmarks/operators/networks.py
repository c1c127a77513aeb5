"""Random networks: branches, residuals, concatenations, broadcasts and several outputs, of layers
with random strides, dilations, multipliers, paddings, scales and zero points.

A network grows from one or two inputs: each step adds an operator that reads values drawn among
all those so far, the latest more often.  Scales keep results about as large
as inputs, so that few elements saturate and a wrong element anywhere reaches an output.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from benchmarks.operators.drawing import Drawing, Drawn, Shape
from benchmarks.operators.weighted import bias_of, random_weights
from benchmarks.operators.windows import Sliding, sliding
from tools.tflite_writer import TensorSpec

MOST_ELEMENTS = 3000
"""Of one tensor."""


class Growth:
    """A network under construction; `known` are the images that later operators may read."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.d = Drawing(rng)
        self.known: list[int] = []

    def pick(self) -> int:
        """An image; the latest half of the time."""
        return self.known[-1] if self.d.chance(0.5) else self.d.choose(*self.known)

    def keep(self, index: int) -> None:
        self.known.append(index)

    def scale(self, like: float) -> float:
        """A scale near another, sometimes exactly a simple multiple of it."""
        factor = self.d.choose(1.0, 2.0, 1.5, *(2.0 ** self.d.rng.uniform(-0.7, 0.7),) * 5)
        return float(np.float32(like * factor))

    def result(self, shape: Shape, scale: float, activation: str = "NONE") -> int:
        """An output whose zero point leaves room for what the activation lets through."""
        most = 100 if activation == "NONE" else 0
        zero_point = self.d.choose(-128, self.d.integer(-100, most), self.d.integer(-100, most))
        return self.d.output(shape, self.scale(scale), zero_point)

    def requantised(self, x: int, like: int) -> int:
        """The value with another's scale and zero point, as a concatenation demands."""
        a, b = self.d.tensors[x], self.d.tensors[like]
        if (a.scales, a.zero_points) == (b.scales, b.zero_points):
            return x
        y = self.d.same(a.shape, like)
        self.d.operator("QUANTIZE", (x,), y)
        return y


def convolution(g: Growth) -> None:
    x = g.pick()
    shape = g.d.shape_of(x)
    window = _window(g, shape, most=4, dilated=True)
    _weighted(g, "CONV_2D", x, window, (g.d.integer(1, 12), shape[3]))


def pointwise(g: Growth) -> None:
    x = g.pick()
    window = Sliding(1, 1, (1, 1), (1, 1), "SAME")
    _weighted(g, "CONV_2D", x, window, (g.d.integer(1, 16), g.d.shape_of(x)[3]))


def depthwise(g: Growth) -> None:
    x = g.pick()
    shape = g.d.shape_of(x)
    window = _window(g, shape, most=4, dilated=True)
    multiplier = g.d.choose(1, 1, 1, 2, 3) if shape[3] <= 8 else 1
    _weighted(g, "DEPTHWISE_CONV_2D", x, window, (multiplier * shape[3], 1))


def _window(g: Growth, shape: Shape, most: int, dilated: bool) -> Sliding:
    """A window that leaves something of a small image."""
    while True:
        window = sliding(g.d, shape[1], shape[2], dilated, most)
        if min(shape[1:3]) > 4 or window.stride == (1, 1):
            return window


def _weighted(
    g: Growth, name: str, x: int, window: Sliding, channels: tuple[int, int], residual: bool = False
) -> int:
    """A layer of `channels` outputs, each of so many inputs; its result."""
    d, shape = g.d, g.d.shape_of(x)
    outputs, depth = channels
    is_depthwise = name == "DEPTHWISE_CONV_2D"
    extents = (window.height, window.width)
    w_shape = (1, *extents, outputs) if is_depthwise else (outputs, *extents, depth)
    axis = 3 if is_depthwise else 0
    w = _weights(d, w_shape, axis, taps=window.height * window.width * depth)
    b = bias_of(d, x, w, outputs, limit=2000)
    activation = d.choose("NONE", "NONE", "RELU", "RELU6")
    result = (shape[0], *window.outputs(shape[1], shape[2]), outputs)
    y = g.result(result, d.scale_of(x), activation)
    options = window.options()
    options["fused_activation_function"] = activation
    if is_depthwise:
        options["depth_multiplier"] = outputs // shape[3]
    d.operator(name, (x, w, b), y, **options)
    if not residual:
        g.keep(y)
    return y


def _weights(d: Drawing, shape: Shape, axis: int, taps: int) -> int:
    """Weights of similar scales along an axis, or of one scale, with which results are about as
    large as inputs."""
    count = shape[axis] if d.chance(0.8) else 1
    exponents = d.rng.uniform(-1, 1, count)
    scales = tuple(float(np.float32(2.0**e / (60 * taps**0.5))) for e in exponents)
    data = random_weights(d, shape)
    spec = TensorSpec(
        f"w{len(d.tensors)}", shape, "int8", scales, (0,) * count, axis * (count > 1), data
    )
    return d.tensor(spec)


def pool(g: Growth) -> None:
    x = g.pick()
    shape = g.d.shape_of(x)
    window = _window(g, shape, most=3, dilated=False)
    y = g.d.same((shape[0], *window.outputs(shape[1], shape[2]), shape[3]), x)
    g.d.operator(
        g.d.choose("MAX_POOL_2D", "AVERAGE_POOL_2D"),
        (x,),
        y,
        **window.options(),
        filter_height=window.height,
        filter_width=window.width,
        fused_activation_function="NONE",
    )
    g.keep(y)


def pad(g: Growth) -> None:
    x = g.pick()
    shape = g.d.shape_of(x)
    pairs = [(0, 0), *((g.d.integer(0, 2), g.d.integer(0, 2)) for _ in range(2)), (0, 0)]
    wide = tuple(n + sum(pair) for n, pair in zip(shape, pairs, strict=True))
    y = g.d.same(wide, x)
    operands = [x, g.d.constant(pairs)]
    if g.d.chance(0.6):
        spec = g.d.tensors[x]
        value = np.array(g.d.choose(-128, g.d.integer(-128, 127)), np.int8)
        fill = TensorSpec("fill", (), "int8", spec.scales, spec.zero_points, data=value)
        operands.append(g.d.tensor(fill))
    g.d.operator("PAD" if len(operands) == 2 else "PADV2", tuple(operands), y)
    g.keep(y)


def residual(g: Growth) -> None:
    """A layer that keeps the shape, and the sum of its input and result."""
    x = g.pick()
    size = g.d.choose(1, 3)
    window = Sliding(size, size, (1, 1), (1, 1), "SAME")
    channels = g.d.shape_of(x)[3]
    inner = _weighted(g, "CONV_2D", x, window, (channels, channels), residual=True)
    _pair(g, "ADD", x, inner)


def pair(g: Growth) -> None:
    """A sum, difference or product of a value with one of its shape, or with a channel each."""
    x = g.pick()
    shape = g.d.shape_of(x)
    alike = [k for k in g.known if g.d.shape_of(k) == shape]
    if g.d.chance(0.3):
        other = _constant(g, x, g.d.choose((shape[3],), (1, 1, 1, shape[3]), (1, 1, 1, 1)))
    else:
        other = g.d.choose(*alike)
    _pair(g, g.d.choose("ADD", "ADD", "SUB", "MUL"), x, other)


def gate(g: Growth) -> None:
    """Squeeze and excite: a mean of each channel stretches over the image."""
    x = g.pick()
    shape = g.d.shape_of(x)
    mean = g.result((shape[0], 1, 1, shape[3]), g.d.scale_of(x))
    g.d.operator("MEAN", (x, g.d.constant([1, 2])), mean, keep_dims=True)
    gated = g.d.output(g.d.shape_of(mean), 1 / 256, -128)
    g.d.operator("LOGISTIC", (mean,), gated)
    _pair(g, "MUL", x, gated)


def _constant(g: Growth, x: int, shape: Shape) -> int:
    data = g.d.rng.integers(-128, 128, shape).astype(np.int8)
    spec = g.d.tensors[x]
    name = f"k{len(g.d.tensors)}"
    return g.d.tensor(
        TensorSpec(name, shape, "int8", spec.scales, (g.d.integer(-128, 127),), data=data)
    )


def _pair(g: Growth, name: str, a: int, b: int) -> None:
    largest = max(g.d.scale_of(a), g.d.scale_of(b))
    scale = g.d.scale_of(a) * g.d.scale_of(b) * 100 if name == "MUL" else largest * 1.3
    activation = g.d.choose("NONE", "RELU", "RELU6")
    y = g.result(g.d.shape_of(a), scale, activation)
    g.d.operator(name, (a, b), y, fused_activation_function=activation)
    g.keep(y)


def concatenation(g: Growth) -> None:
    """Values of one size joined along channels, or twice the same along rows or columns."""
    x = g.pick()
    shape = g.d.shape_of(x)
    axis = g.d.choose(3, 3, 1, 2)

    def fits(k: int) -> bool:
        other = g.d.shape_of(k)
        return all(a == axis or other[a] == shape[a] for a in range(4))

    others = [k for k in g.known if fits(k)]
    parts = [x, *(g.d.choose(*others) for _ in range(g.d.integer(1, 2)))]
    parts = [g.requantised(k, x) for k in parts]
    extent = sum(g.d.shape_of(k)[axis] for k in parts)
    y = g.d.same((*shape[:axis], extent, *shape[axis + 1 :]), x)
    g.d.operator("CONCATENATION", tuple(parts), y, axis=axis, fused_activation_function="NONE")
    g.keep(y)


def unary(g: Growth) -> None:
    x = g.pick()
    name = g.d.choose("RELU", "LEAKY_RELU", "TANH", "LOGISTIC", "HARD_SWISH", "QUANTIZE")
    fixed = {"TANH": (1 / 128, 0), "LOGISTIC": (1 / 256, -128)}
    if name in fixed:
        y = g.d.output(g.d.shape_of(x), *fixed[name])
    else:
        y = g.result(g.d.shape_of(x), g.d.scale_of(x))
    if name == "LEAKY_RELU":
        g.d.operator(name, (x,), y, alpha=g.d.choose(0.1, 0.3, -0.5))
    else:
        g.d.operator(name, (x,), y)
    g.keep(y)


def clamp(g: Growth) -> None:
    """A value clamped in its own quantisation, and at times its sum with itself unclamped."""
    x = g.pick()
    y = g.d.same(g.d.shape_of(x), x)
    g.d.operator(g.d.choose("RELU", "RELU6"), (x,), y)
    g.keep(y)
    if g.d.chance(0.5):
        _pair(g, "ADD", x, y)


def resize(g: Growth) -> None:
    x = g.pick()
    shape = g.d.shape_of(x)
    size = (shape[1] * 2, shape[2] * 2)
    y = g.d.same((shape[0], *size, shape[3]), x)
    name = g.d.choose("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
    g.d.operator(
        name, (x, g.d.constant(size)), y, align_corners=False, half_pixel_centers=g.d.chance(0.5)
    )
    g.keep(y)


def crop(g: Growth) -> None:
    x = g.pick()
    shape = g.d.shape_of(x)
    starts = [0, g.d.integer(0, (shape[1] - 1) // 2), g.d.integer(0, (shape[2] - 1) // 2), 0]
    cut = [0, g.d.integer(0, shape[1] // 4), g.d.integer(0, shape[2] // 4), 0]
    ends = [n - k for n, k in zip(shape, cut, strict=True)]
    steps = [1, g.d.choose(1, 1, 2), g.d.choose(1, 1, 2), 1]
    kept = tuple(-(-(e - s) // k) for s, e, k in zip(starts, ends, steps, strict=True))
    y = g.d.same(kept, x)
    masks = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0}
    operands = (x, g.d.constant(starts), g.d.constant(ends), g.d.constant(steps))
    g.d.operator("STRIDED_SLICE", operands, y, **masks, shrink_axis_mask=0)
    g.keep(y)


def classifier(g: Growth) -> None:
    """Mean, scores, and often probabilities: an output."""
    x, d = g.pick(), g.d
    shape = d.shape_of(x)
    mean = g.result((shape[0], shape[3]), d.scale_of(x))
    d.operator("MEAN", (x, d.constant([1, 2])), mean, keep_dims=False)
    outputs = d.integer(2, 10)
    w = _weights(d, (outputs, shape[3]), 0, taps=shape[3])
    b = bias_of(d, mean, w, outputs, limit=2000)
    scores = g.result((shape[0], outputs), d.scale_of(mean))
    d.operator("FULLY_CONNECTED", (mean, w, b), scores, fused_activation_function="NONE")
    if d.chance(0.7):
        d.operator("SOFTMAX", (scores,), d.output((shape[0], outputs), 1 / 256, -128), beta=1.0)


STEPS: tuple[Callable[[Growth], None], ...] = (
    *(convolution,) * 4,
    *(depthwise,) * 3,
    *(pointwise,) * 2,
    *(residual,) * 2,
    *(pair,) * 2,
    *(concatenation,) * 2,
    *(pool,) * 2,
    *(pad, clamp) * 2,
    *(gate, unary, resize, crop),
)


def draw_network(seed: int, number: int) -> Drawn:
    """Network `number`; the same arguments draw the same network everywhere."""
    attempt = 0
    while True:
        rng = np.random.default_rng([zlib.crc32(b"network"), seed, number, attempt])
        drawn = _grown(rng)
        if all(t.data is not None or np.prod(t.shape) <= MOST_ELEMENTS for t in drawn.tensors):
            return drawn
        attempt += 1


def _grown(rng: np.random.Generator) -> Drawn:
    g = Growth(rng)
    shape = (1, g.d.integer(5, 16), g.d.integer(5, 16), g.d.integer(1, 6))
    for _ in range(g.d.choose(1, 1, 1, 2)):
        g.keep(g.d.input(shape, scale=float(np.float32(2.0 ** g.d.rng.uniform(-7, -3)))))
    while len(g.d.operators) < len(g.d.inputs):  # every input is read
        x = g.d.inputs[len(g.d.operators)]
        window = _window(g, shape, most=4, dilated=True)
        _weighted(g, "CONV_2D", x, window, (g.d.integer(2, 12), shape[3]))
    for _ in range(g.d.integer(3, 14)):
        g.d.choose(*STEPS)(g)
    if g.d.chance(0.5):
        classifier(g)
    return g.d.drawn()
