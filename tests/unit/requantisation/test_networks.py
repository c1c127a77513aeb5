"""Every channel of real networks has its class, and none needs the reference's arithmetic."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from penstock.backends.cortex_m.layer import LayerOp
from penstock.backends.cortex_m.variants import kernel_for
from penstock.pipeline import read, simplify


@pytest.mark.parametrize(("name", "channels"), [("vww_96_int8", 2738), ("kws_ref_model", 588)])
def test_every_channel_is_proved(shared_models: Path, name: str, channels: int) -> None:
    graph = simplify(read(str(shared_models / f"{name}.tflite")))
    counts: Counter[str] = Counter()
    for node in graph.nodes:
        if isinstance(node.op, LayerOp):
            classes = kernel_for(node.op, node.site, "dsp").classes
            assert len(classes) == node.output.type.shape[-1]
            counts.update(classes)
    assert counts.total() == channels
    assert set(counts) <= {"A", "B", "C"}
