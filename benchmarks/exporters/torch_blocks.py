"""More architectures as torch modules: the blocks that recent small networks are made of."""

# pyright: reportMissingImports=false, reportMissingModuleSource=false, reportUntypedBaseClass=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
# The packages are in the extra `exporters`.

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as f

from benchmarks.exporters.torch_networks import Maker, conv, image, tokens


class Net(nn.Module):
    """A module of parts, and a function of it and the inputs."""

    def __init__(self, compute: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self._compute = compute
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *inputs: Any) -> Any:
        return self._compute(self, *inputs)


def _pooled_head(channels: int, classes: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def densenet() -> Any:
    def layer(inputs: int) -> nn.Sequential:
        return nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 4, 3, 1, 1))

    def compute(m: Any, x: Any) -> Any:
        x = m.stem(x)
        for part in m.layers:
            x = torch.cat([x, part(x)], 1)
        return m.head(f.avg_pool2d(m.last(x), 2))

    layers = nn.ModuleList(layer(6 + 4 * k) for k in range(3))
    last = nn.Sequential(nn.BatchNorm2d(18), nn.ReLU(), nn.Conv2d(18, 8, 1))
    net = Net(compute, stem=nn.Conv2d(3, 6, 3, 1, 1), layers=layers, last=last,
              head=_pooled_head(8))  # fmt: skip
    return net, (image(3, 12, 12),)


def squeezenet() -> Any:
    def compute(m: Any, x: Any) -> Any:
        x = f.max_pool2d(f.relu(m.stem(x)), 3, 2, ceil_mode=True)
        x = f.relu(m.squeeze(x))
        x = torch.cat([f.relu(m.one(x)), f.relu(m.three(x))], 1)
        return torch.flatten(f.adaptive_avg_pool2d(m.last(f.dropout(x, 0.5, m.training)), 1), 1)

    net = Net(compute, stem=nn.Conv2d(3, 8, 3, 2), squeeze=nn.Conv2d(8, 4, 1),
              one=nn.Conv2d(4, 6, 1), three=nn.Conv2d(4, 6, 3, padding=1),
              last=nn.Conv2d(12, 5, 1))  # fmt: skip
    return net, (image(3, 20, 20),)


def mobilenet_v3() -> Any:
    def compute(m: Any, x: Any) -> Any:
        x = m.stem(x)
        y = m.expand(x)
        y = m.depthwise(y)
        y = y * f.hardsigmoid(m.up(f.relu(m.down(f.adaptive_avg_pool2d(y, 1)))))
        return m.head(f.hardswish(m.project(y) + x))

    net = Net(compute, stem=conv(3, 8, 3, 2, act=nn.Hardswish), expand=conv(8, 16, 1),
              depthwise=conv(16, 16, 5, groups=16, act=nn.Hardswish), down=nn.Conv2d(16, 4, 1),
              up=nn.Conv2d(4, 16, 1), project=conv(16, 8, 1, act=nn.Identity),
              head=_pooled_head(8))  # fmt: skip
    return net, (image(3, 16, 16),)


def ghostnet() -> Any:
    def compute(m: Any, x: Any) -> Any:
        a = m.first(x)
        x = torch.cat([a, m.cheap(a)], 1)[:, :10]
        return m.head(x)

    net = Net(compute, first=conv(3, 6), cheap=conv(6, 6, 3, groups=6), head=_pooled_head(10))
    return net, (image(3, 10, 10),)


def repvgg() -> Any:
    def compute(m: Any, x: Any) -> Any:
        x = m.stem(x)
        return m.head(f.relu(m.three(x) + m.one(x) + m.norm(x)))

    net = Net(compute, stem=conv(3, 6), three=conv(6, 6, act=nn.Identity),
              one=conv(6, 6, 1, act=nn.Identity), norm=nn.BatchNorm2d(6),
              head=_pooled_head(6))  # fmt: skip
    return net, (image(3, 10, 10),)


def resnext() -> Any:
    body = nn.Sequential(conv(8, 12, 1), conv(12, 12, 3, groups=3), conv(12, 8, 1, act=nn.Identity))
    net = Net(lambda m, x: m.head(f.relu(m.body(x := m.stem(x)) + x)), stem=conv(3, 8), body=body,
              head=_pooled_head(8))  # fmt: skip
    return net, (image(3, 10, 10),)


def cbam() -> Any:
    def compute(m: Any, x: Any) -> Any:
        x = m.stem(x)
        gate = m.mlp(x.mean((2, 3))) + m.mlp(x.amax((2, 3)))
        x = x * torch.sigmoid(gate)[:, :, None, None]
        maps = torch.cat([x.mean(1, keepdim=True), x.max(1, keepdim=True)[0]], 1)
        return m.head(x * torch.sigmoid(m.spatial(maps)))

    mlp = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8))
    net = Net(compute, stem=conv(3, 8), mlp=mlp, spatial=nn.Conv2d(2, 1, 7, padding=3),
              head=_pooled_head(8))  # fmt: skip
    return net, (image(3, 10, 10),)


