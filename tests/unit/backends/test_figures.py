"""What kernels are estimated to take, beside what the simulated core counts: random layers of seeds
that the figures were not fitted to."""

from __future__ import annotations

import shutil

import pytest

from benchmarks import random_layers
from benchmarks.estimate import FIRST_LAYERS, WRONG, judge
from benchmarks.measured import WHOLE, compiled, without_scratch
from found import SAMPLES
from penstock import api
from penstock.backends.cores.family import core_families, core_family
from penstock.frontends.builder import GraphBuilder
from penstock.pipeline.compilation import with_point
from penstock.simulators.cortex_m55 import PROGRAM


@pytest.mark.parametrize(
    "seed", [FIRST_LAYERS, pytest.param(FIRST_LAYERS + 1, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("mixture", list(random_layers.MIXTURES))
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m0plus"])
def test_no_layer_of_weight_is_estimated_wrongly(target: str, mixture: str, seed: int) -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    assert judge(compiled(random_layers.MIXTURES[mixture](seed), target, WHOLE)).missed == ()


def test_concatenations_of_short_and_long_pieces_take_as_long_as_estimated() -> None:
    """Pieces of fewer and of more bytes than a block; estimates were off by up to 23 %."""
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    graph = random_layers.MIXTURES["joined"](FIRST_LAYERS + 2)
    found = judge(compiled(graph, "cortex-m4", WHOLE)).layers
    channels = [x.shape[-1] for layer in found for x in layer.site.inputs]
    assert min(channels) < 16 <= max(channels)
    assert [layer.name for layer in found if abs(layer.error) > WRONG / 2] == []


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m0plus"])
def test_a_layer_takes_as_long_beside_another_of_its_kernel_as_without(target: str) -> None:
    """Compilers specialised a kernel that one layer called; estimates were off by up to 20 x."""
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")

    def pooled(count: int) -> float:
        net = GraphBuilder("pooled")
        images = [net.input((1, 12, 10, 6)) for _ in range(count)]
        done = compiled(
            net.build(*(net.max_pool2d(x, 3, 1, "same") for x in images)), target, WHOLE
        )
        return judge(done).layers[0].simulated

    assert pooled(1) == pytest.approx(pooled(2), rel=0.01)


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m0plus"])
def test_calls_of_odd_pixels_are_counted(target: str) -> None:
    """A kernel that computes pixels by twos computes the last one of an odd call twice."""
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    net = GraphBuilder("odd")
    x = net.conv2d(net.input((1, 40, 3, 16)), 24, 3, 1, "same", "relu")
    x = net.depthwise_conv2d(x, 3, 1, "same", "relu")
    x = net.depthwise_conv2d(x, (5, 1), 1, "same", "relu")
    done = compiled(net.build(net.conv2d(x, 16, 1, 1, "same", "relu")), target)
    judged = judge(with_point(done, done.points[0]))
    assert max(one.calls for one in judged.layers) > 1
    assert abs(judged.error) < WRONG
    assert judged.missed == ()


def test_calls_of_odd_pixels_and_dsp_kernels_are_counted_on_the_m55() -> None:
    """Pairs of pixels were taken to continue from call to call, and instructions for cycles."""
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"{PROGRAM} is not installed: apt install qemu-system-arm")
    net = GraphBuilder("pointwise")
    x = net.input((1, 24, 5, 64))
    for _ in range(3):
        x = net.conv2d(x, 64, 1, 1, "same", "relu")
    graph = net.build(x)
    by_rows = compiled(graph, "cortex-m55")
    least = judge(with_point(by_rows, by_rows.points[0]))
    fallback = judge(compiled(graph, "cortex-m55", WHOLE, without_scratch))
    assert {(one.kernel.name, one.calls > 1) for one in least.layers} == {("conv2d_s8_mve", True)}
    assert {one.kernel.name for one in fallback.layers} == {"conv2d_direct_s8_dsp"}
    assert max(abs(least.error), abs(fallback.error)) < 0.08


@pytest.mark.parametrize("seed", [501, 502])
def test_the_least_point_of_a_random_network_is_estimated_rightly(seed: int) -> None:
    """It takes the most calls; neither these seeds nor those of the judges were fitted to."""
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    done = compiled(random_layers.network(seed), "cortex-m4")
    assert abs(judge(with_point(done, done.points[0])).error) < WRONG


def test_packing_beside_an_accelerator_is_no_arithmetic() -> None:
    """The kernel moves bytes; it was taken for a hundred cycles a byte."""
    done = api.compile("zoo:resnet8", "cortex-m4", accelerators=("nvdla:config=large",)).compilation
    (packing,) = (part for part in done.parts.parts if part.name == "input/padded")
    cycles = packing.kernel.work_cycles
    assert cycles is not None
    assert cycles == pytest.approx(37_135, rel=0.25)  # simulated


@pytest.mark.parametrize("name", [f.name for f in core_families().values() if f.cycle_model])
def test_every_portable_kernel_has_figures(name: str) -> None:
    """Of the samples of all operators; `constant` serves shapes, which are folded before, and what
    `detections_s8_f32` takes depends on the scores."""
    family = core_family(name)
    found = (
        family.priced(sample.op, sample.site, sample.op.kernel(sample.site))
        for _, sample in SAMPLES
        if not sample.op.ALIAS
    )
    assert {kernel.name for kernel in found if kernel.work_cycles is None} <= {
        "constant",
        "detections_s8_f32",
    }
