"""Law: an operator with any scales, zero points, shapes and options is TensorFlow Lite Micro's, and
on float32 with any numbers.

`python -m benchmarks.torture --generator tflite-layers --generator tflite-real` draws many more
models of the same kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from benchmarks.operators.drawing import Drawn
from benchmarks.operators.families import FAMILIES, draw
from benchmarks.operators.judging import Outcome, Verdict, difference_in_c, judge
from benchmarks.operators.real import REAL_FAMILIES, models
from benchmarks.operators.reference import Reference, tflite_micro
from penstock.ops.registry import foreign_names

MODELS = 10
NEXT_TO_TIES = ("RELU", "LEAKY_RELU", "ABS", "SUB", "FULLY_CONNECTED", "BATCH_MATMUL", "PRELU")
SATURATING = ("TANH", "LOGISTIC", "HARD_SWISH")
MORE_MODELS = 100


@pytest.fixture(scope="module")
def reference() -> Iterator[Reference]:
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    with Reference(tflite_micro()) as found:
        yield found


def assert_all_agree(family: str, seed: int, count: int, reference: Reference) -> None:
    """No model differs, and most are compared."""
    compared = 0
    for number in range(count):
        drawn = draw(family, seed, number)
        verdict = judge(drawn, reference)
        assert verdict.outcome is not Outcome.MISMATCH, f"{verdict.note}: {drawn.describe()}"
        compared += verdict.outcome in (Outcome.AGREES, Outcome.DEVIATES)
    assert compared > count / 2


def test_generated_c_computes_random_models(
    reference: Reference, host_compilers: Sequence[str]
) -> None:
    telling: list[tuple[Drawn, Verdict]] = []
    for family in (*NEXT_TO_TIES, *SATURATING):
        drawn = (draw(family, 300, number) for number in range(MODELS))
        judged = ((each, judge(each, reference)) for each in drawn)
        telling.append(next(pair for pair in judged if pair[1].is_telling))
    assert difference_in_c(telling) == ""


DRAWN_ELSEWHERE = {
    *("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT", "REDUCE_ANY", "REDUCE_ALL", "ONE_HOT"),
    *("ADD_N", "COS", "SIN"),
    *("LOCAL_RESPONSE_NORMALIZATION", "POW", "REDUCE_PROD", "SIGN"),
    *("RANK", "RANGE", "BROADCAST_ARGS", "FILL", "ZEROS_LIKE", "BUCKETIZE", "TOPK_V2", "CONV_3D"),
    *("CONV_3D_TRANSPOSE", "REVERSE_SEQUENCE", "SCATTER_ND", "SEGMENT_SUM"),
    *("BITWISE_XOR", "DYNAMIC_UPDATE_SLICE", "RIGHT_SHIFT"),
    "CUSTOM:TFLite_Detection_PostProcess",
}
"""Operators on plain numbers, which unit/ops/test_plain_numbers_reference.py and
test_real_numbers_reference.py judge; those that the reference lacks, which ONNX's node tests or
unit/ops/test_foreign_forms.py and test_places_and_remainders.py judge; and one that
unit/frontends/test_unsigned.py judges."""


def test_every_tflite_operator_has_a_family() -> None:
    families = {name.split()[0] for name in FAMILIES}
    assert families.isdisjoint(DRAWN_ELSEWHERE)
    assert families | DRAWN_ELSEWHERE == set(foreign_names())


@pytest.mark.parametrize("family", FAMILIES)
def test_random_models_agree_with_the_reference(family: str, reference: Reference) -> None:
    assert_all_agree(family, 100, MODELS, reference)


@pytest.mark.parametrize("family", [*NEXT_TO_TIES, *SATURATING])
def test_models_next_to_ties_and_beyond_saturation_agree(family: str, reference: Reference) -> None:
    assert_all_agree(family, 200, MORE_MODELS, reference)


@pytest.mark.parametrize("family", REAL_FAMILIES)
def test_random_models_on_real_numbers_agree_with_the_reference(
    family: str, reference: Reference
) -> None:
    for drawn in models(family, MODELS, 100):
        verdict = judge(drawn, reference)
        assert verdict.outcome is not Outcome.MISMATCH, f"{verdict.note}: {drawn.describe()}"
        assert verdict.outcome is not Outcome.PENSTOCK_REFUSES, verdict.note