def channel_attention() -> Any:
    """ECA: a 1-D convolution over the means of channels; and coordinate attention."""

    def compute(m: Any, x: Any) -> Any:
        x = m.stem(x)
        gate = m.eca(f.adaptive_avg_pool2d(x, 1).squeeze(-1).transpose(1, 2))
        x = x * gate.transpose(1, 2).unsqueeze(-1).sigmoid()
        rows = f.adaptive_avg_pool2d(x, (None, 1))
        columns = f.adaptive_avg_pool2d(x, (1, None)).permute(0, 1, 3, 2)
        y = f.hardswish(m.join(torch.cat([rows, columns], 2)))
        rows, columns = torch.split(y, [10, 10], 2)
        x = x * torch.sigmoid(m.rows(rows)) * torch.sigmoid(m.columns(columns.permute(0, 1, 3, 2)))
        return m.head(x)

    net = Net(compute, stem=conv(3, 8), eca=nn.Conv1d(1, 1, 3, padding=1, bias=False),
              join=nn.Conv2d(8, 4, 1), rows=nn.Conv2d(4, 8, 1), columns=nn.Conv2d(4, 8, 1),
              head=_pooled_head(8))  # fmt: skip
    return net, (image(3, 10, 10),)


def mlp_mixer() -> Any:
    def mlp(width: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def compute(m: Any, x: Any) -> Any:
        x = m.patches(x).flatten(2).transpose(1, 2)
        x = x + m.tokens(m.one(x).transpose(1, 2)).transpose(1, 2)
        x = x + m.channels(m.two(x))
        return m.head(x.mean(1))

    net = Net(compute, patches=nn.Conv2d(3, 8, 4, 4), one=nn.LayerNorm(8), two=nn.LayerNorm(8),
              tokens=mlp(16), channels=mlp(8), head=nn.Linear(8, 3))  # fmt: skip
    return net, (image(3, 16, 16),)


def gan_generator() -> Any:
    net = nn.Sequential(
        nn.Linear(8, 96), nn.Unflatten(1, (6, 4, 4)),
        nn.ConvTranspose2d(6, 6, 4, 2, 1, bias=False), nn.BatchNorm2d(6), nn.ReLU(True),
        nn.ConvTranspose2d(6, 4, 3, 2, 1, output_padding=1), nn.ReLU(), nn.Conv2d(4, 1, 3, 1, 1),
        nn.Tanh(),
    )  # fmt: skip
    return net, (image(8),)


def gan_discriminator() -> Any:
    net = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Conv2d(1, 6, 4, 2, 1)), nn.LeakyReLU(0.2),
        nn.Conv2d(6, 8, 4, 2, 1), nn.InstanceNorm2d(8), nn.LeakyReLU(0.2), nn.Conv2d(8, 1, 4),
        nn.Flatten(), nn.Sigmoid(),
    )  # fmt: skip
    return net, (image(1, 16, 16),)


def wavenet() -> Any:
    def compute(m: Any, x: Any) -> Any:
        x, total = m.first(x), 0.0
        for dilation, gates, mix in zip((1, 2, 4), m.gates, m.mixes, strict=True):
            value, gate = gates(f.pad(x, (dilation, 0))).chunk(2, 1)
            y = mix(torch.tanh(value) * torch.sigmoid(gate))
            x, total = x + y, total + y
        return m.last(f.relu(total))

    gates = nn.ModuleList(nn.Conv1d(6, 12, 2, dilation=d) for d in (1, 2, 4))
    mixes = nn.ModuleList(nn.Conv1d(6, 6, 1) for _ in range(3))
    net = Net(compute, first=nn.Conv1d(1, 6, 1), gates=gates, mixes=mixes, last=nn.Conv1d(6, 4, 1))
    return net, (image(1, 32),)


def weight_norm() -> Any:
    norm = nn.utils.parametrizations.weight_norm
    net = nn.Sequential(
        norm(nn.Conv1d(3, 8, 3, padding=2, dilation=2)), nn.ReLU(), norm(nn.Conv1d(8, 8, 3)),
        nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(8, 2),
    )  # fmt: skip
    return net, (image(3, 24),)


def gru_attention() -> Any:
    def compute(m: Any, x: Any) -> Any:
        y, _ = m.gru(m.conv(x).transpose(1, 2))
        weights = torch.softmax(m.score(y).squeeze(-1), -1)
        return m.head(torch.bmm(weights.unsqueeze(1), y).squeeze(1))

    net = Net(compute, conv=nn.Conv1d(4, 6, 3, 2), gru=nn.GRU(6, 5, batch_first=True),
              score=nn.Linear(5, 1), head=nn.Linear(5, 3))  # fmt: skip
    return net, (image(4, 25),)


def recurrent_cells() -> Any:
    def compute(m: Any, x: Any) -> Any:
        h = c = g = x.new_zeros(x.shape[0], 5)
        for step in x.unbind(1):
            h, c = m.lstm(step, (h, c))
            g = m.gru(h, g)
        return m.head(g)

    net = Net(compute, lstm=nn.LSTMCell(3, 5), gru=nn.GRUCell(5, 5), head=nn.Linear(5, 2))
    return net, (image(4, 3),)


