"""Architectures that people train for microcontrollers, as torch modules with sample inputs."""

# pyright: reportMissingImports=false, reportMissingModuleSource=false, reportUntypedBaseClass=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
# The packages are in the extra `exporters`.

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as f

Maker = Callable[[], tuple[nn.Module, tuple[Any, ...]]]


def image(*shape: int) -> Any:
    """A batch of one of normal numbers."""
    return torch.randn(1, *shape)


def tokens(count: int, most: int) -> Any:
    """A batch of one of token numbers."""
    return torch.randint(0, most, (1, count))


def lenet() -> Any:
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 12, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(108, 24), nn.ReLU(),
        nn.Linear(24, 10),
    )  # fmt: skip
    return net, (image(1, 20, 20),)


def conv(inputs: int, outputs: int, size: int = 3, stride: int = 1, groups: int = 1,
          act: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:  # fmt: skip
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs), act(),
    )  # fmt: skip


def ds_cnn() -> Any:
    blocks = [nn.Sequential(conv(16, 16, groups=16), conv(16, 16, 1)) for _ in range(2)]
    net = nn.Sequential(
        nn.Conv2d(1, 16, (10, 4), (2, 2), (5, 1)), nn.BatchNorm2d(16), nn.ReLU(), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 12), nn.Softmax(-1),
    )  # fmt: skip
    return net, (image(1, 25, 10),)


