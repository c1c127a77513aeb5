"""Law: a random network is TensorFlow Lite Micro's, also at its least memory and on the core.

`python -m benchmarks.torture --generator tflite-networks` draws more networks of the same kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from benchmarks.operators.judging import evaluated, first_difference
from benchmarks.operators.networks import draw_network
from benchmarks.operators.reference import Reference, Refusal, tflite_micro
from benchmarks.torture.case import Case, Outcome
from benchmarks.torture.tflite_judge import ARENA_BYTES, judge

SEED = 100
NETWORKS = 30
AT_EVERY_POINT = 2


@pytest.fixture(scope="module")
def reference() -> Iterator[Reference]:
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    with Reference(tflite_micro(ARENA_BYTES)) as found:
        yield found


def test_networks_agree_with_the_reference(reference: Reference) -> None:
    telling = outputs = 0
    for number in range(NETWORKS):
        drawn = draw_network(SEED, number)
        answer = reference.run(drawn.tflite(), drawn.values)
        assert not isinstance(answer, Refusal), f"network {number}: {answer}"
        difference = first_difference(evaluated(drawn), answer)
        assert not difference, f"network {number}: {difference}"
        outputs += len(answer)
        telling += sum(np.unique(output).size > 2 for output in answer)
    assert telling > outputs / 2, "most outputs are constant and say nothing"


def test_random_networks_contain_the_requested_features() -> None:
    drawn = [draw_network(SEED, number) for number in range(NETWORKS)]
    operators = [operator for network in drawn for operator in network.operators]
    names = {operator.name for operator in operators}
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "CONCATENATION", "MEAN", "PAD"} <= names
    for option in ("stride_h", "dilation_h_factor", "depth_multiplier"):
        assert any(operator.options.get(option, 1) != 1 for operator in operators), option
    assert any(len(network.inputs) > 1 for network in drawn)
    assert any(len(network.outputs) > 1 for network in drawn)


@pytest.mark.parametrize("number", range(AT_EVERY_POINT))
def test_networks_are_exact_in_c_at_every_point_of_the_frontier(
    number: int, host_compilers: Sequence[str]
) -> None:
    for extra in ("ziglang", "unicorn"):
        pytest.importorskip(extra, reason="the extra 'simulate' is not installed")
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    verdict = judge(Case(draw_network(SEED, number).tflite(), ".tflite", judge), deep=True)
    assert verdict.outcome is Outcome.EXACT, verdict.note