def deep_lstm() -> Any:
    def compute(m: Any, x: Any) -> Any:
        y, (h, _) = m.lstm(x.permute(1, 0, 2))
        return m.head(torch.cat([y[-1], h[-1], h[-2]], -1))

    lstm = nn.LSTM(4, 5, num_layers=2, bidirectional=True, dropout=0.1)
    return Net(compute, lstm=lstm, head=nn.Linear(20, 2)), (image(8, 4),)


def projected_lstm() -> Any:
    net = Net(lambda m, x: m.head(m.lstm(x)[0][:, -1]), head=nn.Linear(3, 2),
              lstm=nn.LSTM(4, 6, batch_first=True, proj_size=3))  # fmt: skip
    return net, (image(8, 4),)


def spatial_transformer() -> Any:
    def compute(m: Any, x: Any) -> Any:
        theta = m.locate(x).view(-1, 2, 3)
        grid = f.affine_grid(theta, [1, 1, 10, 10], align_corners=False)
        return m.head(m.conv(f.grid_sample(x, grid, align_corners=False)))

    locate = nn.Sequential(nn.Conv2d(1, 4, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                           nn.Linear(36, 6), nn.Tanh())  # fmt: skip
    return Net(compute, locate=locate, conv=conv(1, 4), head=_pooled_head(4)), (image(1, 10, 10),)


def upsampled() -> Any:
    def compute(m: Any, x: Any) -> Any:
        x = m.first(x)
        a = f.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
        b = f.interpolate(x, size=(16, 16), mode="bilinear", align_corners=True)
        c = f.interpolate(m.down(x), scale_factor=4, mode="nearest")
        return m.last(a + b + c)

    net = Net(compute, first=conv(3, 4), down=conv(4, 4, 3, 2), last=nn.Conv2d(4, 1, 3, padding=1))
    return net, (image(3, 8, 8),)


def pooled() -> Any:
    net = nn.Sequential(
        conv(2, 6), nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.Conv2d(6, 6, 3),
        nn.MaxPool2d(2, 1, dilation=2), nn.LPPool2d(2, 2), nn.AvgPool2d(2, 1, padding=1),
        nn.AdaptiveMaxPool2d((2, 2)), nn.Flatten(), nn.Linear(24, 3),
    )  # fmt: skip
    return net, (image(2, 24, 24),)


def adaptive_pools() -> Any:
    """A pyramid of pools, as in PSPNet."""

    def compute(m: Any, x: Any) -> Any:
        x = m.stem(x)
        maps = [f.interpolate(part(f.adaptive_avg_pool2d(x, size)), size=x.shape[2:],
                              mode="bilinear", align_corners=False)
                for size, part in zip((1, 2, 3), m.parts, strict=True)]  # fmt: skip
        return m.last(torch.cat([x, *maps], 1))

    parts = nn.ModuleList(conv(6, 2, 1) for _ in range(3))
    return Net(compute, stem=conv(3, 6), parts=parts, last=nn.Conv2d(12, 2, 1)), (image(3, 12, 12),)


def padded() -> Any:
    net = nn.Sequential(
        nn.ReflectionPad2d(2), nn.Conv2d(2, 4, 5), nn.ReLU(), nn.ReplicationPad2d(1),
        nn.Conv2d(4, 4, 3), nn.ZeroPad2d((1, 0, 2, 0)), nn.ConstantPad2d(1, 0.5),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), nn.Flatten(), nn.Linear(528, 2),
    )  # fmt: skip
    return net, (image(2, 8, 8),)


def alexnet() -> Any:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 5, 2), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2),
        nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.ReLU(), nn.Flatten(), nn.Dropout(),
        nn.Linear(72, 8), nn.ReLU(), nn.Linear(8, 4), nn.Softmax(1),
    )  # fmt: skip
    return net, (image(3, 20, 20),)


def rotary() -> Any:
    """A block of a recent language model: RMSNorm, rotary positions, SwiGLU, tied embeddings."""

    def turned(x: Any, cos: Any, sin: Any) -> Any:
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def compute(m: Any, ids: Any) -> Any:
        x = m.embedding(ids)
        y = m.one(x)
        q, k, v = (part(y).view(1, 6, 2, 4).transpose(1, 2) for part in (m.q, m.k, m.v))
        q, k = turned(q, m.cos, m.sin), turned(k, m.cos, m.sin)
        y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + m.o(y.transpose(1, 2).reshape(1, 6, 8))
        y = m.two(x)
        x = x + m.down(f.silu(m.gate(y)) * m.up(y))
        return m.three(x) @ m.embedding.weight.T

    angles = torch.outer(torch.arange(6.0), 0.1 ** torch.arange(2.0)).repeat(1, 2)
    linear = {name: nn.Linear(8, 8, bias=False) for name in "qkvo"}
    net = Net(compute, embedding=nn.Embedding(20, 8), cos=angles.cos(), sin=angles.sin(), **linear,
              one=nn.RMSNorm(8), two=nn.RMSNorm(8), three=nn.RMSNorm(8), gate=nn.Linear(8, 12),
              up=nn.Linear(8, 12), down=nn.Linear(12, 8))  # fmt: skip
    return net, (tokens(6, 20),)


