"""The arena is aligned as the kernels require that address memory in it."""

from __future__ import annotations

import re

import pytest

from offloading import compiled
from penstock.frontends.builder import GraphBuilder
from penstock.pipeline.compilation import Compilation


def beside(*accelerators: str) -> Compilation:
    net = GraphBuilder("tiny")
    x = net.conv2d(net.input((1, 6, 6, 3)), 4, 3, activation="relu")
    return compiled(net.build(net.global_average_pool(x)), *accelerators)


@pytest.mark.parametrize(
    ("accelerators", "alignment_bytes"),
    [((), 16), (("nvdla:config=small",), 16), (("nvdla:config=large",), 32)],
)
def test_the_header_states_the_largest_alignment(
    accelerators: tuple[str, ...], alignment_bytes: int
) -> None:
    """NVDLA addresses atoms of 8 bytes (small) and 32 bytes (large)."""
    header = beside(*accelerators).bundle["tiny.h"].decode()
    assert re.findall(r"#define \w+_ARENA_ALIGNMENT (\d+)", header) == [str(alignment_bytes)]