class Residual(nn.Module):
    """A residual block."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        last = nn.Conv2d(outputs, outputs, 3, 1, 1), nn.BatchNorm2d(outputs)
        self.body = nn.Sequential(conv(inputs, outputs, 3, stride), *last)
        self.short = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x: Any) -> Any:
        return f.relu(self.body(x) + self.short(x))


def residual() -> Any:
    net = nn.Sequential(
        conv(3, 8), Residual(8, 8, 1), Residual(8, 16, 2), nn.AvgPool2d(4), nn.Flatten(),
        nn.Linear(64, 10),
    )  # fmt: skip
    return net, (image(3, 16, 16),)


def mobilenet() -> Any:
    def pair(inputs: int, outputs: int, stride: int) -> nn.Sequential:
        return nn.Sequential(conv(inputs, inputs, 3, stride, inputs, nn.ReLU6),
                             conv(inputs, outputs, 1, act=nn.ReLU6))  # fmt: skip

    net = nn.Sequential(conv(3, 8, 3, 2, act=nn.ReLU6), pair(8, 16, 1), pair(16, 16, 2),
                        pair(16, 24, 1))  # fmt: skip

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features, self.head = net, nn.Linear(24, 2)

        def forward(self, x: Any) -> Any:
            return self.head(self.features(x).mean([2, 3]))

    return Network(), (image(3, 24, 24),)


class Excited(nn.Module):
    """An inverted residual with squeeze-and-excite."""

    def __init__(self, channels: int, act: Callable[[], nn.Module]) -> None:
        super().__init__()
        wide = channels * 3
        self.expand = conv(channels, wide, 1, act=act)
        self.depthwise = conv(wide, wide, 5, groups=wide, act=act)
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, 6, 1), nn.ReLU(),
                                     nn.Conv2d(6, wide, 1), nn.Hardsigmoid())  # fmt: skip
        self.project = conv(wide, channels, 1, act=nn.Identity)

    def forward(self, x: Any) -> Any:
        y = self.depthwise(self.expand(x))
        return x + self.project(y * self.squeeze(y))


def squeeze_excite() -> Any:
    net = nn.Sequential(
        conv(3, 8, 3, 2, act=nn.Hardswish), Excited(8, nn.Hardswish), Excited(8, nn.ReLU),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 16), nn.Hardswish(), nn.Linear(16, 5),
    )  # fmt: skip
    return net, (image(3, 16, 16),)


def efficient() -> Any:
    net = nn.Sequential(
        conv(3, 8, 3, 2, act=nn.SiLU), Excited(8, nn.SiLU), nn.AdaptiveAvgPool2d(1), nn.Flatten(1),
        nn.Linear(8, 4), nn.LogSoftmax(1),
    )  # fmt: skip
    return net, (image(3, 16, 16),)


class Unet(nn.Module):
    """Segmentation; `up` doubles an image's sides."""

    def __init__(self, up: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.a, self.b, self.c = conv(2, 6), conv(6, 8), conv(8, 12)
        self.up_b, self.up_a = up(12, 8), up(8, 6)
        self.d, self.head = conv(16, 8), nn.Conv2d(12, 2, 1)

    def forward(self, x: Any) -> Any:
        a = self.a(x)
        b = self.b(f.max_pool2d(a, 2))
        c = self.c(f.max_pool2d(b, 2))
        d = self.d(torch.cat([self.up_b(c), b], 1))
        return self.head(torch.cat([self.up_a(d), a], 1))


def unet() -> Any:
    return Unet(lambda i, o: nn.ConvTranspose2d(i, o, 2, 2)), (image(2, 16, 16),)


def unet_resized() -> Any:
    def up(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
                             nn.Conv2d(inputs, outputs, 1))  # fmt: skip

    return Unet(up), (image(2, 16, 16),)


def unet_nearest() -> Any:
    def up(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(inputs, outputs, 3, 1, 1))

    return Unet(up), (image(2, 16, 16),)


class Pyramid(nn.Module):
    """Dilated branches, a pooled branch, interpolation to the image's size."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3, 8, 3, 2)
        self.branches = nn.ModuleList(nn.Conv2d(8, 4, 3, 1, d, d) for d in (1, 2, 3))
        self.pooled, self.head = nn.Conv2d(8, 4, 1), nn.Conv2d(16, 3, 1)

    def forward(self, x: Any) -> Any:
        y = self.stem(x)
        p = self.pooled(f.adaptive_avg_pool2d(y, 1))
        p = f.interpolate(p, size=y.shape[-2:], mode="bilinear", align_corners=False)
        y = self.head(torch.cat([*(f.relu(branch(y)) for branch in self.branches), p], 1))
        return f.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=True).argmax(1)


def pyramid() -> Any:
    return Pyramid(), (image(3, 16, 16),)


def dense_autoencoder() -> Any:
    widths = (64, 24, 24, 4, 24)
    layers = [m for i, o in pairwise(widths)
              for m in (nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU())]  # fmt: skip
    return nn.Sequential(*layers, nn.Linear(24, 64)), (image(64),)


def conv_autoencoder() -> Any:
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, 2, 1), nn.ELU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ELU(), nn.Flatten(),
        nn.Linear(72, 6), nn.Tanh(), nn.Linear(6, 72), nn.ELU(), nn.Unflatten(1, (8, 3, 3)),
        nn.ConvTranspose2d(8, 8, 3, 2, 1, 1), nn.SELU(), nn.ConvTranspose2d(8, 1, 4, 2, 1),
        nn.Sigmoid(),
    )  # fmt: skip
    return net, (image(1, 12, 12),)


def audio() -> Any:
    net = nn.Sequential(
        nn.Conv1d(1, 8, 16, 4), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(8, 8, 3, padding=1, groups=8), nn.Conv1d(8, 12, 1), nn.ReLU(), nn.AvgPool1d(2),
        nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(12, 4), nn.Softmax(1),
    )  # fmt: skip
    return net, (image(1, 256),)


class Temporal(nn.Module):
    """Causal dilated convolutions, padded on the left."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(4, 8, 1)
        self.layers = nn.ModuleList(nn.Conv1d(8, 8, 3, dilation=d) for d in (1, 2, 4))
        self.head = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for layer in self.layers:
            y = layer(f.pad(x, (2 * layer.dilation[0], 0)))
            x = x + torch.tanh(y) * torch.sigmoid(y)
        return self.head(x[:, :, -1])


def temporal() -> Any:
    return Temporal(), (image(4, 32),)


class Recurrent(nn.Module):
    """A recurrent layer and a head on its last output."""

    def __init__(self, layer: nn.Module, outputs: int) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(outputs, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(x)[0][:, -1])


def lstm() -> Any:
    return Recurrent(nn.LSTM(6, 8, batch_first=True), 8), (image(16, 6),)


def stacked_lstm() -> Any:
    return Recurrent(nn.LSTM(4, 6, 2, batch_first=True), 6), (image(12, 4),)


def bidirectional() -> Any:
    layer = nn.LSTM(4, 5, batch_first=True, bidirectional=True)
    return Recurrent(layer, 10), (image(12, 4),)


def gru() -> Any:
    return Recurrent(nn.GRU(5, 8, batch_first=True), 8), (image(12, 5),)


def bidirectional_gru() -> Any:
    return Recurrent(nn.GRU(4, 5, 2, batch_first=True, bidirectional=True), 10), (image(10, 4),)


def elman() -> Any:
    return Recurrent(nn.RNN(4, 8, batch_first=True), 8), (image(10, 4),)


class Stateful(nn.Module):
    """A streaming step: states are inputs and outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.LSTM(4, 6), nn.Linear(6, 2)

    def forward(self, x: Any, h: Any, c: Any) -> Any:
        y, (h, c) = self.layer(x, (h, c))
        return self.head(y), h, c


def streaming_lstm() -> Any:
    return Stateful(), (image(1, 4), image(1, 6), image(1, 6))


class Crnn(nn.Module):
    """Convolutions, then a GRU over time, class scores per step."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(conv(1, 6), nn.MaxPool2d((2, 1)))
        self.layer = nn.GRU(24, 6, batch_first=True)
        self.head = nn.Linear(6, 5)

    def forward(self, x: Any) -> Any:
        y = self.features(x)
        y = y.permute(0, 3, 1, 2).flatten(2)
        return f.log_softmax(self.head(self.layer(y)[0]), -1)


def crnn() -> Any:
    return Crnn(), (image(1, 8, 12),)


class Text(nn.Module):
    """Embedding, and the mean of the words that are there."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 8, padding_idx=0), nn.Linear(8, 1)

    def forward(self, x: Any) -> Any:
        there = (x != 0).float().unsqueeze(-1)
        y = (self.embedding(x) * there).sum(1) / there.sum(1).clamp(min=1.0)
        return torch.sigmoid(self.head(y))


def text() -> Any:
    return Text(), (tokens(12, 50),)


class TextCnn(nn.Module):
    """Convolutions of several widths over embedded words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(60, 8)
        self.layers = nn.ModuleList(nn.Conv1d(8, 6, size) for size in (2, 3, 4))
        self.head = nn.Linear(18, 4)

    def forward(self, x: Any) -> Any:
        y = self.embedding(x).transpose(1, 2)
        pooled = [torch.amax(f.relu(layer(y)), 2) for layer in self.layers]
        return self.head(torch.cat(pooled, 1))


def text_cnn() -> Any:
    return TextCnn(), (tokens(16, 60),)


def transformer() -> Any:
    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(12, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True)
            self.head = nn.Linear(16, 3)

        def forward(self, x: Any) -> Any:
            return self.head(self.layer(self.first(x)).mean(1))

    return Network(), (image(8, 12),)


class Block(nn.Module):
    """A pre-normalised encoder layer, written by hand."""

    def __init__(self, width: int, heads: int, act: nn.Module) -> None:
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), act, nn.Linear(2 * width, width))

    def forward(self, x: Any, mask: Any = None) -> Any:
        batch, count, width = x.shape
        qkv = self.qkv(self.one(x)).reshape(batch, count, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, count, width)
        x = x + self.out(y)
        return x + self.mlp(self.two(x))


