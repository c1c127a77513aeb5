"""ultra_trail claims temporal convolutions; its words, functional model and stub agree."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clean_sources import COMPILERS, assert_sources_are_clean
from lowered import inputs_of_graph
from offloading import assert_exact, claimed, compiled
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.emission import lower_point
from penstock.program.program import Call, Invoke, Loop, Program
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine
from penstock.zoo.registry import open_zoo
from penstock_ultra_trail import ReuseFeatures, UltraTrailBackend, engine

HOME = Path(engine.__file__).parent
DOCS = Path(__file__).parents[3] / "docs"
NAMES = (*engine.LENGTHS, *engine.SIZES, *engine.RANGE)
WORD_BITS = 32


def place(name: str) -> tuple[int, int, int]:
    """Word, and bits [lower, upper) in it, of a number."""
    field = getattr(engine.Words, name)
    lower, bits = field.size & 0xFFFF, field.size >> 16
    return field.offset // 4, lower, lower + bits


def words(values: dict[str, int]) -> tuple[int, ...]:
    return tuple(np.frombuffer(bytes(engine.Words(**values)), np.uint32).tolist())


@pytest.mark.parametrize("kind", COMPILERS)
def test_its_sources_compile_without_a_warning(kind: str, tmp_path: Path) -> None:
    assert_sources_are_clean("ultra_trail", kind, tmp_path)


@pytest.fixture(scope="module")
def keyword_spotting() -> Compilation:
    return compiled(open_zoo("zoo:tc_resnet8"), "ultra_trail", target="cortex-m4")


def drivers(program: Program) -> list[list[str]]:
    """By call of the engine, the functions of its driver that are called."""
    return [
        [c.driver.name.removeprefix("ultra_trail_") for c in call.body if isinstance(c, Invoke)]
        for call in program.run
        if isinstance(call, Call) and call.body
    ]


def signals() -> Graph:
    """Convolutions of many sorts, along rows and along columns."""
    net = GraphBuilder("signals")
    x = net.input((1, 40, 1, 5), scale=0.02, zero_point=-7)
    x = net.conv2d(x, 6, (5, 1), dilation=(3, 1), padding="valid", activation="relu6")
    x = net.conv2d(x, 7, (4, 1), (3, 1), activation="relu_n1_to_1")
    x = net.reshape(x, (1, 1, 10, 7))
    x = net.conv2d(x, 9, (1, 3), activation="relu")
    y = net.conv2d(x, 3, (1, 1), (1, 2))
    x = net.conv2d(net.conv2d(x, 8, (1, 10), padding="valid"), 3, 1)
    return net.build(net.softmax(x), y)


def test_words_are_full_and_each_begins_with_the_first_of_its_numbers() -> None:
    groups = (engine.LENGTHS, engine.SIZES, engine.RANGE)
    for word, bits in enumerate(groups):
        assert sum(bits.values()) == WORD_BITS
        assert {place(name)[0] for name in bits} == {word}
    assert len(bytes(engine.Words())) == WORD_BITS // 8 * len(groups)


@given(values=st.tuples(*[st.integers(0, (1 << 32) - 1)] * 3))
def test_fields_equal_the_bits_of_the_words(values: tuple[int, ...]) -> None:
    read = engine.decode(np.array(values, np.uint32).view(np.uint8))
    numbers = {name: getattr(read, name) for name in NAMES}
    for name, number in numbers.items():
        word, lower, upper = place(name)
        bits = values[word] >> lower & (1 << (upper - lower)) - 1
        signed = bits - 256 if name in engine.RANGE and bits > 127 else bits
        assert number == signed
    assert words(numbers) == values


@pytest.mark.parametrize("page", [HOME / "ultra_trail.h", DOCS / "tutorials" / "ultra_trail.md"])
def test_the_bit_fields_are_documented_as_they_are(page: Path) -> None:
    found: dict[str, tuple[int, int, int]] = {}
    word = -1
    for number, name, lower, upper in re.findall(
        r"word (\d)|(\w+) \[(\d+), (\d+)\)", page.read_text("utf-8")
    ):
        word = int(number) if number else word
        if name in NAMES:
            found[name] = (word, int(lower), int(upper))
    assert found == {name: place(name) for name in NAMES}


def test_it_takes_the_convolutions_and_says_words_and_memories(
    keyword_spotting: Compilation,
) -> None:
    layers = claimed(keyword_spotting.graph)
    assert list(layers) == [
        "conv",
        *(f"block{k}/{name}" for k in (1, 2, 3) for name in ("conv1", "conv2", "shortcut")),
    ]
    scopes = {name: dict(node.op.attributes)["scopes"] for name, node in layers.items()}
    assert scopes["conv"] == (0, 1)
    for block in ("block1", "block2", "block3"):
        entry, middle, end = (scopes[f"{block}/{n}"] for n in ("conv1", "conv2", "shortcut"))
        assert entry[1] == middle[0], "the second convolution reads what the first one wrote"
        assert end[0] == entry[0] not in middle, "and the block's input stays"
    said = dict(layers["block1/conv1"].op.attributes)["words"]
    read = engine.decode(np.frombuffer(said, np.uint8))
    numbers = {name: getattr(read, name) for name in NAMES}
    assert {name: numbers[name] for name in ("in_length", "out_length", "taps", "stride")} == {
        "in_length": 101,
        "out_length": 51,
        "taps": 9,
        "stride": 2,
    }
    assert (numbers["padding"], numbers["in_c"], numbers["out_c"]) == (4, 16, 24)


def test_unsupported_layers_fall_back_with_a_reason(keyword_spotting: Compilation) -> None:
    left = {item.node.name: item for item in keyword_spotting.parts.cpu_fallbacks}
    assert list(left) == ["block1/add", "block2/add", "block3/add", "pool", "logits", "scores"]
    assert all(item.cycles > 0 for item in left.values())


def test_every_rung_is_exact(keyword_spotting: Compilation) -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    assert_exact(keyword_spotting, "core")


def test_every_sort_of_convolution_along_one_axis_is_exact() -> None:
    done = compiled(signals(), "ultra_trail")
    assert len(claimed(done.graph)) == 6
    assert_exact(done, "host")


def test_a_network_without_supported_layers_runs_on_the_cpu() -> None:
    done = compiled(open_zoo("zoo:lenet5"), "ultra_trail")
    assert claimed(done.graph) == {}
    assert_exact(done, "host")


ALL = ["load_features", "load_weights", "convolve", "store_features"]


def test_its_pass_loads_features_once(keyword_spotting: Compilation) -> None:
    assert drivers(keyword_spotting.program) == [
        ALL,
        *[ALL[1:]] * 3,
        *([ALL] + [ALL[1:]] * 2) * 2,
    ]


def test_without_its_pass_the_commands_do_the_same() -> None:
    graph = open_zoo("zoo:tc_resnet8:frames=33")
    done = compiled(graph, "ultra_trail")
    (accelerator,) = done.request.accelerators
    bare = lower_point(done.points[-1], (replace(accelerator, program_passes=()),))
    assert drivers(bare) == [ALL] * 10
    inputs = inputs_of_graph(graph, 9)
    expected = run_graph(graph, inputs)["scores"]
    for program in (bare, done.program):
        np.testing.assert_array_equal(Machine(program).run(inputs)["scores"], expected)


def test_features_that_another_call_has_overwritten_are_loaded_again() -> None:
    """The pass goes by the order in which calls are made, not by that of the graph."""
    done = compiled(open_zoo("zoo:tc_resnet8:frames=33"), "ultra_trail")
    (accelerator,) = done.request.accelerators
    bare = lower_point(done.points[-1], (replace(accelerator, program_passes=()),))
    first, conv1, conv2, shortcut, *_ = bare.run
    by_pass = ReuseFeatures()
    swapped = by_pass(replace(bare, run=(first, conv1, shortcut, conv2)), accelerator.target)
    assert drivers(swapped) == [ALL, ALL[1:], ALL[1:], ALL]
    loop = Loop("k", 0, 1, 1, (shortcut,))
    looped = by_pass(replace(bare, run=(first, conv1, loop, conv2)), accelerator.target)
    assert drivers(looped) == [ALL, ALL[1:], ALL]
    assert looped.run[2] == loop, "in loops, the commands stay as they are"


def convolution(shape: tuple[int, ...], channels: int, **given: Any) -> Graph:
    net = GraphBuilder("one")
    return net.build(net.conv2d(net.input(shape), channels, name="y", **given))


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (convolution((1, 8, 8, 2), 3, kernel=3), "no pattern of ultra_trail matches this node"),
        (convolution((1, 8, 1, 4), 4, kernel=(3, 1), groups=2), "there are 2 groups"),
        (convolution((2, 8, 1, 4), 4, kernel=(3, 1)), "the output is [2, 8, 1, 4]"),
        (
            convolution((1, 80, 1, 4), 4, kernel=(33, 1)),
            "too large for its field: taps 33",
        ),
        (convolution((1, 8, 1, 600), 4, kernel=(3, 1)), "in_c 600"),
        (convolution((1, 600, 1, 8), 4, kernel=(3, 1)), "input does not fit into fmem0"),
        (convolution((1, 600, 1, 4), 8, kernel=(3, 1)), "y does not fit into fmem1"),
        (convolution((1, 9, 1, 160), 80, kernel=(3, 1)), "weights does not fit into wmem"),
    ],
)
def test_unsupported_layers_are_refused_with_a_reason(graph: Graph, reason: str) -> None:
    done = compiled(graph, "ultra_trail")
    (left,) = done.parts.cpu_fallbacks
    assert reason in left.reason
    assert claimed(done.graph) == {}


@pytest.mark.parametrize(("dimension", "macs_cycles"), [(8, 51 * 9 * 2 * 3), (16, 51 * 9 * 1 * 2)])
def test_the_array_takes_blocks_of_channels_a_tap_a_cycle(dimension: int, macs_cycles: int) -> None:
    done = compiled(open_zoo("zoo:tc_resnet8"), f"ultra_trail:dimension={dimension}")
    part = next(p for p in done.parts.parts if p.name == "block1/conv1")
    moved_bytes = 101 * 16 + 51 * 24 + 24 * 9 * 16 + 24 * 4
    assert part.kernel.cycles is not None
    assert part.kernel.cycles(51, ()) == round(macs_cycles + moved_bytes / 4)


def test_it_states_its_memories() -> None:
    memories = UltraTrailBackend().accelerator().target.memories
    device = engine.UltraTrail()
    sizes = {f"fmem{k}": memory.size for k, memory in enumerate(device.fmem)}
    assert {m.name: m.size_bytes for m in memories.values()} == sizes | {"wmem": device.wmem.size}


def test_a_header_configures_the_driver_for_the_network(keyword_spotting: Compilation) -> None:
    header = keyword_spotting.bundle["ultra_trail_config.h"].decode()
    numbers = dict(re.findall(r"#define ULTRA_TRAIL_([A-Z_]+) (\d+)\n", header))
    layers = claimed(keyword_spotting.graph).values()
    shapes = [node.site.inputs[1].shape for node in layers]
    sizes = [t.size_bytes for node in layers for t in (node.site.inputs[0], node.site.output)]
    assert {name: int(text) for name, text in numbers.items()} == {
        "LAYERS": 10,
        "FMEM_BYTES": max(sizes),
        "WMEM_BYTES": max(np.prod(shape) for shape in shapes),
        "CHANNELS": max(shape[0] for shape in shapes),
    }
    found = re.findall(r"#define ULTRA_TRAIL_CONFIG_\d+ (.*)\n", header)
    words = [np.frombuffer(dict(node.op.attributes)["words"], np.uint32) for node in layers]
    assert sorted(found) == sorted(", ".join(f"0x{word:08x}" for word in one) for one in words)
