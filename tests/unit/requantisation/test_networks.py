"""Every channel of real networks has its class, and the reference's arithmetic serves only where
nothing cheaper is proved."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from penstock.backends.cores.common.layer import Requantised, reference_channels
from penstock.backends.cores.family import core_family, select_kernels
from penstock.passes.accumulate import accumulate
from penstock.pipeline.graphs import read, simplify
from penstock.requantisation.certify import certify_each

NETWORKS = (
    *("vww_96_int8", "kws_ref_model", "pretrainedResnet_quant", "ad01_int8", "hello_world_int8"),
    *("micro_speech_quantized", "mobilenetv2_160_035"),
)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_channel_is_proved(shared_models: Path, name: str) -> None:
    assert set(classes_of(shared_models, name, "dsp")) <= {"A", "B", "C"}


@pytest.mark.parametrize("kernels", ["dsp", "mve", "thumb"])
def test_the_reference_serves_where_nothing_else_is_proved(
    shared_models: Path, kernels: str
) -> None:
    """Random weights, and sums of more than 24 bits."""
    assert classes_of(shared_models, "rand_mobilenet_v2_0.35_144_int8", kernels)["D"] == 2


def classes_of(models: Path, name: str, kernels: str) -> Counter[str]:
    """Channels by class, of the kernel that serves each layer, and of the one without scratch."""
    graph = accumulate(simplify(read(str(models / f"{name}.tflite"))))
    counts: Counter[str] = Counter()
    for node in graph.nodes:
        if isinstance(node.op, Requantised):
            selected = select_kernels(node.op, node.site, core_family(kernels))
            assert len(selected.kernel.classes) == node.output.type.shape[-1]
            counts.update(selected.kernel.classes)
            for kernel in (selected.kernel, selected.fallback or selected.kernel):
                needs = [k for k, letter in enumerate(kernel.classes) if letter == "D"]
                alone = certify_each(
                    reference_channels(node.op, node.site).only(np.array(needs, int))
                )
                assert all(lone.form is None for lone in alone)
    return counts