def cached_decoder() -> Any:
    """One step of a decoder: keys and values of earlier steps are inputs and outputs."""

    def compute(m: Any, x: Any, keys: Any, values: Any) -> Any:
        q, k, v = m.qkv(x).view(1, 1, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        y = torch.softmax(q @ keys.transpose(2, 3) / 2.0, -1) @ values
        return m.out(y.transpose(1, 2).reshape(1, 1, 8)), keys, values

    net = Net(compute, qkv=nn.Linear(8, 24), out=nn.Linear(8, 8))
    return net, (image(1, 8), image(2, 5, 4), image(2, 5, 4))


def masked_attention() -> Any:
    """`nn.MultiheadAttention` with a causal mask, then cross-attention of learned queries."""

    def compute(m: Any, x: Any) -> Any:
        y, _ = m.one(x, x, x, attn_mask=m.mask, need_weights=False)
        y, weights = m.two(m.queries, m.norm(x + y), y)
        return m.head(y), weights

    def attention() -> nn.Module:
        return nn.MultiheadAttention(8, 2, batch_first=True)

    mask = torch.triu(torch.full((6, 6), float("-inf")), 1)
    net = Net(compute, one=attention(), two=attention(), norm=nn.LayerNorm(8), mask=mask,
              queries=nn.Parameter(torch.randn(1, 3, 8)), head=nn.Linear(8, 4))  # fmt: skip
    return net, (image(6, 8),)


def encoder_decoder() -> Any:
    """Torch's own transformer layers."""

    def compute(m: Any, x: Any, y: Any) -> Any:
        return m.head(m.decoder(y, m.encoder(x)))

    options: dict[str, Any] = dict(dim_feedforward=12, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, **options), 1,
                                    enable_nested_tensor=False)  # fmt: skip
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, **options), 1)
    net = Net(compute, encoder=encoder, decoder=decoder, head=nn.Linear(8, 3))
    return net, (image(6, 8), image(4, 8))


def linear_attention() -> Any:
    def compute(m: Any, x: Any) -> Any:
        q, k, v = f.elu(m.q(x)) + 1, f.elu(m.k(x)) + 1, m.v(x)
        y = q @ (k.transpose(1, 2) @ v)
        return y / (q @ k.sum(1, keepdim=True).transpose(1, 2) + 1e-6)

    parts = {name: nn.Linear(6, 6) for name in "qkv"}
    return Net(compute, **parts), (image(8, 6),)


def gated_mlp() -> Any:
    def compute(m: Any, x: Any) -> Any:
        u, v = f.gelu(m.up(m.norm(x)), approximate="tanh").chunk(2, -1)
        v = m.mix(m.inner(v).transpose(1, 2)).transpose(1, 2)
        return m.head((x + m.down(u * v)).mean(1))

    net = Net(compute, norm=nn.LayerNorm(6), up=nn.Linear(6, 16), inner=nn.LayerNorm(8),
              mix=nn.Linear(10, 10), down=nn.Linear(8, 6), head=nn.Linear(6, 2))  # fmt: skip
    return net, (image(10, 6),)


def swin() -> Any:
    """Attention in shifted windows with a relative bias, then patches are merged."""

    def compute(m: Any, x: Any) -> Any:
        x = m.patches(x).permute(0, 2, 3, 1)
        y = torch.roll(m.norm(x), (-1, -1), (1, 2))
        y = y.view(1, 2, 2, 2, 2, 8).permute(0, 1, 3, 2, 4, 5).reshape(4, 4, 8)
        q, k, v = m.qkv(y).view(4, 4, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) * 0.5 + m.bias
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(4, 4, 8)
        y = m.out(y).view(1, 2, 2, 2, 2, 8).permute(0, 1, 3, 2, 4, 5).reshape(1, 4, 4, 8)
        x = x + torch.roll(y, (1, 1), (1, 2))
        parts = [x[:, a::2, b::2] for a in (0, 1) for b in (0, 1)]
        return m.head(m.merge(torch.cat(parts, -1)).flatten(1, 2).mean(1))

    net = Net(compute, patches=nn.Conv2d(3, 8, 4, 4), norm=nn.LayerNorm(8), qkv=nn.Linear(8, 24),
              bias=nn.Parameter(torch.randn(2, 4, 4)), out=nn.Linear(8, 8),
              merge=nn.Linear(32, 8), head=nn.Linear(8, 3))  # fmt: skip
    return net, (image(3, 16, 16),)


def non_local() -> Any:
    def compute(m: Any, x: Any) -> Any:
        x = m.stem(x)
        q, k, v = (part(x).flatten(2) for part in (m.q, m.k, m.v))
        y = torch.bmm(torch.softmax(torch.bmm(q.transpose(1, 2), k), -1), v.transpose(1, 2))
        return m.head(x + m.out(y.transpose(1, 2).reshape(1, 4, 6, 6)))

    parts = {name: nn.Conv2d(6, 4, 1) for name in "qkv"}
    net = Net(compute, stem=conv(2, 6), **parts, out=nn.Conv2d(4, 6, 1), head=_pooled_head(6))
    return net, (image(2, 6, 6),)


