"""What kernels are estimated to take, beside what the simulated core counts: random layers of seeds
that the figures were not fitted to."""

from __future__ import annotations

import pytest

from benchmarks import random_layers
from benchmarks.estimate import FIRST_LAYERS, WRONG, judge
from benchmarks.measured import WHOLE, compiled
from penstock import api
from penstock.backends.cortex_m.figures import counts_of
from penstock.pipeline import with_point


@pytest.mark.parametrize("seed", [FIRST_LAYERS, FIRST_LAYERS + 1])
def test_no_layer_of_weight_is_estimated_wrongly(seed: int) -> None:
    """Kernels that several layers share are within a quarter; of those that a compiler specialises
    for one layer, all but a few."""
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    judged = judge(compiled(random_layers.mixture(seed), "cortex-m4", WHOLE))
    assert [one for one in judged.missed if not one.alone] == []
    assert len(judged.missed) <= len(judged.weighty) // 10


@pytest.mark.parametrize("seed", [501, 502])
def test_the_least_point_of_a_random_network_is_estimated_rightly(seed: int) -> None:
    """It takes the most calls; neither these seeds nor those of the judges were fitted to."""
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    done = compiled(random_layers.network(seed), "cortex-m4")
    assert abs(judge(with_point(done, done.points[0])).error) < WRONG


def test_packing_beside_an_accelerator_is_no_arithmetic() -> None:
    """The kernel moves bytes; it was taken for a hundred cycles a byte."""
    done = api.compile("zoo:resnet8", "cortex-m4", accelerators=("nvdla:config=large",)).compilation
    (packing,) = (part for part in done.parts.parts if part.name == "input/packed")
    cycles = packing.kernel.work_cycles
    assert cycles is not None
    assert cycles == pytest.approx(44_198, rel=0.25)  # simulated


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m0plus", "cortex-m55"])
def test_every_portable_kernel_has_figures(target: str) -> None:
    request = api.request("zoo:lenet5", target)
    assert request.target.engines[0].kernels in {"dsp", "thumb", "mve"}
    for seed in range(2):
        for part in compiled(random_layers.mixture(seed), target, WHOLE).parts.parts:
            counts = counts_of(part.nodes[-1].op, part.nodes[-1].site, part.kernel)
            assert part.kernel.work_cycles is not None, part.kernel.name
            assert counts is None or all(count >= 0 for count in counts.values())
