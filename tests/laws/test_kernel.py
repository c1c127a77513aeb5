"""Law: what an operator tells of its kernel is what the kernel's C header says.

`struct NAME` has exactly the members that params, tables and constants name; the function has the
one signature that generated code calls.
"""

from __future__ import annotations

from benchmarks.small_tensors import Sample
from c_header import header
from found import every_computing_sample
from penstock.ir.op import Kernel
from penstock.ir.tensor import DType

POINTERS = {
    DType.INT8: "const int8_t *",
    DType.UINT8: "const uint8_t *",
    DType.INT16: "const int16_t *",
    DType.INT32: "const int32_t *",
    DType.BOOL: "const int8_t *",
    DType.FLOAT32: "const float *",
}
MAY_BE_ABSENT = {("const float *", name) for name in ("after", "peepholes", "scales")}
"""Members of recurrent layers that are NULL where the layer has no such constants."""
REQUANTISATION = {
    ("const int32_t *", "multiplier"),
    ("const int8_t *", "shift"),
    ("const int32_t *", "forms"),
}
"""Of channels: multipliers and shifts, or forms (`runtime/certified.h`); the others are NULL."""
SIGNATURE = (
    "const struct {name} *p, const penstock_source *x, const penstock_sink *y, "
    "int32_t lower, int32_t upper"
)


def declared_members(kernel: Kernel, sample: Sample) -> set[tuple[str, str]]:
    """(C type, name) of every member that the operator names."""
    numbers = {("int32_t", name) for name, _ in kernel.params}
    tables = {(POINTERS[table.type.dtype], name) for name, table in kernel.tables}
    if "weight_bytes" in dict(kernel.params):  # which tells their type
        tables = {("const void *", n) if n == "weights" else (t, n) for t, n in tables}
    inputs = sample.site.inputs
    return numbers | tables | {(POINTERS[inputs[k].dtype], name) for k, name in kernel.constants}


@every_computing_sample
def test_the_parameter_structure_has_exactly_the_members_that_are_named(sample: Sample) -> None:
    kernel = sample.op.kernel(sample.site)
    found, declared = set(header(kernel.name).members), declared_members(kernel, sample)
    assert declared <= found
    absent = REQUANTISATION if declared & REQUANTISATION else set[tuple[str, str]]()
    assert found - declared <= absent | MAY_BE_ABSENT


@every_computing_sample
def test_no_member_is_named_twice(sample: Sample) -> None:
    kernel = sample.op.kernel(sample.site)
    names = [name for name, _ in (*kernel.params, *kernel.tables)]
    names += [name for _, name in kernel.constants]
    assert len(set(names)) == len(names)


@every_computing_sample
def test_parameters_fit_int32(sample: Sample) -> None:
    for name, value in sample.op.kernel(sample.site).params:
        assert -(2**31) <= value < 2**31, name


@every_computing_sample
def test_the_kernel_has_the_signature_that_generated_code_calls(sample: Sample) -> None:
    kernel = sample.op.kernel(sample.site)
    scratch = ", int8_t *scratch" if kernel.scratch_bytes else ""
    assert header(kernel.name).signature == SIGNATURE.format(name=kernel.name) + scratch


@every_computing_sample
def test_only_constant_inputs_are_read_as_constants(sample: Sample) -> None:
    for k, _ in sample.op.kernel(sample.site).constants:
        assert sample.site.constants[k] is not None


@every_computing_sample
def test_a_kernel_that_computes_any_rows_sees_data_through_views(sample: Sample) -> None:
    kernel = sample.op.kernel(sample.site)
    text = header(kernel.name).text
    assert not kernel.by_rows or text.count("penstock_write_row(") > 1  # one is its definition