def convnext_v2() -> Any:
    """Global response normalisation."""

    def compute(m: Any, x: Any) -> Any:
        y = m.norm(m.depthwise(x).permute(0, 2, 3, 1))
        y = f.gelu(m.one(y))
        size = torch.norm(y, p=2, dim=(1, 2), keepdim=True)
        y = m.gamma * (y * (size / (size.mean(-1, keepdim=True) + 1e-6))) + m.beta + y
        return m.head(x + m.two(y).permute(0, 3, 1, 2))

    net = Net(compute, depthwise=nn.Conv2d(4, 4, 7, padding=3, groups=4), norm=nn.LayerNorm(4),
              one=nn.Linear(4, 8), two=nn.Linear(8, 4), gamma=nn.Parameter(torch.rand(8)),
              beta=nn.Parameter(torch.rand(8)), head=_pooled_head(4))  # fmt: skip
    return net, (image(4, 8, 8),)


def embedding_bag() -> Any:
    net = Net(lambda m, x: m.head(m.bag(x)), bag=nn.EmbeddingBag(30, 6, mode="mean"),
              head=nn.Linear(6, 3))  # fmt: skip
    return net, (tokens(7, 30),)


def one_hot() -> Any:
    def compute(m: Any, x: Any) -> Any:
        return m.head(f.one_hot(x, 12).float().flatten(1))

    return Net(compute, head=nn.Linear(60, 3)), (tokens(5, 12),)


def radial_basis() -> Any:
    def compute(m: Any, x: Any) -> Any:
        squares = (x.unsqueeze(1) - m.centres).pow(2).sum(-1)
        return m.head(torch.exp(-m.widths * squares)), torch.cdist(x, m.centres)

    net = Net(compute, centres=nn.Parameter(torch.randn(6, 4)), head=nn.Linear(6, 2),
              widths=nn.Parameter(torch.rand(6)))  # fmt: skip
    return net, (image(4),)


def ranked() -> Any:
    def compute(m: Any, x: Any) -> Any:
        y = m.first(x)
        values, order = torch.sort(y, dim=1, descending=True)
        best, place = y.max(1)
        return m.head(values[:, :4]), order, best, place, y.median(1)[0]

    return Net(compute, first=nn.Linear(6, 9), head=nn.Linear(4, 2)), (image(6),)


def gathered() -> Any:
    """Rows picked by an input, and sums of neighbours in a graph."""

    def compute(m: Any, x: Any, picked: Any) -> Any:
        y = f.relu(m.first(x))
        messages = y[:, m.sources]
        total = torch.zeros_like(y).index_add(1, m.targets, messages)
        y = f.relu(m.second(total))
        row = torch.gather(y, 1, picked.view(1, -1, 1).expand(-1, -1, 6))
        return m.head(row.mean(1))

    net = Net(compute, first=nn.Linear(4, 6), second=nn.Linear(6, 6), head=nn.Linear(6, 2),
              sources=torch.tensor([0, 1, 2, 3, 4, 5, 1, 3]),
              targets=torch.tensor([1, 2, 3, 4, 5, 0, 4, 0]))  # fmt: skip
    return net, (image(6, 4), tokens(2, 6))


def graph_network() -> Any:
    def compute(m: Any, x: Any, adjacency: Any) -> Any:
        degrees = adjacency.sum(-1, keepdim=True).clamp(min=1.0)
        for part in m.parts:
            x = f.relu(part(torch.matmul(adjacency, x) / degrees)) + x
        return m.head(x.amax(1))

    parts = nn.ModuleList(nn.Linear(6, 6) for _ in range(2))
    net = Net(compute, parts=parts, head=nn.Linear(6, 2))
    return net, (image(5, 6), (image(5, 5) > 0).float())


def point_net() -> Any:
    def compute(m: Any, x: Any) -> Any:
        turn = m.turn(m.first(x).amax(2)).view(-1, 3, 3) + torch.eye(3)
        return m.head(torch.max(m.second(torch.bmm(turn, x)), 2)[0])

    first = nn.Sequential(nn.Conv1d(3, 6, 1), nn.BatchNorm1d(6), nn.ReLU())
    second = nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU())
    return Net(compute, first=first, second=second, turn=nn.Linear(6, 9),
               head=nn.Linear(8, 4)), (image(3, 16),)  # fmt: skip


def flipped() -> Any:
    def compute(m: Any, x: Any) -> Any:
        y = torch.cat([m.body(x), m.body(torch.flip(x, [3]))], 1)
        return m.head(torch.roll(y, 3, 3))

    return Net(compute, body=conv(1, 4), head=_pooled_head(8)), (image(1, 8, 8),)


