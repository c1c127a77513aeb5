"""Laws: the decoder inverts Arm's weight encoder; damaged bits are refused; weights and biases for
Ethos-U85 are encoded as Vela encodes them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from available import path_of
from benchmarks.vela import vela_stream
from penstock_ethos_u.blocks import Extent
from penstock_ethos_u.encoding import HIGH_BITS, WeightOrder, encoded
from penstock_ethos_u.interpreter import execute
from penstock_ethos_u.interpreter.hardware import find_hardware
from penstock_ethos_u.interpreter.operation import BlockOperation, Operation
from penstock_ethos_u.interpreter.weight_stream import DamagedError, decoded, decoded_fast
from penstock_ethos_u.interpreter.weights import decode_biases, decode_weights
from strategies import seeds

codec = pytest.importorskip("ethosu.mlw_codec", reason="the package ethos-u-vela is not installed")


def drawn(kind: str, size: int, rng: np.random.Generator) -> Any:
    """Weights whose coding differs: uniform, few, peaked, and mostly zero."""
    uniform = rng.integers(-255, 256, size)
    return {
        "uniform": uniform,
        "few": rng.choice(uniform[:5], size),
        "peaked": np.clip(np.round(rng.laplace(0, 6, size)), -255, 255).astype(int),
        "sparse": uniform * (rng.random(size) < 0.1),
        "zero": 0 * uniform,
    }[kind]


kinds = st.sampled_from(("uniform", "few", "peaked", "sparse", "zero"))


@given(parts=st.lists(kinds, min_size=1, max_size=3), size=st.integers(1, 2000), seed=seeds)
def test_decoding_undoes_encoding(parts: list[str], size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = np.concatenate([drawn(kind, size, rng) for kind in parts])
    stream = bytes(codec.encode(weights.tolist()))
    assert decoded(stream).tolist() == weights.tolist()
    assert decoded(stream + stream).tolist() == 2 * weights.tolist()
    assert decoded(stream + bytes([255] * 16)).tolist() == weights.tolist()


@given(kind=kinds, size=st.integers(1, 500), seed=seeds)
def test_damaged_bits_decode_to_something_or_are_refused(kind: str, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    stream = bytearray(codec.encode(drawn(kind, size, rng).tolist()))
    for _ in range(20):
        damaged = bytearray(stream)
        damaged[int(rng.integers(len(damaged)))] ^= 1 << int(rng.integers(8))
        with contextlib.suppress(DamagedError):
            assert abs(decoded(bytes(damaged))).max(initial=0) < 512


def bits_of(value: int, width: int) -> list[int]:
    return [value >> k & 1 for k in range(width)]


@pytest.mark.parametrize(("width", "count"), [(2, 4), (4, 16), (8, 40)])
def test_the_fast_decoder_reads_palettes_and_bytes(width: int, count: int) -> None:
    """Weights in 2 or 4 bits index a palette; those in 8 bits are less by a zero point."""
    rng = np.random.default_rng(count)
    palette, zero = rng.permutation(np.arange(-120, 120))[:count], 7
    at = rng.integers(0, count, 100)
    bits = [int(width == 8), int(width == 2), *[0] * 102, *bits_of(zero, 8)]
    for k in range(16):
        entry = int(palette[k]) if k < count else 0
        bits += bits_of(abs(entry) << 1 | (entry < 0), 9)
    for k in at:
        bits += bits_of((int(palette[k]) + zero) & 255 if width == 8 else int(k), width)
    bits += [0] * (-len(bits) % 256)
    raw = np.packbits(np.array(bits, np.uint8), bitorder="little").tobytes()
    assert decoded_fast(raw)[:100].tolist() == palette[at].tolist()


def test_a_stream_that_ends_early_is_refused() -> None:
    encoded = bytes(codec.encode([5, -7, 3] * 200))
    with pytest.raises(DamagedError, match="inside a slice"):
        decoded(encoded[: len(encoded) // 2])


@pytest.mark.parametrize("name", ["ethos-u85-128", "ethos-u85-512", "ethos-u85-2048"])
def test_vela_encodes_the_same_for_ethos_u85(name: str) -> None:
    """Every layer of its stream whose weights have the standard format, and whose micro block has
    the channels that ours has."""
    stream, hardware, judged = vela_stream(Path(path_of("digits")), name), find_hardware(name), 0
    regions = stream.regions([np.zeros((8, 8, 1), np.int8)])

    def judge(operation: Operation) -> None:
        nonlocal judged
        if not isinstance(operation, BlockOperation) or not operation.weights:
            return
        kernel, outputs = operation.kernel, operation.ofm.shape[2]
        if operation.fast_weights or operation.sparse_weights:
            return
        streams, (table,) = (
            [regions[span.region][span.lower : span.upper] for span in spans]
            for spans in (operation.weights, operation.scales)
        )
        weights = decode_weights(operation, [each.tobytes() for each in streams], hardware)
        bias, scale, shift = decode_biases(operation, [table], hardware)
        order = WeightOrder(
            name,
            operation.kind == "depthwise",
            Extent(kernel.dilation_y, kernel.dilation_x),
            Extent(kernel.stride_y, kernel.stride_x),
            kernel.part_kernel_first,
            operation.block[2],
            outputs,
        )
        every = weights.transpose(3, 0, 1, 2).astype(np.int16)
        factors = tuple(scale.tolist()), tuple((HIGH_BITS - shift).tolist())
        ours = encoded(order, every.tobytes(), every.shape, tuple(bias.tolist()), *factors)
        (segment,) = ours.segments
        if segment.bias_bytes != len(table):  # for a micro block with other channels
            return
        judged += 1
        assert ours.raw[: len(table)] == table.tobytes()
        at = len(table)
        for size, theirs in zip(segment.weight_sizes, streams, strict=True):
            raw = bytearray(ours.raw[at : at + size])
            assert codec.decode(raw) == codec.decode(bytearray(theirs.tobytes()))
            at += size

    execute(stream.words, regions, name, judge)
    assert judged >= 4