class VisionTransformer(nn.Module):
    """Patches, a class token and an encoder layer."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 12, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 12))
        self.positions = nn.Parameter(torch.randn(1, 17, 12))
        self.block, self.head = Block(12, 3, nn.GELU()), nn.Linear(12, 4)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.block(x)[:, 0])


def vision_transformer() -> Any:
    return VisionTransformer(), (image(1, 16, 16),)


class Decoder(nn.Module):
    """A small language model: causal attention on tokens, logits of the last."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(32, 16), nn.Embedding(8, 16)
        self.block, self.head = Block(16, 2, nn.SiLU()), nn.Linear(16, 32, bias=False)
        self.scale = nn.Parameter(torch.rand(16) + 0.5)
        self.register_buffer("mask", torch.triu(torch.ones(8, 8, dtype=torch.bool), 1))

    def forward(self, x: Any) -> Any:
        count = x.shape[1]
        y = self.embedding(x) + self.positions(torch.arange(count))
        y = self.block(y, self.mask[:count, :count])
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5) * self.scale
        return self.head(y[:, -1])


def decoder() -> Any:
    return Decoder(), (tokens(8, 32),)


class Attended(nn.Module):
    """`scaled_dot_product_attention` over a sequence, then attention pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(6, 8) for _ in range(3))
        self.score, self.head = nn.Linear(8, 1), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        y = f.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))
        weights = torch.softmax(self.score(torch.tanh(y)), 1)
        return self.head((weights * y).sum(1))


def attention_pooling() -> Any:
    return Attended(), (image(10, 6),)


class Ssd(nn.Module):
    """Boxes and scores of two feature maps."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.a, self.b = conv(3, 8, 3, 2), conv(8, 12, 3, 2), conv(12, 16, 3, 2)
        self.boxes = nn.ModuleList(nn.Conv2d(c, 8, 3, 1, 1) for c in (12, 16))
        self.scores = nn.ModuleList(nn.Conv2d(c, 6, 3, 1, 1) for c in (12, 16))

    def forward(self, x: Any) -> Any:
        a = self.a(self.stem(x))
        maps = (a, self.b(a))
        boxes = [m(v).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4)
                 for m, v in zip(self.boxes, maps, strict=True)]  # fmt: skip
        scores = [m(v).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 3)
                  for m, v in zip(self.scores, maps, strict=True)]  # fmt: skip
        return torch.cat(boxes, 1), torch.cat(scores, 1).softmax(-1)


