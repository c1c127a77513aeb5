"""Law: the decoder inverts Arm's weight encoder; damaged bits are refused."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_ethos_u.interpreter.weight_stream import DamagedError, decoded, decoded_fast
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
    encoded = bytes(codec.encode(weights.tolist()))
    assert decoded(encoded).tolist() == weights.tolist()
    assert decoded(encoded + encoded).tolist() == 2 * weights.tolist()
    assert decoded(encoded + bytes([255] * 16)).tolist() == weights.tolist()


@given(kind=kinds, size=st.integers(1, 500), seed=seeds)
def test_damaged_bits_decode_to_something_or_are_refused(kind: str, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    encoded = bytearray(codec.encode(drawn(kind, size, rng).tolist()))
    for _ in range(20):
        damaged = bytearray(encoded)
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