def unfolded() -> Any:
    def compute(m: Any, x: Any) -> Any:
        y = m.mix(f.unfold(x, 2, stride=2).transpose(1, 2)).transpose(1, 2)
        return f.fold(y, (8, 8), 2, stride=2)

    return Net(compute, mix=nn.Linear(8, 8)), (image(2, 8, 8),)


def mathematics() -> Any:
    def compute(m: Any, x: Any) -> Any:
        y = m.first(x)
        a = torch.floor(y) + torch.round(y * 2) + torch.sign(y) + torch.fmod(y, 2.0)
        b = torch.sin(y) * torch.cos(y) + torch.atan(y) + torch.erf(y) + torch.expm1(y * 0.1)
        c = torch.log1p(y.abs()) + torch.rsqrt(y.square() + 1) + torch.reciprocal(y.abs() + 1)
        d = torch.clamp(y, -1, 1) + torch.minimum(y, y * y) + torch.pow(y.abs() + 0.1, 1.5)
        return m.head(torch.cat([a, b, c, d], -1))

    return Net(compute, first=nn.Linear(5, 6), head=nn.Linear(24, 2)), (image(5),)


def logic() -> Any:
    """Thresholds, peaks of a heat map, lengths of sequences."""

    def compute(m: Any, x: Any, length: Any) -> Any:
        y = torch.sigmoid(m.body(x))
        peaks = y * (f.max_pool2d(y, 3, 1, 1) == y)
        inside = torch.arange(8)[None, None, None] < length.view(-1, 1, 1, 1)
        kept = torch.where(inside & (peaks > 0.4), peaks, -peaks)
        return kept.sum((2, 3)), (y > 0.5).any(3), y.argmax(3)

    return Net(compute, body=conv(1, 3)), (image(1, 8, 8), torch.tensor([5]))


def seismic_unet() -> Any:
    """A 1-D U-Net with transposed convolutions."""

    def compute(m: Any, x: Any) -> Any:
        a = f.relu(m.a(x))
        b = f.relu(m.b(a))
        y = f.relu(m.c(b))
        y = torch.cat([m.up(y)[..., : a.shape[2]], a], 1)
        return torch.softmax(m.last(y), 1)

    net = Net(compute, a=nn.Conv1d(3, 6, 7, padding=3), b=nn.Conv1d(6, 8, 7, 4, 3),
              c=nn.Conv1d(8, 8, 3, padding=1), up=nn.ConvTranspose1d(8, 6, 7, 4, 1),
              last=nn.Conv1d(12, 3, 1))  # fmt: skip
    return net, (image(3, 32),)


def volume_unet() -> Any:
    def compute(m: Any, x: Any) -> Any:
        a = f.relu(m.a(x))
        return m.last(torch.cat([m.up(f.relu(m.b(a))), a], 1))

    net = Net(compute, a=nn.Conv3d(1, 3, 3, padding=1), b=nn.Conv3d(3, 4, 2, 2),
              up=nn.ConvTranspose3d(4, 3, 2, 2), last=nn.Conv3d(6, 2, 1))  # fmt: skip
    return net, (image(1, 4, 4, 4),)


def unshuffled() -> Any:
    net = nn.Sequential(
        nn.PixelUnshuffle(2), conv(4, 8), nn.ChannelShuffle(2), conv(8, 8, groups=2),
        nn.PixelShuffle(2), nn.Conv2d(2, 1, 3, 1, 1),
    )  # fmt: skip
    return net, (image(1, 12, 12),)


def camera() -> Any:
    """Bytes of a camera, normalised in the network."""

    def compute(m: Any, x: Any) -> Any:
        y = (x.permute(0, 3, 1, 2).float() / 255.0 - m.mean) / m.deviation
        return m.head(m.body(y))

    pixels = torch.randint(0, 256, (1, 12, 12, 3), dtype=torch.uint8)
    net = Net(compute, mean=torch.rand(3, 1, 1), deviation=torch.rand(3, 1, 1) + 0.2,
              body=conv(3, 6, 3, 2), head=_pooled_head(6))  # fmt: skip
    return net, (pixels,)


def highway() -> Any:
    def compute(m: Any, x: Any) -> Any:
        for gate, part in zip(m.gates, m.parts, strict=True):
            share = torch.sigmoid(gate(x))
            x = share * f.relu(part(x)) + (1 - share) * x
        return f.glu(m.last(x)), f.log_softmax(m.head(x), 1)

    gates, parts = (nn.ModuleList(nn.Linear(6, 6) for _ in range(2)) for _ in range(2))
    return Net(compute, gates=gates, parts=parts, last=nn.Linear(6, 8),
               head=nn.Linear(6, 3)), (image(6),)  # fmt: skip


def maxout() -> Any:
    def compute(m: Any, x: Any) -> Any:
        y = m.first(x).view(-1, 5, 3).amax(-1)
        return f.linear(y, m.first.weight.T[:, :5]), f.normalize(y, p=1.0, dim=-1)

    return Net(compute, first=nn.Linear(4, 15)), (image(4),)


