"""Law: every operator lists samples, so that the other laws have something to run over."""

from __future__ import annotations

import pytest

from found import SAMPLES, every_sample
from penstock.ir.op import Op, Sample
from penstock.ir.tensor import TensorType
from penstock.ops.registry import OperatorFile, foreign_names, operator_files, operators


@pytest.mark.parametrize("file", operator_files(), ids=lambda file: file.module.__name__)
def test_every_operator_file_lists_at_least_two_samples(file: OperatorFile) -> None:
    assert len(file.samples) >= 2


@pytest.mark.parametrize("op", operators().values(), ids=lambda op: op.__name__)
def test_every_operator_has_a_sample(op: type[Op]) -> None:
    assert any(type(sample.op) is op for _, sample in SAMPLES)


def test_no_two_operators_have_one_name() -> None:
    classes = [op for file in operator_files() for op in file.ops]
    assert len({op.__name__ for op in classes}) == len(classes)
    names = [name for file in operator_files() for op in file.ops for name in op.TFLITE]
    assert sorted(names) == sorted(foreign_names())


@every_sample
def test_a_sample_is_small(sample: Sample) -> None:
    tensors: tuple[TensorType, ...] = (*sample.site.inputs, sample.site.output)
    assert min(t.elements for t in tensors) > 0
    assert max(t.elements for t in tensors) <= 4096
