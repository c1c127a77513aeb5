"""Random torch.nn modules, exported by both of torch's exporters and quantised by onnxruntime."""

# pyright: reportMissingImports=false, reportMissingModuleSource=false
# The packages are in the extra `torture`.

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from benchmarks.torture.case import Case, Generator
from benchmarks.torture.exporting import Form, exported_case, normal

MOST_STEPS = 8
MOST_ELEMENTS = 4096


def draw(seed: int, form: Form | None = None) -> Case | None:
    """The network of a seed, in a form (see `exported_case`)."""
    import torch

    random = Random(f"torch modules {seed}")
    torch.manual_seed(random.getrandbits(32))
    grown = Grown(random)
    for _ in range(random.randint(2, MOST_STEPS)):
        grown.step()
    return exported_case(grown.module(), tuple(grown.inputs), random, form)


class Grown:
    """A network under construction: steps with the indices of the values that they read."""

    def __init__(self, random: Random) -> None:
        shape = _shape(random)
        self.random = random
        self.inputs = [normal(random, *shape)]
        self.values = list(self.inputs)
        self.steps: list[tuple[Any, tuple[int, ...]]] = []
        self.read: set[int] = set()

    def pick(self, *ranks: int) -> int:
        """The index of a value of one of the ranks, the latest more often; -1 if none is."""
        every = [k for k, v in enumerate(self.values) if not ranks or v.dim() in ranks]
        if not every:
            return -1
        return every[-1] if self.random.random() < 0.6 else self.random.choice(every)

    def step(self) -> None:
        """Adds a random step."""
        self.step_of(SHARING if self.random.random() < SHARING_SHARE else STEPS)

    def step_of(self, makers: Sequence[Maker]) -> None:
        """Adds a step of one of these kinds if it computes something of sound size."""
        for _ in range(4):
            made = self.random.choice(makers)(self)
            if made is not None and self._add(*made):
                return

    def _add(self, operation: Any, reads: tuple[int, ...]) -> bool:
        import torch

        if hasattr(operation, "eval"):
            operation.eval()
        try:
            with torch.no_grad():
                value = operation(*(self.values[k] for k in reads))
        except (RuntimeError, ValueError, IndexError, TypeError):
            return False
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return False
        if not 0 < value.numel() <= MOST_ELEMENTS or not bool(torch.isfinite(value).all()):
            return False
        self.steps.append((operation, reads))
        self.read.update(reads)
        self.values.append(value)
        return True

    def module(self) -> Any:
        """The module; values without readers are its outputs."""
        import torch

        count = len(self.inputs)
        ends = [k for k in range(count, len(self.values)) if k not in self.read]
        steps = list(self.steps)

        class Network(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                layers = [op for op, _ in steps if isinstance(op, torch.nn.Module)]
                self.layers = torch.nn.ModuleList(layers)

            def forward(self, *inputs: Any) -> Any:
                values = list(inputs)
                for operation, reads in steps:
                    values.append(operation(*(values[k] for k in reads)))
                found = tuple(values[k] for k in ends) or (values[0] * 2,)
                first, *others = found
                return found if others else first

        return Network()


def _shape(random: Random) -> tuple[int, ...]:
    """The shape of an image, or of a signal."""
    if random.random() < 0.15:
        return (1, random.randint(2, 8), random.randint(6, 16))
    return (1, random.randint(1, 6), random.randint(4, 10), random.randint(4, 10))


Made = tuple[Any, tuple[int, ...]] | None
Maker = Callable[[Grown], Made]


def _convolution(g: Grown) -> Made:
    from torch import nn

    k, r = g.pick(4), g.random
    if k < 0:
        return None
    channels = g.values[k].shape[1]
    groups = r.choice((1, 1, 1, channels))
    outputs = channels * r.choice((1, 1, 2)) if groups > 1 else r.randint(1, 8)
    return nn.Conv2d(
        channels, outputs, (r.randint(1, 3), r.randint(1, 3)), (r.randint(1, 3), r.randint(1, 2)),
        (r.randint(0, 2), r.randint(0, 2)), r.choice((1, 1, 2)), groups, r.random() < 0.7,
    ), (k,)  # fmt: skip


def _normalised_convolution(g: Grown) -> Made:
    from torch import nn

    k, r = g.pick(4), g.random
    if k < 0:
        return None
    channels, outputs = g.values[k].shape[1], r.randint(1, 8)
    norm = nn.BatchNorm2d(outputs)
    nn.init.uniform_(norm.running_mean, -0.3, 0.3)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    act = r.choice((nn.ReLU(), nn.ReLU6(), nn.Hardswish(), nn.SiLU(), nn.Identity()))
    return nn.Sequential(nn.Conv2d(channels, outputs, 3, 1, 1, bias=False), norm, act), (k,)


def _convolution_1d(g: Grown) -> Made:
    from torch import nn

    k, r = g.pick(3), g.random
    if k < 0:
        return None
    size = r.randint(1, 4)
    return nn.Conv1d(
        g.values[k].shape[1], r.randint(1, 6), size, r.randint(1, 2), r.randint(0, size - 1),
        r.choice((1, 1, 2)),
    ), (k,)  # fmt: skip


def _transposed(g: Grown) -> Made:
    from torch import nn

    k, r = g.pick(4), g.random
    if k < 0:
        return None
    size, stride = r.randint(1, 4), r.randint(1, 2)
    return nn.ConvTranspose2d(
        g.values[k].shape[1], r.randint(1, 4), size, stride, r.randint(0, size // 2),
        r.randint(0, stride - 1), bias=r.random() < 0.5,
    ), (k,)  # fmt: skip


def _linear(g: Grown) -> Made:
    from torch import nn

    k = g.pick()
    return nn.Linear(g.values[k].shape[-1], g.random.randint(1, 8), g.random.random() < 0.7), (k,)


def _classifier(g: Grown) -> Made:
    from torch import nn

    k = g.pick(3, 4)
    if k < 0:
        return None
    flat = g.values[k][0].numel()
    return nn.Sequential(nn.Flatten(), nn.Linear(flat, g.random.randint(1, 8))), (k,)


def _pool(g: Grown) -> Made:
    from torch import nn

    k, r = g.pick(4), g.random
    if k < 0:
        return None
    size = r.randint(1, 3)
    pad, ceil = r.randint(0, size // 2), r.random() < 0.4
    return r.choice(
        (
            nn.MaxPool2d(size, r.randint(1, 3), pad, r.choice((1, 1, 2)), ceil_mode=ceil),
            nn.AvgPool2d(size, r.randint(1, 3), pad, ceil, r.random() < 0.6),
            nn.AdaptiveAvgPool2d(r.choice((1, 1, 2))),
            nn.AdaptiveMaxPool2d(1),
            nn.LPPool2d(2, size),
        )
    ), (k,)


def _pool_1d(g: Grown) -> Made:
    from torch import nn

    k, r = g.pick(3), g.random
    if k < 0:
        return None
    size = r.randint(1, 3)
    return r.choice((nn.MaxPool1d(size, 2, size // 2), nn.AvgPool1d(size, 2, size // 2))), (k,)


def _activation(g: Grown) -> Made:
    from torch import nn

    return g.random.choice(
        (
            nn.ReLU(), nn.ReLU6(), nn.Sigmoid(), nn.Tanh(), nn.LeakyReLU(0.1), nn.ELU(), nn.GELU(),
            nn.SiLU(), nn.Hardswish(), nn.Hardsigmoid(), nn.Softplus(), nn.Mish(), nn.SELU(),
            nn.PReLU(), nn.Hardtanh(-0.5, 0.7), nn.Softsign(), nn.CELU(), nn.LogSigmoid(),
            nn.GELU(approximate="tanh"), nn.Hardshrink(0.3), nn.Tanhshrink(), nn.Threshold(0.1, -1),
        )
    ), (g.pick(),)  # fmt: skip


def _normalisation(g: Grown) -> Made:
    from torch import nn

    k, r = g.pick(2, 3, 4), g.random
    if k < 0:
        return None
    x = g.values[k]
    return r.choice(
        (
            nn.LayerNorm(x.shape[-1]), nn.Softmax(r.choice((1, -1))), nn.LogSoftmax(-1),
            nn.InstanceNorm2d(x.shape[1], affine=True), nn.GroupNorm(1, x.shape[1]),
            nn.BatchNorm2d(x.shape[1]), nn.BatchNorm1d(x.shape[1]),
        )
    ), (k,)  # fmt: skip


def _function(g: Grown) -> Made:
    """A function of one value."""
    import torch
    from torch.nn import functional as f

    k, r = g.pick(), g.random
    x = g.values[k]
    axis = r.randrange(x.dim())
    low, high, number = r.uniform(-1, 0), r.uniform(0, 1), r.uniform(-2, 2)
    keep, index = r.random() < 0.6, r.randrange(x.shape[axis])
    every: list[Callable[[Any], Any]] = [
        lambda v: v.clamp(low, high), lambda v: v.clamp(min=low), lambda v: v + number,
        lambda v: v * number, lambda v: number - v, lambda v: v / 3.0, lambda v: v.abs(),
        lambda v: v.mean(axis, keepdim=keep), lambda v: v.amax(axis, keepdim=keep),
        lambda v: v.amin(axis, keepdim=keep), lambda v: v.sum(axis, keepdim=keep),
        lambda v: v.flatten(1), lambda v: v.transpose(-1, -2), lambda v: v.unsqueeze(axis),
        lambda v: v.select(axis, index), lambda v: v.narrow(axis, index, 1), lambda v: v.square(),
        lambda v: torch.cat([v, v], axis), lambda v: v.chunk(2, axis)[0], lambda v: v.flip(axis),
        lambda v: v.repeat(*(1,) * (v.dim() - 1), 2), lambda v: f.normalize(v, dim=axis),
        lambda v: torch.relu(v).sqrt(), lambda v: torch.where(v > 0, v, v * 0.1),
        lambda v: torch.maximum(v, torch.tensor(number)), lambda v: v.floor(), lambda v: v.ceil(),
        lambda v: v.roll(1, axis), lambda v: v.std(axis, keepdim=True),
        lambda v: torch.exp(-v.abs()),
        lambda v: v.norm(dim=axis, keepdim=True), lambda v: v.permute(*reversed(range(v.dim()))),
        lambda v: v.cumsum(axis), lambda v: v.index_select(axis, torch.tensor([index, 0])),
        lambda v: 1.0 / (v.abs() + 1.0), lambda v: v.reciprocal().clamp(-4, 4), lambda v: v.round(),
    ]  # fmt: skip
    return r.choice(every), (k,)


def _image_function(g: Grown) -> Made:
    from torch.nn import functional as f

    k, r = g.pick(4), g.random
    if k < 0:
        return None
    sides = [r.randint(0, 2) for _ in range(4)]
    factor, align = r.choice((2, 1.5, 0.5, 3)), r.random() < 0.4
    value, size = r.uniform(-2, 2), (r.randint(2, 12), r.randint(2, 12))
    perm = [0, *r.sample((1, 2, 3), 3)]
    # onnxruntime rounds the length that a factor yields, ONNX's node tests do not
    aligned = align and factor >= 2
    every: list[Callable[[Any], Any]] = [
        lambda v: f.pad(v, sides), lambda v: f.pad(v, sides, value=value),
        lambda v: f.pad(v, sides, mode="reflect"), lambda v: f.pad(v, sides, mode="replicate"),
        lambda v: f.interpolate(v, scale_factor=factor),
        lambda v: f.interpolate(v, scale_factor=factor, mode="bilinear", align_corners=aligned),
        lambda v: f.interpolate(v, size=size, mode="bilinear", align_corners=align),
        lambda v: f.interpolate(v, size=size), lambda v: f.pixel_shuffle(v, 2),
        lambda v: f.pixel_unshuffle(v, 2), lambda v: v.permute(*perm),
        lambda v: v.mean((2, 3)), lambda v: v.mean((2, 3), keepdim=True),
        lambda v: v[:, :, ::2, 1:],
        lambda v: v.view(1, 2, v.shape[1] // 2, *v.shape[2:]).transpose(1, 2).reshape(v.shape),
        lambda v: v * v.mean((2, 3), keepdim=True).sigmoid(),
        lambda v: v.reshape(1, v.shape[1], -1),
    ]  # fmt: skip
    return r.choice(every), (k,)


def _pair(g: Grown) -> Made:
    """A function of two values of one shape, or that broadcast."""
    import torch

    k, r = g.pick(), g.random
    alike = [j for j, v in enumerate(g.values) if v.shape == g.values[k].shape]
    j = r.choice(alike)
    every: list[Callable[[Any, Any], Any]] = [
        lambda a, b: a + b, lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b,
        lambda a, b: a / (b.abs() + 1), torch.maximum, torch.minimum,
        lambda a, b: torch.cat([a, b], 1), lambda a, b: torch.cat([a, b], -1),
        lambda a, b: torch.relu(a + b), lambda a, b: a * b.sigmoid(),
    ]  # fmt: skip
    return r.choice(every), (k, j)


def _product(g: Grown) -> Made:
    k = g.pick(2, 3, 4)
    if k < 0:
        return None
    x = g.values[k]
    others = [
        j for j, v in enumerate(g.values) if v.dim() == x.dim() and v.shape[-2] == x.shape[-1]
    ]
    if others and g.random.random() < 0.5:
        return (lambda a, b: a @ b), (k, g.random.choice(others))
    return g.random.choice(
        (lambda a: a @ a.transpose(-1, -2), lambda a: a.transpose(-1, -2) @ a)
    ), (k,)


def _attention(g: Grown) -> Made:
    from torch import nn
    from torch.nn import functional as f

    k = g.pick(3)
    if k < 0:
        return None
    depth = g.values[k].shape[-1]
    query, key, value = (nn.Linear(depth, 4) for _ in range(3))

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList((query, key, value))

        def forward(self, x: Any) -> Any:
            a, b, c = (part(x) for part in self.parts)
            return f.softmax(a @ b.transpose(-1, -2) / 2.0, -1) @ c

    return Attention(), (k,)


def _constant_product(g: Grown) -> Made:
    from torch import nn

    k = g.pick(2, 3)
    if k < 0:
        return None
    rows = g.values[k].shape[-2]

    class Left(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(normal(g.random, 3, rows))

        def forward(self, x: Any) -> Any:
            return self.weight @ x

    return Left(), (k,)


def _shared_flat(g: Grown) -> Made:
    k = g.pick(3, 4)
    if k < 0:
        return None
    sign = g.random.choice((1, -1))
    return (lambda a: a.flatten(1) + sign * a.transpose(-1, -2).flatten(1)), (k,)


def _shared_sum(g: Grown) -> Made:
    """A square image and its transpose, combined."""
    import torch

    k = g.pick(3, 4)
    if k < 0:
        return None
    return g.random.choice(
        (
            lambda a: a + a.transpose(-1, -2), lambda a: a * a.transpose(1, 2),
            lambda a: torch.cat([a, a.transpose(-1, -2)], 1),
            lambda a: a.permute(0, *range(2, a.dim()), 1).contiguous().softmax(-1),
            lambda a: a.transpose(1, -1) @ a, lambda a: a @ a.transpose(-1, -2) @ a,
            lambda a: a.reshape(1, -1, a.shape[1]).transpose(1, 2) - a.flatten(2),
        )
    ), (k,)  # fmt: skip


STEPS: tuple[Maker, ...] = (
    *(_convolution, _normalised_convolution, _activation, _function, _image_function, _pair) * 3,
    *(_pool,) * 2,
    *(_convolution_1d, _transposed, _linear, _classifier, _pool_1d, _normalisation, _product),
    *(_attention, _constant_product),
)
SHARING: tuple[Maker, ...] = (_shared_flat, _shared_sum, _product)
SHARING_SHARE = 0.1
GENERATOR = Generator("torch-modules", draw, ("torch", "onnxscript"))