def fourier_features() -> Any:
    def compute(m: Any, x: Any) -> Any:
        y = 2 * torch.pi * x @ m.frequencies
        y = torch.cat([torch.sin(y), torch.cos(y)], -1)
        return m.last(torch.sin(30 * m.first(y)))

    net = Net(compute, frequencies=torch.randn(2, 6), first=nn.Linear(12, 8), last=nn.Linear(8, 3))
    return net, (image(2),)


def polynomials() -> Any:
    """Kolmogorov-Arnold layers by Chebyshev polynomials."""

    def compute(m: Any, x: Any) -> Any:
        x = torch.tanh(x)
        terms = [torch.ones_like(x), x]
        for _ in range(2):
            terms.append(2 * x * terms[-1] - terms[-2])
        return torch.einsum("bid,iod->bo", torch.stack(terms, -1), m.weight)

    return Net(compute, weight=nn.Parameter(torch.randn(4, 3, 4))), (image(4),)


def state_space() -> Any:
    """A selective state-space layer, its scan unrolled."""

    def compute(m: Any, x: Any) -> Any:
        u, gate = m.first(x).chunk(2, -1)
        step = f.softplus(m.step(u))
        inputs, outputs = m.inputs(u), m.outputs(u)
        decay = torch.exp(step.unsqueeze(-1) * -torch.exp(m.log))
        drive = (step * u).unsqueeze(-1) * inputs.unsqueeze(2)
        state, rows = torch.zeros(1, 6, 3), []
        for k in range(5):
            state = decay[:, k] * state + drive[:, k]
            rows.append((state * outputs[:, k, None]).sum(-1))
        return m.last(torch.stack(rows, 1) * f.silu(gate))

    net = Net(compute, first=nn.Linear(4, 12), step=nn.Linear(6, 6), inputs=nn.Linear(6, 3),
              outputs=nn.Linear(6, 3), log=nn.Parameter(torch.rand(6, 3)),
              last=nn.Linear(6, 4))  # fmt: skip
    return net, (image(5, 4),)


def forecast() -> Any:
    """A series, decomposed by a moving mean, each part predicted; normalised and scaled back."""

    def compute(m: Any, x: Any) -> Any:
        mean, deviation = x.mean(1, keepdim=True), torch.sqrt(x.var(1, keepdim=True) + 1e-5)
        y = ((x - mean) / deviation).transpose(1, 2)
        trend = f.avg_pool1d(f.pad(y, (2, 2), mode="replicate"), 5, 1)
        y = m.trend(trend) + m.season(y - trend)
        return y.transpose(1, 2) * deviation + mean

    net = Net(compute, trend=nn.Linear(16, 4), season=nn.Linear(16, 4))
    return net, (image(16, 3),)


def residual_forecast() -> Any:
    """N-BEATS: blocks explain what earlier ones leave."""

    def compute(m: Any, x: Any) -> Any:
        total: Any = 0
        for part in m.parts:
            back, ahead = torch.split(part(x), [10, 4], 1)
            x, total = x - back, total + ahead
        return total

    parts = nn.ModuleList(nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 14))
                          for _ in range(2))  # fmt: skip
    return Net(compute, parts=parts), (image(10),)


def conformer() -> Any:
    def compute(m: Any, x: Any) -> Any:
        x = x + 0.5 * m.feed(x)
        y = f.glu(m.wide(m.norm(x).transpose(1, 2)), 1)
        y = m.narrow(f.silu(m.batch(m.depthwise(y))))
        return m.last(x + y.transpose(1, 2))

    feed = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 12), nn.SiLU(), nn.Linear(12, 6))
    net = Net(compute, feed=feed, norm=nn.LayerNorm(6), wide=nn.Conv1d(6, 12, 1),
              depthwise=nn.Conv1d(6, 6, 5, padding=2, groups=6), batch=nn.BatchNorm1d(6),
              narrow=nn.Conv1d(6, 6, 1), last=nn.LayerNorm(6))  # fmt: skip
    return net, (image(10, 6),)


def broadcast_residual() -> Any:
    """BC-ResNet: features over time, broadcast over frequencies."""

    def compute(m: Any, x: Any) -> Any:
        x = m.stem(x)
        y = m.frequency(x)
        z = f.silu(m.time(y.mean(2, keepdim=True)))
        return m.head(f.relu(m.point(z) + y + x))

    net = Net(compute, stem=conv(1, 6, 5, 2), frequency=conv(6, 6, 3, groups=6, act=nn.Identity),
              time=nn.Conv2d(6, 6, (1, 3), padding=(0, 1), groups=6), point=nn.Conv2d(6, 6, 1),
              head=_pooled_head(6))  # fmt: skip
    return net, (image(1, 20, 16),)


def sinc() -> Any:
    """Band-pass filters computed from their corner frequencies."""

    def compute(m: Any, x: Any) -> Any:
        time = torch.arange(-8.0, 9.0) + 1e-3
        low = torch.abs(m.low).unsqueeze(1)
        high = low + torch.abs(m.band).unsqueeze(1)
        filters = torch.sin(high * time) / time - torch.sin(low * time) / time
        y = f.conv1d(x, (filters * m.window).unsqueeze(1), stride=4).abs()
        return m.head(f.max_pool1d(y, 3).mean(2))

    net = Net(compute, low=nn.Parameter(torch.rand(4)), band=nn.Parameter(torch.rand(4)),
              window=torch.hamming_window(17), head=nn.Linear(4, 3))  # fmt: skip
    return net, (image(1, 128),)


