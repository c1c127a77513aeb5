"""ethos_u.schedule: what segments of constants cost, copied in a call or fetched before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock_ethos_u.call import EncodedOperation
from penstock_ethos_u.configurations import CONFIGURATIONS, U65_256
from penstock_ethos_u.cost import contiguous_cost
from penstock_ethos_u.operation import (
    NpuFunction,
    Operation,
    copied_before,
    prefetch_choices,
    with_prefetched_segments,
)
from penstock_ethos_u.performance import copying_cycles, cycles
from penstock_ethos_u.schedule import scheduled, scheduled_for_prefetch


@st.composite
def layers(draw: st.DrawFn) -> Operation:
    """Convolutions with constants as long as their weights."""
    height, width = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    inner, outer = draw(st.integers(1, 300)), draw(st.integers(1, 300))
    size = draw(st.sampled_from((1, 3)))
    return Operation(
        draw(st.sampled_from(tuple(CONFIGURATIONS.values()))), NpuFunction.CONVOLUTION,
        *(height, width, inner, height, width, outer), kernel_h=size, kernel_w=size,
        pad_top=size // 2, pad_left=size // 2, packed_in=draw(st.booleans()),
        packed_out=draw(st.booleans()), constant_bytes=inner * outer * size * size,
    )  # fmt: skip


def sizes(op: Operation) -> list[int]:
    return [op.constant_bytes * channels // op.out_c for channels in op.segment_channels]


def alone(op: Operation, rows: int, segment: int) -> int:
    """Whole cycles of a segment's operation without anything beside it."""
    work = op.work(rows, segment)
    found = op.fastest_block_and_cycles(work)
    assert found is not None
    return int(cycles(work, np.array([found[0]])).total[0])


@given(plain=layers(), buffered=st.booleans(), share=st.integers(0, 4), rows=st.integers(1, 20))
def test_a_call_takes_no_less_than_its_parts_and_no_more_than_one_after_the_other(
    plain: Operation, buffered: bool, share: int, rows: int
) -> None:
    rows = min(rows, plain.out_h)
    if share:
        op = scheduled_for_prefetch(plain, plain.constant_bytes)
        op = with_prefetched_segments(
            op, prefetch_choices(op)[min(share, len(prefetch_choices(op))) - 1]
        )
    else:
        op = scheduled(plain, plain.constant_bytes, buffered=buffered)
    chip, taken = op.configuration, contiguous_cost(EncodedOperation(op), rows).cycles
    computing = [alone(op, rows, k) for k in range(len(op.segment_channels))]
    copies = [copying_cycles(chip, sizes(op)[k]) for k in op.buffered]
    assert sum(computing) <= taken + 1
    assert sum(copies) + (computing[-1] if op.buffered else 0) <= taken + 1
    assert taken <= sum(computing) + sum(copies) + 1
    if not op.buffered:
        assert abs(taken - sum(computing)) <= 1


@given(plain=layers())
def test_prefetched_constants_are_not_copied_and_save_cycles(plain: Operation) -> None:
    op = scheduled_for_prefetch(plain, plain.constant_bytes)
    shares = prefetch_choices(op)
    assert shares[0] == 1
    assert shares[-1] == len(op.segment_channels)
    fetched = [with_prefetched_segments(op, ahead) for ahead in shares]
    for one in fetched:
        assert one.buffered == (
            range(one.prefetched_segments, len(op.segment_channels))
            if one.buffer_bytes
            else range(0)
        )
        assert all(one.reads_copy(k) for k in range(len(op.segment_channels)))
    assert fetched[-1].buffered == range(0)
    assert fetched[-1].scratch_bytes == fetched[-1].gather_bytes
    assert (
        contiguous_cost(EncodedOperation(fetched[-1]), op.out_h).cycles
        <= contiguous_cost(EncodedOperation(op), op.out_h).cycles
    )


@given(plain=layers())
def test_a_buffer_is_free_before_something_is_copied_into_it(plain: Operation) -> None:
    """Two buffers: what is copied before segment k lies where segment k - 1 and others before it
    have been used."""
    every = scheduled_for_prefetch(plain, plain.constant_bytes)
    for ahead in range(len(every.segment_channels)):
        op = with_prefetched_segments(every, ahead)
        for segment in op.buffered:
            before = copied_before(op, segment)
            assert before <= segment
            sharing = [k for k in op.buffered if k < segment and (segment - k) % op.buffers == 0]
            assert all(k < before for k in sharing)


def test_biases_that_are_near_are_waited_for_less() -> None:
    far = Operation(U65_256, NpuFunction.DEPTHWISE, 9, 5, 64, 9, 5, 64,
                    kernel_h=3, kernel_w=3, pad_top=1, pad_left=1, block_depth=32,
                    constant_bytes=1328)  # fmt: skip
    near = replace(far, prefetched_biases=True)
    wait = 10 * 32 * (500 - 32) / 256
    spared = (
        contiguous_cost(EncodedOperation(far), 1).cycles
        - contiguous_cost(EncodedOperation(near), 1).cycles
    )
    assert 0 < spared <= 2 * wait
