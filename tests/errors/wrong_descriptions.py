"""Invalid registrations of accelerators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from errors.wrong_backends import CONVOLUTION, network
from penstock.backends.offload import offload
from penstock.hardware.load import load_target
from penstock.uma import ConstantPrefetch, Driver, OpStrategy, PassPhase, UMABackend

HOST = load_target("host")


class Npu(UMABackend):
    """An accelerator that registers what it is told to."""

    target_name = "npu"

    def __init__(self, *registrations: Callable[[Any], object]) -> None:
        super().__init__()
        for register in registrations:
            register(self)


class Shouting(UMABackend):
    target_name = "NPU-1"


class LikeTheProcessor(UMABackend):
    target_name = "cpu"


class Other(UMABackend):
    target_name = "npu"


def made(*registrations: Callable[[Any], object]) -> object:
    return Npu(*registrations).accelerator()


def states_no_rule(offloaded: object) -> bool:
    return offloaded is not None


def implementation(**stated: Any) -> OpStrategy:
    """A strategy with one implementation."""
    strategy = OpStrategy()
    strategy.add_implementation(**{"compute": lambda call: (), "name": "npu.conv2d", **stated})
    return strategy


def chosen(strategy: object) -> Any:
    """The kernel of a convolution for which the strategy is asked."""
    accelerator = Npu(
        lambda npu: npu._register_pattern("conv2d", CONVOLUTION),
        lambda npu: npu._register_operator_strategy("nn.conv2d", lambda *facts: strategy),
    ).accelerator()
    graph = offload(network(), (accelerator,), HOST).graph
    node = graph.nodes[0]
    return node.op.kernel(node.site)


def running(strategy: object) -> object:
    """Asks the kernel that is chosen for its commands."""
    view: Any = None
    return chosen(strategy).body((view,) * 3, view, 1, {}, None, None)


def moving(traffic: object) -> object:
    """Asks a kernel for the traffic of its first two rows, which its author states so."""
    return chosen(implementation(traffic=lambda *_: traffic)).traffic(0, 2)


def copying(source: object, target: object) -> tuple[()]:
    """Copies nothing."""
    return ()


def fetching(prefetch: object) -> object:
    """Asks for a kernel that has one table, of 4 bytes, and fetches constants so."""
    table = {"shifts": np.zeros(4, np.int8)}
    return running(implementation(tables=table, prefetch=lambda offloaded: prefetch))


def registered_twice() -> None:
    Npu().register()
    Other().register()


WRONG_DESCRIPTIONS: Mapping[str, Callable[[], object]] = {
    "backend-030": lambda: made(lambda npu: npu._register_target_attr("lanes", [1, 2])),
    "backend-031": lambda: made(lambda npu: npu._register_target_attr("model", "small")),
    "backend-032": lambda: made(lambda npu: npu._register_constraint(states_no_rule)),
    "backend-033": lambda: made(
        lambda npu: npu._register_graph_pass(PassPhase.PRE_PARTITIONING, "fold")
    ),
    "backend-034": lambda: made(lambda npu: npu._register_pattern("conv2d", lambda: CONVOLUTION)),
    "backend-035": lambda: made(
        lambda npu: npu._register_operator_strategy("nn.conv2d", print, plevel="high")
    ),
    "backend-036": lambda: implementation(condition=None),
    "backend-037": lambda: made(lambda npu: npu._register_codegen("verilog")),
    "backend-038": lambda: made(
        lambda npu: npu._register_tir_pass(PassPhase.PRE_PARTITIONING, states_no_rule)
    ),
    "backend-039": lambda: made(lambda npu: npu._register_memory("weights", "much")),
    "backend-040": lambda: made(lambda npu: npu._register_roofline(0, 4)),
    "backend-041": lambda: running(None),
    "backend-043": lambda: running(implementation(compute=lambda call: [call.invoke(DRIVER, 1.5)])),
    "backend-044": lambda: running(implementation(tables={"shifts": [1, 2]})),
    "backend-045": lambda: made(lambda npu: npu._register_codegen(sources=("npu.h",))),
    "backend-046": lambda: Shouting().accelerator(),
    "backend-047": lambda: made(lambda npu: npu._register_codegen(includes=7)),
    "backend-048": registered_twice,
    "backend-051": lambda: LikeTheProcessor().accelerator(),
    "backend-054": lambda: moving({"features": -8}),
    "backend-055": lambda: fetching(ConstantPrefetch("weights", 8, 90.0, copying)),
    "backend-053": lambda: running(implementation(folded=(0,))),
    "backend-052": lambda: made(lambda npu: npu._register_tiler("nn.conv2d", "smaug")),
}
"""By code, the call that meets it."""

DRIVER = Driver("npu_go", "npu", model=lambda device, *arguments: None, device=dict)