def curves() -> Any:
    """Zero-DCE: brightens an image by curves that the network finds."""

    def compute(m: Any, x: Any) -> Any:
        for curve in torch.tanh(m.body(x)).split(3, 1):
            x = x + curve * (x * x - x)
        return x.clamp(0, 1)

    return Net(compute, body=nn.Sequential(conv(3, 4), nn.Conv2d(4, 9, 3, 1, 1))), (image(3, 8, 8),)


def attention_gate() -> Any:
    def compute(m: Any, x: Any) -> Any:
        a = m.a(x)
        b = m.b(f.max_pool2d(a, 2))
        up = f.interpolate(b, scale_factor=2, mode="nearest")
        gate = torch.sigmoid(m.psi(f.relu(m.left(a) + m.right(up))))
        return m.last(torch.cat([a * gate, up], 1))

    net = Net(compute, a=conv(1, 4), b=conv(4, 6), left=nn.Conv2d(4, 4, 1),
              right=nn.Conv2d(6, 4, 1), psi=nn.Conv2d(4, 1, 1),
              last=nn.Conv2d(10, 2, 1))  # fmt: skip
    return net, (image(1, 12, 12),)


def joint() -> Any:
    """A transducer's joint network: every step with every token."""

    def compute(m: Any, x: Any, y: Any) -> Any:
        return m.last(torch.tanh(m.one(x)[:, :, None] + m.two(y)[:, None])).log_softmax(-1)

    net = Net(compute, one=nn.Linear(4, 6), two=nn.Linear(3, 6), last=nn.Linear(6, 5))
    return net, (image(6, 4), image(3, 3))


def detection() -> Any:
    """YOLO v8: boxes as expected values of distributions of distances."""

    def compute(m: Any, x: Any) -> Any:
        a = m.stem(x)
        left, right = m.split(a).chunk(2, 1)
        y = m.join(torch.cat([left, right, m.inner(right)], 1))
        boxes = m.boxes(y).view(1, 4, 4, 16).transpose(2, 1).softmax(1)
        boxes = m.expect(boxes).view(1, 4, 16)
        first, last = boxes.chunk(2, 1)
        corners = torch.cat([m.anchors - first, m.anchors + last], 1) * 4
        return torch.cat([corners, m.classes(y).view(1, 3, 16).sigmoid()], 1)

    y, x = torch.meshgrid(torch.arange(4.0) + 0.5, torch.arange(4.0) + 0.5, indexing="ij")
    expect = nn.Conv2d(4, 1, 1, bias=False)
    expect.weight.data[:] = torch.arange(4.0).view(1, 4, 1, 1)
    net = Net(compute, stem=conv(3, 8, 3, 4, act=nn.SiLU), split=conv(8, 8, 1, act=nn.SiLU),
              inner=conv(4, 4, act=nn.SiLU), join=conv(12, 8, 1, act=nn.SiLU), expect=expect,
              boxes=nn.Conv2d(8, 16, 1), classes=nn.Conv2d(8, 3, 1),
              anchors=torch.stack([x, y]).view(1, 2, 16))  # fmt: skip
    return net, (image(3, 16, 16),)


def layers_of_vectors() -> Any:
    net = nn.Sequential(
        nn.Linear(8, 12), nn.BatchNorm1d(12), nn.ReLU6(), nn.Linear(12, 12), nn.LayerNorm(12),
        nn.Tanhshrink(), nn.Linear(12, 6), nn.Softmin(1), nn.Linear(6, 6), nn.Threshold(0.1, -0.2),
        nn.Linear(6, 4), nn.RReLU().eval(), nn.Linear(4, 4), nn.Softshrink(0.2), nn.Linear(4, 2),
        nn.Hardshrink(0.3),
    )  # fmt: skip
    return net, (image(8),)


NETWORKS: Mapping[str, Maker] = {
    maker.__name__: maker
    for maker in (
        densenet, squeezenet, mobilenet_v3, ghostnet, repvgg, resnext, cbam, channel_attention,
        mlp_mixer, gan_generator, gan_discriminator, wavenet, weight_norm, gru_attention,
        recurrent_cells, deep_lstm, projected_lstm, spatial_transformer, upsampled, pooled,
        adaptive_pools, padded, alexnet, rotary, cached_decoder, masked_attention,
        encoder_decoder, linear_attention, gated_mlp, swin, non_local, convnext_v2,
        embedding_bag, one_hot, radial_basis, ranked, gathered, graph_network, point_net, flipped,
        unfolded, mathematics, logic, seismic_unet, volume_unet, unshuffled, camera, highway,
        maxout, fourier_features, polynomials, state_space, forecast, residual_forecast,
        conformer, broadcast_residual, sinc, curves, attention_gate, joint, detection,
        layers_of_vectors,
    )
}  # fmt: skip