def ssd() -> Any:
    return Ssd(), (image(3, 24, 24),)


class Yolo(nn.Module):
    """A head that decodes boxes on a grid."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(3, 8, 3, 2, act=nn.SiLU), conv(8, 8, 3, 2, act=nn.SiLU))
        self.head = nn.Conv2d(8, 14, 1)
        y, x = torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="ij")
        self.register_buffer("grid", torch.stack((x, y), -1)[None, None])
        self.register_buffer("anchors", torch.tensor([[1.0, 2], [3, 1.5]]).view(1, 2, 1, 1, 2))

    def forward(self, x: Any) -> Any:
        y = self.head(self.body(x))
        y = y.view(y.shape[0], 2, 7, 4, 4).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
        centre, size, rest = y.split((2, 2, 3), 4)
        centre = (centre * 2 - 0.5 + self.grid) * 4
        size = (size * 2) ** 2 * self.anchors
        return torch.cat((centre, size, rest), 4).view(y.shape[0], -1, 7)


def yolo() -> Any:
    return Yolo(), (image(3, 16, 16),)


class Fusion(nn.Module):
    """An image, a signal and numbers, joined."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(1, 6, 3), nn.Conv1d(3, 6, 3), nn.Linear(5, 6)
        self.head = nn.Linear(18, 2)

    def forward(self, image: Any, signal: Any, numbers: Any) -> Any:
        a = f.relu(self.a(image)).mean((2, 3))
        b = f.relu(self.b(signal)).amax(2)
        c = f.leaky_relu(self.c(numbers), 0.1)
        return self.head(torch.cat([torch.maximum(a, b), b * c, a - c], 1)).softmax(1)


def fusion() -> Any:
    return Fusion(), (image(1, 8, 8), image(3, 16), image(5))


