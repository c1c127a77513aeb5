"""Comments of steps contain every tensor under the kernel's name for it."""

from __future__ import annotations

import re

import pytest

from penstock import api


@pytest.mark.parametrize(
    ("target", "accelerators"),
    [("cortex-m0plus", ()), ("cortex-m4", ()), ("cortex-m55", ()), ("host", ("ethos_u55",))],
)
def test_only_computed_tensors_are_labelled_x(target: str, accelerators: tuple[str, ...]) -> None:
    done = api.compile("zoo:lenet5", target, accelerators=accelerators).compilation
    constants = {value.name for value in done.graph.constants()}
    text = done.bundle[f"{done.prefix}.c"].decode()
    labels = re.findall(
        r"^ \*   (\w+|input \d+) +\w+ \([\d, ]+\)(?: zero -?\d+)?  (\S+)", text, re.M
    )
    assert labels
    assert constants & {tensor for _, tensor in labels}
    assert not [tensor for label, tensor in labels if label == "x" and tensor in constants]
    if target != "host":
        assert "x" in {label for label, _ in labels}
