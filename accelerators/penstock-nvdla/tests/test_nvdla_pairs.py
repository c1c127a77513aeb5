"""Depthwise convolutions of nvdla that read two rows as one of twice as many channels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.compiled_partition import disagreements, engine_cycles, main_bytes
from offloading import claimed, compiled
from penstock.frontends.builder import GraphBuilder, Padding
from penstock.uma import Offloaded
from penstock_nvdla.configurations import LARGE, SMALL, NvdlaConfiguration
from penstock_nvdla.dataflow import rows_cycles
from penstock_nvdla.operators import operator_task
from penstock_nvdla.pairs import RowPairs
from penstock_nvdla.task import Task


@settings(max_examples=10)
@given(
    size=st.tuples(st.integers(20, 37), st.integers(30, 60)),
    kernel=st.tuples(st.integers(4, 7), st.integers(1, 5)),
    stride=st.integers(1, 2),
    padding=st.sampled_from(("same", "valid")),
    channels=st.integers(2, 70),
    seed=st.integers(0, 99),
)
def test_pairs_of_rows_are_exact_and_cost_what_is_stated(
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: int,
    padding: Padding,
    channels: int,
    seed: int,
) -> None:
    net = GraphBuilder("rows", seed=seed)
    x = net.input((1, *size, channels), zero_point=seed - 50)
    graph = net.build(net.depthwise_conv2d(x, kernel, stride, padding, "relu", name="depthwise"))
    done = compiled(graph, "nvdla:config=large")
    stated = engine_cycles(done.schedule), main_bytes(done.schedule)
    assert not list(disagreements(done, *stated))


@pytest.mark.parametrize(("rows", "stride"), [(28, 1), (57, 2), (33, 1)])
def test_pairs_of_rows_take_fewer_cycles(rows: int, stride: int) -> None:
    """Of an odd number of rows, the last outputs are computed from single ones."""
    net = GraphBuilder("rows", seed=5)
    x = net.input((1, rows, 112, 44), zero_point=7)
    graph = net.build(net.depthwise_conv2d(x, 5, stride, "same", "relu", name="depthwise"))
    done = compiled(graph, "nvdla:config=large")
    (node,) = (n for n in claimed(done.graph).values() if n.kind == "nn.depthwise_conv2d")
    task = operator_task(Offloaded(node, done.request.accelerators[0].target))
    assert task.pairs is not None
    assert (task.pairs.rows < task.out_h) == (rows % 2 == 1)
    every = (task, replace(task, pairs=None))
    paired, single = (rows_cycles(one, 0, one.out_h, frozenset()).cycles for one in every)
    assert paired < 0.95 * single
    parts = [(0, task.out_h // 2), (task.out_h // 2, task.out_h)]
    for part in parts:  # they may be in rings, of which a pair of rows is not adjacent
        assert list(task.even_steps(*part)) == list(every[1].even_steps(*part))


@pytest.mark.parametrize(
    ("chip", "dilation", "stride"), [(SMALL, 1, 1), (LARGE, 2, 1), (LARGE, 1, 3)]
)
def test_there_are_no_pairs_of_rows(chip: NvdlaConfiguration, dilation: int, stride: int) -> None:
    task = Task(chip, 28, 28, 32, 28, 28, 32, 5, 5)
    assert RowPairs.of(replace(task, dilation_h=dilation, stride_h=stride)) is None


def test_the_weights_of_pairs_of_rows_are_zero_where_a_kernel_reaches_over_one_row() -> None:
    weights = np.arange(1, 31, dtype=np.int8).reshape(2, 5, 3)
    found = RowPairs(2, 28, 1, 4, 1).weights(weights, 32)
    assert found.shape == (34, 4, 3, 34)
    for output in (0, 1):
        rows = found[output * 32 + 1, :, :, 1::32].transpose(0, 2, 1).reshape(8, 3)
        assert (rows[1 + output : 6 + output] == weights[1]).all()
        assert np.count_nonzero(rows) == weights[1].size
    assert np.count_nonzero(found) == 2 * weights.size