class Siamese(nn.Module):
    """Cosine similarity of two embeddings by one network."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 8))

    def forward(self, one: Any, other: Any) -> Any:
        a, b = f.normalize(self.body(one), dim=1), f.normalize(self.body(other), dim=1)
        return (a * b).sum(1, keepdim=True), torch.norm(a - b, dim=1)


def siamese() -> Any:
    return Siamese(), (image(1, 8, 8), image(1, 8, 8))


def group_norm() -> Any:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1), nn.GroupNorm(4, 8), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1),
        nn.InstanceNorm2d(8, affine=True), nn.PReLU(8), nn.Flatten(), nn.LayerNorm(128),
        nn.Linear(128, 4),
    )  # fmt: skip
    return net, (image(3, 8, 8),)


def convnext() -> Any:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.depthwise = nn.Conv2d(8, 8, 7, padding=3, groups=8)
            self.norm, self.one, self.two = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
            self.gamma = nn.Parameter(torch.rand(8))

        def forward(self, x: Any) -> Any:
            y = self.depthwise(x).permute(0, 2, 3, 1)
            y = self.gamma * self.two(f.gelu(self.one(self.norm(y))))
            return x + y.permute(0, 3, 1, 2)

    net = nn.Sequential(nn.Conv2d(3, 8, 2, 2), Block(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                        nn.Linear(8, 3))  # fmt: skip
    return net, (image(3, 16, 16),)


def video() -> Any:
    net = nn.Sequential(
        nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d(2),
        nn.Conv3d(4, 6, 2), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(6, 3),
    )  # fmt: skip
    return net, (image(1, 6, 8, 8),)


def super_resolution() -> Any:
    net = nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2), nn.Tanh(), nn.Conv2d(8, 4, 3, padding=1), nn.PixelShuffle(2),
    )  # fmt: skip
    return net, (image(1, 12, 12),)


class Tabular(nn.Module):
    """Numbers and a category."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(6, 3)
        self.register_buffer("mean", torch.randn(5))
        self.register_buffer("deviation", torch.rand(5) + 0.5)
        self.body = nn.Sequential(nn.Linear(8, 8), nn.SELU(), nn.Linear(8, 8), nn.CELU(),
                                  nn.Linear(8, 1))  # fmt: skip

    def forward(self, numbers: Any, kind: Any) -> Any:
        x = (numbers - self.mean) / self.deviation
        return self.body(torch.cat([x, self.embedding(kind).flatten(1)], 1))


def tabular() -> Any:
    return Tabular(), (image(5), tokens(1, 6))


def activations() -> Any:
    every = (nn.PReLU(), nn.ELU(), nn.LeakyReLU(0.2), nn.SELU(), nn.SiLU(), nn.Softplus(),
             nn.GELU(), nn.GELU("tanh"), nn.Hardsigmoid(), nn.Softsign(), nn.Mish(), nn.Hardswish(),
             nn.CELU(0.8), nn.Hardtanh(-0.5, 0.8), nn.LogSigmoid())  # fmt: skip
    layers = [m for act in every for m in (nn.Conv2d(3, 3, 1), act)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(108, 2)), (image(3, 6, 6),)


class Shuffled(nn.Module):
    """ShuffleNet's unit: split, transform, join, shuffle channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(4, 8)
        self.right = nn.Sequential(conv(4, 4, 1), conv(4, 4, 3, groups=4), conv(4, 4, 1))
        self.head = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        for _ in range(2):
            left, right = x.chunk(2, 1)
            x = torch.cat([left, self.right(right)], 1)
            x = x.view(x.shape[0], 2, 4, *x.shape[2:]).transpose(1, 2).reshape(x.shape)
        return self.head(x.mean((2, 3)))


def shuffled() -> Any:
    return Shuffled(), (image(4, 10, 10),)


class Masked(nn.Module):
    """Values below a threshold are replaced; means over what remains."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        mask = y > 0.1
        kept = torch.where(mask, y, torch.zeros_like(y))
        return kept.sum(1) / mask.float().sum(1).clamp(min=1.0), y.masked_fill(~mask, -1e3).amax(1)


def masked() -> Any:
    return Masked(), (image(12, 4),)


class TopClasses(nn.Module):
    """The two best classes and their scores."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 10))

    def forward(self, x: Any) -> Any:
        return torch.topk(self.body(x).softmax(-1), 2)


def top_classes() -> Any:
    return TopClasses(), (image(16),)


class ArgmaxHead(nn.Module):
    """A segmentation whose output are class numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(2, 6), nn.Conv2d(6, 4, 3, 1, 1))

    def forward(self, x: Any) -> Any:
        return self.body(x).argmax(1)


