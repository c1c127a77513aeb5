"""Law of the smv engine: however a layer is cut into tiles, and whatever the schedule, the engine
computes what the operators say, and every access stays within its scratchpad."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.small_tensors import Sample
from drawn_tilers import DrawnTiler
from found import SAMPLES, few
from lowered import inputs_of_graph
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph, Node, Value
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.emission import lower_point
from penstock.pipeline.placing import place
from penstock.pipeline.request import Request
from penstock.pipeline.search import schedule
from penstock.scheduling.options import Options
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine
from penstock_smv import KERNELS, Smv
from small_networks import networks
from strategies import graphs, seeds

TARGET = load_target("host")
FEW_POINTS = 4
MAIN_SAMPLES = (
    "conv2d", "fully_connected", "max_pool2d", "average_pool2d", "add-", "sub-", "mul-",
    "leaky_relu", "depthwise_conv2d",
)  # fmt: skip
some = settings(max_examples=max(60, settings().max_examples))


def on_smv(tiler: DrawnTiler) -> Smv:
    """The engine, its tiles as the tiler draws them."""
    smv = Smv()
    for op in KERNELS:
        smv._register_tiler(op, tiler)
    return smv


@pytest.mark.parametrize("sample", [s for name, s in SAMPLES if name.startswith(MAIN_SAMPLES)])
@given(tiler=st.builds(DrawnTiler, seeds, st.booleans()), doubled=st.booleans(), seed=seeds)
@few
def test_every_sample_of_its_operators_is_computed(
    sample: Sample, tiler: DrawnTiler, doubled: bool, seed: int
) -> None:
    """Whatever the engine leaves to the processor."""
    site = sample.site
    values = tuple(Value(f"v{k}", type, site.constants[k]) for k, type in enumerate(site.inputs))
    node = Node(sample.op, values, Value("y", site.output), "sample")
    inputs = tuple(value for value in values if value.data is None)
    check(Graph("sample", inputs, (node.output,), (node,)), tiler, doubled, seed)


@some
@given(
    graph=st.one_of(graphs(), networks(most_parts=5)),
    tiler=st.builds(DrawnTiler, seeds, st.booleans()),
    doubled=st.booleans(),
    seed=seeds,
)
def test_any_tiling_under_any_schedule_equals_the_operators(
    graph: Graph, tiler: DrawnTiler, doubled: bool, seed: int
) -> None:
    check(graph, tiler, doubled, seed)


def check(graph: Graph, tiler: DrawnTiler, doubled: bool, seed: int) -> None:
    """Some points of the graph's frontier, in the machine, against the operators' arithmetic."""
    accelerators = (on_smv(tiler).accelerator({"double_buffering": doubled}, TARGET),)
    request = Request("law", TARGET, accelerators=accelerators, options=Options(max_stripe=4))
    inputs = inputs_of_graph(graph, seed)
    reference = run_graph(graph, inputs)
    parts = assign_engines(graph, request)
    frontier = schedule(parts, TARGET, request.options, accelerators)
    points = place(frontier, TARGET, request.options)
    for point in points[:FEW_POINTS]:
        found = Machine(lower_point(point, accelerators)).run(inputs)
        for name, elements in found.items():
            assert np.array_equal(elements, reference[name]), name
