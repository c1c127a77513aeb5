"""UMABackend: registrations take effect in the compiler."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowered import inputs_of_graph, lower
from penstock.backends.accelerator import Accelerator, CpuFallback
from penstock.backends.offload import offload
from penstock.backends.uma import backend as facade
from penstock.errors import BackendError, UsageError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine
from penstock.uma import (
    Composite,
    Driver,
    Graph,
    KernelCall,
    Loop,
    Offloaded,
    OpStrategy,
    PassPhase,
    UMABackend,
    Var,
    elements,
    is_constant,
    is_op,
    requantise,
    wildcard,
)

HOST = load_target("host")
CONVOLUTION = is_op("nn.conv2d")(wildcard(), is_constant())


class Npu(UMABackend):
    """An accelerator that registers what it is told to."""

    def __init__(self, *registrations: Callable[[Any], object]) -> None:
        super().__init__()
        for register in registrations:
            register(self)

    @property
    def target_name(self) -> str:
        return "npu"


def claims_convolutions(npu: Any) -> None:
    npu._register_pattern("conv2d", CONVOLUTION)


def with_strategy(strategy: Any, level: int = 11) -> Callable[[Any], object]:
    return lambda npu: npu._register_operator_strategy("nn.conv2d", strategy, level)


def offering(name: str, **stated: Any) -> Any:
    """A strategy with one implementation, which is never called."""

    def strategy(*_: object) -> OpStrategy:
        found = OpStrategy()
        found.add_implementation(lambda call: (), name=name, **stated)
        return found

    return strategy


@pytest.fixture
def network() -> Graph:
    """A convolution of one tap, 3 to 4 channels on 6 x 5, and a dense layer."""
    net = GraphBuilder("small")
    x = net.conv2d(net.input((1, 6, 5, 3)), 4, 1, activation="relu", name="conv")
    return net.build(net.fully_connected(net.reshape(x, (1, -1), name="flat"), 2, name="dense"))


def offloaded(
    network: Graph, *registrations: Callable[[Any], object], **attributes: object
) -> tuple[Graph, tuple[CpuFallback, ...]]:
    made: Accelerator = Npu(claims_convolutions, *registrations).accelerator(attributes, HOST)
    found = offload(network, (made,), HOST)
    return found.graph, found.cpu_fallbacks


def kernel_of(graph: Graph) -> Any:
    (node,) = (n for n in graph.nodes if isinstance(n.op, Composite))
    return node.op.kernel(node.site)


@pytest.mark.parametrize(
    ("default", "given", "read"),
    [
        (8, "0x10", 16),
        (8, 16, 16),
        (0.5, "2", 2.0),
        (0.5, 2, 2.0),
        (False, "true", True),
        (True, "0", False),
        (8, "16KiB", 16384),
        ("fast", "slow", "slow"),
        ("", "8", "8"),
    ],
)
def test_values_are_read_by_the_type_of_the_default(default: Any, given: Any, read: Any) -> None:
    npu = Npu(lambda npu: npu._register_target_attr("x", default))
    found = npu.accelerator({"x": given}).target.attrs["x"]
    assert (found, type(found)) == (read, type(read))
    assert npu.accelerator().target.attrs["x"] == default


@pytest.mark.parametrize(
    ("default", "given"),
    [(8, "many"), (8, "1.5"), (8, 1.5), (8, True), (0.5, "nan"), (0.5, float("inf")),
     (False, "yes"), (False, 1), ("a", 1), (8, None), (8, "KiB"), (8, "0.1KiB"), (0.5, "1KiB")],
)  # fmt: skip
def test_values_of_another_type_are_refused(default: Any, given: Any) -> None:
    npu = Npu(lambda npu: npu._register_target_attr("x", default))
    with pytest.raises(UsageError) as caught:
        npu.accelerator({"x": given})
    assert caught.value.code == "usage-019"


@pytest.mark.parametrize(("given", "limit"), [(0, "least 1"), (-1, "least 1"), (9, "most 8")])
def test_values_beyond_a_limit_are_refused(given: int, limit: str) -> None:
    npu = Npu(lambda npu: npu._register_target_attr("x", 8, least=1, most=8))
    with pytest.raises(UsageError, match=f"attribute x is {given}, must be at {limit}"):
        npu.accelerator({"x": given})


@pytest.mark.parametrize("default", [None, [1], {"a": 1}, (1,), b"x", np.int32(3)])
def test_defaults_of_other_types_are_refused(default: Any) -> None:
    with pytest.raises(BackendError, match="must be a str, int, bool or float"):
        Npu()._register_target_attr("x", default)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("lanes", "registered already, with default 8"),
        ("name", "is the accelerator's name"),
        ("device", "every target of TVM has"),
        ("a-b", "letters, digits and _"),
        ("class", "letters, digits and _"),
    ],
)
def test_names_of_attributes_that_clash_are_refused(name: str, reason: str) -> None:
    npu = Npu()
    npu._register_target_attr("lanes", 8)
    with pytest.raises(BackendError) as caught:
        npu._register_target_attr(name, 1)
    assert reason in caught.value.why


def test_passes_run_in_order_with_the_attributes(network: Graph) -> None:
    ran: list[tuple[object, ...]] = []

    def remembering(name: str) -> Any:
        def run(graph: Graph, target: Any) -> Graph:
            claimed = sum(isinstance(n.op, Composite) for n in graph.nodes)
            ran.append((name, claimed, target.attrs["lanes"]))
            return graph

        return run

    offloaded(
        network,
        lambda npu: npu._register_target_attr("lanes", 8),
        lambda npu: npu._register_graph_pass(PassPhase.POST_PARTITIONING_1, remembering("last")),
        lambda npu: npu._register_relay_pass(PassPhase.POST_PARTITIONING, remembering("second")),
        lambda npu: npu._register_graph_pass(PassPhase.POST_PARTITIONING_0, remembering("third")),
        lambda npu: npu._register_graph_pass(PassPhase.PRE_PARTITIONING, remembering("first")),
        with_strategy(offering("any", cost=lambda *_: 1)),
        lanes=4,
    )
    assert ran == [("first", 0, 4), ("second", 1, 4), ("third", 1, 4), ("last", 1, 4)]


@pytest.mark.parametrize(
    ("levels", "chosen"),
    [((9,), None), ((10,), None), ((11,), "of 11"), ((9, 12, 11), "of 12")],
)
def test_the_highest_level_above_the_cores_runs_it(
    network: Graph, levels: tuple[int, ...], chosen: str | None
) -> None:
    strategies = (with_strategy(offering(f"of {n}", cost=lambda *_: 1), n) for n in levels)
    graph, left = offloaded(network, *strategies)
    if chosen is None:
        assert [n.node.name for n in left] == ["conv", "dense"]
        assert f"level {levels[0]}" in left[0].reason
        assert all(n.cycles > 0 for n in left)
    else:
        assert kernel_of(graph).name == chosen


def test_a_strategy_receives_the_arguments_of_the_rfc(network: Graph) -> None:
    told: list[Any] = []

    def strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
        told.append((attrs["activation"].name, attrs["rows"].size, [t.shape for t in inputs],
                     out_type.shape, target.name, target.chip.name))  # fmt: skip
        return OpStrategy()

    offloaded(network, with_strategy(strategy))
    shapes = [(1, 6, 5, 3), (4, 1, 1, 3), (4,)]
    assert told[0] == ("RELU", 1, shapes, (1, 6, 5, 4), "npu", "host")


def test_the_roofline_is_the_cost_of_implementations_without_one(network: Graph) -> None:
    macs = 6 * 5 * 4 * 3
    moved = 6 * 5 * 3 + 6 * 5 * 4 + 4 * 3 + 4 * 4

    def cycles(macs_per_cycle: float, bytes_per_cycle: float, call: float) -> int:
        graph, _ = offloaded(
            network,
            lambda npu: npu._register_roofline(macs_per_cycle, bytes_per_cycle, call),
            with_strategy(offering("any")),
        )
        return kernel_of(graph).cycles(6, ())

    assert cycles(4, 1000, 7) == macs / 4 + 7
    assert cycles(1000, 2, 7) == moved / 2 + 7


def test_the_default_roofline_is_the_chips_memory(network: Graph) -> None:
    graph, _ = offloaded(network, with_strategy(offering("any")))
    bandwidth = HOST.memory_for("arena").bandwidth_bytes_per_cycle
    assert kernel_of(graph).cycles(6, ()) == max(360, 238 / bandwidth)


def test_a_cost_function_receives_the_number_of_rows(network: Graph) -> None:
    def cost(offloaded: Offloaded, rows: int) -> float:
        return 10 * rows + offloaded.macs(rows)

    graph, _ = offloaded(network, with_strategy(offering("any", cost=cost)))
    assert [kernel_of(graph).cycles(rows, ()) for rows in (1, 6)] == [10 + 60, 60 + 360]


def test_a_condition_that_does_not_hold_is_the_reason(network: Graph) -> None:
    def raises(_: Offloaded) -> Any:
        raise AssertionError("tables of what cannot run are not asked for")

    stated = offering("wide", condition="there are 3 channels", tables=raises)
    _, left = offloaded(network, with_strategy(stated))
    assert "there are 3 channels" in left[0].reason


def test_constraints_and_predicates_see_attributes_and_explain_themselves(network: Graph) -> None:
    def few_channels(offloaded: Offloaded) -> bool | str:
        """The output has at most `most` channels."""
        most = offloaded.target.attrs["most"]
        channels = offloaded.output.shape[3]
        return channels <= int(most) or f"it has {channels}, not {most}"

    def registers(npu: Any) -> None:
        npu._register_target_attr("most", 4)

    strategy = with_strategy(offering("any", cost=lambda *_: 1))
    constraint: Any = lambda npu: npu._register_constraint(few_channels)  # noqa: E731
    graph, _ = offloaded(network, registers, constraint, strategy)
    assert kernel_of(graph).name == "any"
    _, left = offloaded(network, registers, constraint, strategy, most=3)
    assert "The output has at most `most` channels: it has 4, not 3" in left[0].reason
    npu = Npu(registers, lambda npu: npu._register_pattern("few", CONVOLUTION, few_channels))
    found = npu.partition(network, {"most": 3})
    assert not any(isinstance(n.op, Composite) for n in found.nodes)


def test_rows_are_computed_by_a_loop_of_commands(network: Graph) -> None:
    """A kernel by rows, with a table laid out anew: weights by tap, then by output channel."""
    graph, accelerator = (
        network,
        Npu(claims_convolutions, with_strategy(row_strategy)).accelerator(),
    )
    done = lower(graph, accelerators=(accelerator,))
    inputs = inputs_of_graph(graph, seed=3)
    expected = run_graph(graph, inputs)
    for name, array in Machine(done.program).run(inputs).items():
        np.testing.assert_array_equal(array, expected[name])


def row_strategy(*_: object) -> OpStrategy:
    found = OpStrategy()
    found.add_implementation(row_by_row, name="rows", tables=by_tap, by_rows=True)
    return found


def by_tap(offloaded: Offloaded) -> dict[str, Any]:
    taps = offloaded.constant(1)[:, 0, 0, :].T
    return {"taps": taps, **offloaded.tables, "bias": offloaded.constant(2)}


def row_by_row(call: KernelCall) -> list[Loop]:
    row = Var("row")
    p = call.parameters
    tables = (call.table(name) for name in ("taps", "bias", "multiplier", "shift"))
    numbers = (p[k] for k in ("in_w", "in_c", "out_c", "in_zero", "out_zero", "least", "most"))
    go = call.invoke(ROW, call.operand(0).row(row), call.result.row(row), *tables, *numbers)
    return [Loop("row", call.first, call.end, 1, (go,))]


def row_model(
    device: Any, x: Any, y: Any, taps: Any, bias: Any, multiplier: Any, shift: Any, *numbers: int
) -> None:
    width, channels, outputs, in_zero, out_zero, least, most = numbers
    pixels = elements(x, np.int8, width, channels).astype(int) - in_zero
    sums = pixels @ elements(taps, np.int8, channels, outputs) + elements(bias, np.int32, outputs)
    factors = elements(multiplier, np.int32, outputs), elements(shift, np.int8, outputs)
    elements(y, np.int8, width, outputs)[:] = requantise(sums, *factors, out_zero, (least, most))


ROW = Driver("npu_row", "npu", row_model, device=dict)


def test_the_help_of_the_class_lists_the_methods_that_register() -> None:
    hooks = {name for name in dir(UMABackend) if name.startswith("_register_")}
    text = pydoc.render_doc(UMABackend, renderer=pydoc.plaintext)
    assert hooks <= set(re.findall(r"_register_\w+", text))


def test_register_again_replaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facade, "REGISTERED", {})
    Npu().register()
    Npu(lambda npu: npu._register_target_attr("lanes", 4)).register()
    assert facade.registered()["npu"].attributes == {"lanes": 4}


def test_registration_does_not_require_a_call_of_init() -> None:
    class Forgetful(UMABackend):
        target_name = "forgetful"  # type: ignore[assignment]

        def __init__(self) -> None:
            self._register_target_attr("lanes", 4)

    assert Forgetful().accelerator().target.attrs == {"lanes": 4}
    assert Forgetful().accelerator().merge_compiler_regions


def test_sources_are_found_beside_the_class_or_its_base(tmp_path: Path) -> None:
    class Child(Npu):
        pass

    name = Path(__file__).name
    (source,) = (
        Child(lambda npu: npu._register_codegen(sources=(name,))).accelerator().codegen.sources
    )
    assert source == (name, Path(__file__).read_text("utf-8"))


def test_memories_are_described() -> None:
    npu = Npu(lambda npu: npu._register_memory("spad", "32KiB", bandwidth_bytes_per_cycle=16))
    (memory,) = npu.accelerator().target.memories.values()
    assert (memory.name, memory.size_bytes, memory.bandwidth_bytes_per_cycle) == ("spad", 32768, 16)
    assert memory.holds == ("scratch",)
    for wrong in ({"size": 0}, {"size": 1.5}, {"size": "1k", "latency_cycles": -1},
                  {"size": "1k", "bandwidth_bytes_per_cycle": "fast"}):  # fmt: skip
        with pytest.raises(BackendError) as caught:
            Npu(lambda npu, wrong=wrong: npu._register_memory("spad", **wrong))
        assert caught.value.code == "backend-039"
    with pytest.raises(BackendError, match="invalid memory"):
        npu._register_memory("spad", 8)


def test_a_memory_is_as_its_functions_say() -> None:
    def described(bandwidth: Callable[[Mapping[str, Any]], Any]) -> Npu:
        def describe(npu: Npu) -> None:
            npu._register_target_attr("lanes", default=4)
            npu._register_memory(
                "spad", lambda attrs: 1024 * attrs["lanes"], bandwidth_bytes_per_cycle=bandwidth
            )

        return Npu(describe)

    wide = described(lambda attrs: 2 * attrs["lanes"]).accelerator({"lanes": 8})
    spad = wide.target.memories["spad"]
    assert (spad.size_bytes, spad.bandwidth_bytes_per_cycle) == (8192, 16)
    with pytest.raises(BackendError, match="its bandwidth must be a positive number") as caught:
        described(lambda attrs: 0).accelerator()
    assert caught.value.code == "backend-039"
    with pytest.raises(BackendError, match="function bandwidth_bytes_per_cycle raises") as caught:
        described(lambda attrs: attrs["depth"]).accelerator()
    assert caught.value.code == "backend-042"


def test_the_docstring_of_each_call_contains_an_example() -> None:
    """As docs/how-to/add-a-backend.md states; tests/test_docs.py runs the examples."""
    calls = {
        f"{owner.__name__}.{name}": member.__doc__ or ""
        for owner in (UMABackend, OpStrategy)
        for name, member in inspect.getmembers(owner, inspect.isfunction)
        if name.startswith("_register_") or not name.startswith("_")
    }
    assert len(calls) > 15
    assert [name for name, text in calls.items() if ">>>" not in text] == []