def argmax_head() -> Any:
    return ArgmaxHead(), (image(2, 10, 10),)


class Spectrogram(nn.Module):
    """Audio to a spectrogram, by convolutions with windowed sines, then convolutions."""

    def __init__(self) -> None:
        super().__init__()
        angle = 2 * torch.pi * torch.outer(torch.arange(17.0), torch.arange(32.0)) / 32
        basis = torch.cat([angle.cos(), -angle.sin()]) * torch.hann_window(32)
        self.register_buffer("basis", basis[:, None])
        self.register_buffer("mel", torch.rand(17, 8) / 8)
        self.body = nn.Sequential(conv(1, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                  nn.Linear(4, 3))  # fmt: skip

    def forward(self, x: Any) -> Any:
        x = f.pad(x[:, None], (16, 16), mode="reflect")
        real, imaginary = f.conv1d(x, self.basis, stride=16).chunk(2, 1)
        power = (real.pow(2) + imaginary.pow(2)).transpose(1, 2) @ self.mel
        return self.body(torch.log(power + 1e-3)[:, None])


def spectrogram() -> Any:
    return Spectrogram(), (image(256),)


class Stft(nn.Module):
    """A spectrogram by `torch.stft`."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.body = nn.Sequential(conv(1, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                  nn.Linear(4, 3))  # fmt: skip

    def forward(self, x: Any) -> Any:
        y = torch.stft(x, 32, 16, window=self.window, center=False, return_complex=False,
                       onesided=True)  # fmt: skip
        return self.body(torch.log1p(y.pow(2).sum(-1))[:, None])


def stft() -> Any:
    return Stft(), (image(256),)


class Features(nn.Module):
    """Statistics of a window of sensor data."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(18, 8), nn.SiLU(), nn.Linear(8, 4), nn.LogSoftmax(1))

    def forward(self, x: Any) -> Any:
        return self.body(torch.cat([x.mean(2), x.std(2), x.amax(2), x.amin(2), x.abs().mean(2),
                                    x.norm(dim=2)], 1))  # fmt: skip


def statistics() -> Any:
    return Features(), (image(3, 32),)


class Positions(nn.Module):
    """Soft arg-max of heat maps: expected coordinates."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(1, 6, act=nn.Mish), nn.Conv2d(6, 3, 3, 1, 1))

    def forward(self, x: Any) -> Any:
        y = self.body(x)
        p = y.flatten(2).softmax(-1).view_as(y)
        steps = torch.linspace(-1, 1, 12)
        return torch.stack([(p.sum(2) * steps).sum(-1), (p.sum(3) * steps).sum(-1)], -1)


def positions() -> Any:
    return Positions(), (image(1, 12, 12),)


class Einsum(nn.Module):
    """Products by `einsum`, a learned bilinear form."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.weight = nn.Parameter(torch.randn(8, 8) / 4)

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        scores = torch.einsum("bid,de,bje->bij", y, self.weight, y)
        return torch.einsum("bij,bjd->bid", scores.softmax(-1), y).amax(1)


def einsum() -> Any:
    return Einsum(), (image(8, 6),)


NETWORKS: Mapping[str, Maker] = {
    maker.__name__: maker
    for maker in (
        lenet, ds_cnn, residual, mobilenet, squeeze_excite, efficient, unet, unet_resized,
        unet_nearest, pyramid, dense_autoencoder, conv_autoencoder, audio, temporal, lstm,
        stacked_lstm, bidirectional, gru, bidirectional_gru, elman, streaming_lstm, crnn, text,
        text_cnn, transformer, vision_transformer, decoder, attention_pooling, ssd, yolo, fusion,
        siamese, group_norm, convnext, video, super_resolution, tabular, activations, shuffled,
        masked, top_classes, argmax_head, spectrogram, stft, statistics, positions, einsum,
    )
}  # fmt: skip
