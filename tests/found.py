"""The contents of the registries as test parameters; new files join the laws automatically."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from benchmarks.small_tensors import Sample
from penstock.ir.op import Site
from penstock.ir.tensor import Array, DType, Region, TensorType, row_before

SAMPLES: tuple[tuple[str, Sample], ...] = tuple(
    (f"{path.stem}-{k}", sample)
    for path in sorted(Path(__file__).with_name("samples").glob("*.py"))
    for k, sample in enumerate(import_module(f"samples.{path.stem}").SAMPLES)
)
"""(file and index, sample) of every sample in `samples/`."""

every_sample = pytest.mark.parametrize(
    "sample", [pytest.param(sample, id=name) for name, sample in SAMPLES]
)
every_computing_sample = pytest.mark.parametrize(
    "sample", [pytest.param(sample, id=name) for name, sample in SAMPLES if not sample.op.ALIAS]
)


few = settings(max_examples=settings().max_examples // 3)
"""Settings of laws over every sample: fewer examples for each."""


def elements(type: TensorType, seed: int) -> Array:
    """Random elements of a tensor, over the whole range of small integer types."""
    rng = np.random.default_rng(seed)
    if type.dtype in (DType.FLOAT16, DType.FLOAT32):
        return rng.normal(0, 3, type.shape).astype(type.dtype.value)
    if type.dtype is DType.BOOL:
        return rng.integers(0, 2, type.shape).astype(np.bool_)
    lower, upper = (type.dtype.lower, type.dtype.upper)
    if type.dtype.size_bytes > 2:
        lower, upper = -(2**20), 2**20
    return rng.integers(lower, upper, type.shape).astype(type.dtype.value)


def with_before(
    sample: Sample, inputs: tuple[Array, ...], out: Region, output: Array
) -> tuple[Array, ...]:
    """The inputs for region `out`, and the previous output if the operator is recurrent.

    The previous output has the row before `out`, and poison elsewhere.
    """
    if sample.op.ALIAS or not (kernel := sample.op.kernel(sample.site)).recurrent:
        return inputs
    there = np.frombuffer(b"\xa5" * output.nbytes, output.dtype).reshape(output.shape).copy()
    before = row_before(out)
    if not kernel.accumulates:
        before = before.replace(len(output.shape) - 1, (0, output.shape[-1]))
    there[before.slices] = output[before.slices]
    return (*inputs, there)


def inputs_of(site: Site, seed: int) -> tuple[Array, ...]:
    """Elements of every input: constants, and random numbers for the others."""
    return tuple(
        elements(type, seed + k) if site.constants[k] is None else site.constant(k)
        for k, type in enumerate(site.inputs)
    )
