"""ethos_u.interpreter.hazards: what is not waited for is caught, what is waited for passes."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethos_u_judge import address
from ethos_u_layers import (
    BLOCKDEP,
    CONSTANTS,
    DMA_WAIT,
    KERNEL_WAIT,
    MAPS,
    Stage,
    api,
    commands,
    layouts,
    replaced,
)
from penstock.uma import BackendError
from strategies import seeds

SHARED = (1 << 8) | 3


def hazard(stage: Stage, words: list[int], *, waited: bool = False) -> str:
    """The message that a stream raises."""
    with pytest.raises(BackendError) as raised:
        stage.run(words, waited=waited)
    assert raised.value.code == "ethosu-110"
    return str(raised.value)


def pooled(stage: Stage, ifm: Any, ofm: Any, size: int = 1, block: int = 0) -> Any:
    """The greatest of windows of some rows, one column."""
    op = api.NpuPoolingOperation(api.NpuPoolingOp.MAX)
    op.ifm, op.ofm = ifm, ofm
    op.kernel, op.padding = api.NpuKernel(1, size), api.NpuPadding(0, 0, 0, 0)
    return stage.add(op, block)


def copied(stage: Stage, source: Any, target: Any, length: int) -> None:
    """A copy of bytes from (region, address) to another."""
    ends = (api.NpuAddressRange(*end, length) for end in (source, target))
    stage.add(api.NpuDmaOperation(*ends))


def at(map: Any, offset: int = 0) -> tuple[int, int]:
    return map.region, map.tiles.addresses[0] + offset


def test_a_copy_that_is_not_waited_for() -> None:
    stage = Stage()
    first, second = stage.map((4, 4, 16)), stage.map((4, 4, 16))
    copied(stage, (CONSTANTS, 0), at(first), 64)
    pooled(stage, first, second)
    words = stage.stream()
    stage.run(words)
    message = hazard(stage, replaced(words, DMA_WAIT, None))
    assert "it reads what the earlier operation writes: bytes [0x0, 0x40) of region 1" in message
    assert "operation 1 (max_pool)" in message
    assert "operation 0 (dma)" in message
    assert "no NPU_OP_DMA_WAIT" in message


def test_a_copy_to_other_bytes_needs_no_wait() -> None:
    stage = Stage()
    first, second, other = (stage.map((4, 4, 16)) for _ in range(3))
    copied(stage, (CONSTANTS, 0), at(other), 64)
    pooled(stage, first, second)
    words = stage.stream()
    assert [c for c in commands(words) if c[0] & 0xFFFF == DMA_WAIT] == []
    stage.run(words)


@pytest.mark.parametrize("end", ["source", "target"])
def test_a_copy_that_does_not_wait_for_blocks(end: str) -> None:
    """It may not overwrite what is being read, nor read what is being written."""
    stage = Stage()
    first, second = stage.map((4, 4, 16)), stage.map((4, 4, 16))
    pooled(stage, first, second)
    ends = (CONSTANTS, 0), at(first)
    if end == "source":
        ends = at(second), (CONSTANTS, 0)
    copied(stage, *ends, 64)
    words = stage.stream()
    stage.run(words)
    assert "no NPU_OP_KERNEL_WAIT" in hazard(stage, replaced(words, KERNEL_WAIT, None))
    stage.run(replaced(words, KERNEL_WAIT, 0))
    hazard(stage, replaced(words, KERNEL_WAIT, 1))


def test_only_two_block_operations_are_under_way() -> None:
    """The third begins when the first is done; a copy then need not wait for it."""
    stage = Stage()
    maps = [stage.map((4, 4, 16)) for _ in range(6)]
    for k in (0, 2, 4):
        pooled(stage, maps[k], maps[k + 1])
    copied(stage, (CONSTANTS, 0), at(maps[0]), 64)
    words = stage.stream()
    assert [c for c in commands(words) if c[0] & 0xFFFF == KERNEL_WAIT] == []
    stage.run(words)


def test_copies_one_after_the_other_on_u55_beside_each_other_on_u65() -> None:
    for accelerator in ("ethos-u55-256", "ethos-u65-256"):
        stage = Stage(accelerator)
        first, second = stage.map((4, 4, 16)), stage.map((4, 4, 16))
        copied(stage, (CONSTANTS, 0), at(first), 64)
        copied(stage, at(first), at(second), 64)
        words = stage.stream()
        if accelerator == "ethos-u55-256":
            stage.run(words)
        else:
            assert "no NPU_OP_DMA_WAIT" in hazard(stage, words)


@pytest.mark.parametrize("accelerator", ["ethos-u55-256", "ethos-u65-256"])
def test_an_outstanding_copy_at_the_end_is_reported_or_refused(
    accelerator: str,
) -> None:
    """Two are done by then, if a wait says so, or one if it says that."""
    stage = Stage(accelerator)
    first, second, third = (stage.map((4, 4, 16)) for _ in range(3))
    pooled(stage, first, second)
    copied(stage, (CONSTANTS, 0), at(first), 64)
    copied(stage, (CONSTANTS, 64), at(third), 64)
    *words, stop = stage.stream()
    names = ("operation 1 (dma)", "operation 2 (dma)")[accelerator == "ethos-u55-256" :]
    for wait, under_way in (([], names), ([DMA_WAIT | 1 << 16], names[-1:])):
        told = stage.run([*words, *wait, stop]).unfinished
        assert tuple(where.split(",")[0] for where in told) == under_way
        message = hazard(stage, [*words, *wait, stop], waited=True)
        assert "it may be outstanding when the stream ends" in message
        assert "operation 2 (dma)" in message
        assert "no NPU_OP_DMA_WAIT" in message
    assert stage.run([*words, DMA_WAIT, stop], waited=True).unfinished == ()


def test_blocks_may_be_under_way_at_the_end() -> None:
    """Every stream of Vela's ends so."""
    stage = Stage()
    first, second = stage.map((4, 4, 16)), stage.map((4, 4, 16))
    copied(stage, (CONSTANTS, 0), at(first), 64)
    pooled(stage, first, second)
    assert stage.run(waited=True).unfinished == ()


def test_a_block_dependency_that_is_too_high() -> None:
    """Vela lets an operation wait for the whole of one that writes what its first block reads."""
    stage = Stage()
    first, second, third = (stage.map((8, 8, 16)) for _ in range(3))
    pooled(stage, first, second, block=-1)
    pooled(stage, second, third, block=-1)
    words = stage.stream()
    stage.run(words)
    assert [c[0] >> 16 for c in commands(words) if c[0] & 0xFFFF == BLOCKDEP] == [0]
    found = commands(words)
    found.insert(-2, [BLOCKDEP | 3 << 16])
    message = hazard(stage, [word for command in found for word in command])
    assert "NPU_SET_BLOCKDEP 3 lets job 0 start before block 0 of the earlier operation" in message
    assert "operation 1 (max_pool)" in message
    assert "operation 0 (max_pool)" in message


def test_an_operation_may_not_write_what_its_later_blocks_read() -> None:
    """A window of three rows, whose output lies two rows above: rows are read before."""
    stage = Stage("ethos-u55-32")
    first = stage.map((12, 4, 16))
    later = stage.map((10, 4, 16))
    op = pooled(stage, first, later, size=3)
    tall = next(b for b in api.npu_find_block_configs(op, stage.npu) if b.height == 2)
    op.block_config = tall
    for rows, right in ((0, True), (1, False), (3, False)):
        base = first.tiles.addresses[0] + rows * first.strides.height
        later.tiles = later.tiles._replace(addresses=[base, 0, 0, 0])
        words = stage.stream()
        if right:
            stage.run(words)
        else:
            message = hazard(stage, words)
            assert "writes in block" in message
            assert "reads of IFM" in message


def test_accumulators_must_not_overwrite_a_table_in_use() -> None:
    """With 16 KiB of shared memory."""
    stage = Stage("ethos-u55-64")
    maps = [stage.map((4, 4, 16)) for _ in range(4)]
    copied(stage, (CONSTANTS, 0), (SHARED, 14 * 1024), 256)
    op = pooled(stage, maps[0], maps[1])
    op.activation = api.NpuActivation(api.NpuActivationOp.TABLE_LOOKUP)
    pooled(stage, maps[2], maps[3])
    words = stage.stream()
    stage.run(words)
    places = [c for c in commands(words) if c[0] & 0xFFFF == BLOCKDEP]
    assert [c[0] >> 16 for c in places] == [0]
    found = commands(words)
    last = max(k for k, c in enumerate(found) if c[0] & 0xFFFF == 0x005)
    found.insert(last, [BLOCKDEP | 1 << 16])
    message = hazard(stage, [word for command in found for word in command])
    assert "has its accumulators where the earlier operation has its table" in message


def bytes_of(map: Any, box: tuple[range, range, range]) -> set[int]:
    return {address(map, *place) for place in product(*box)}


def boxes(shape: Any, block: Any) -> list[tuple[range, range, range]]:
    """Blocks, channels first, then columns, then rows."""
    found = []
    for y, x, c in product(*(range(0, n, b) for n, b in zip(shape, block, strict=True))):
        at = (y, x, c)
        sides = zip(at, block, shape, strict=True)
        found.append(tuple(range(k, min(k + b, n)) for k, b, n in sides))
    return found


@given(data=st.data(), seed=seeds)
def test_the_highest_accepted_blockdep_equals_a_byte_by_byte_search(
    data: st.DataObject, seed: int
) -> None:
    """One operation writes rows of a map, the next reads rows of it, wherever those lie."""
    stage = Stage(data.draw(st.sampled_from(("ethos-u55-32", "ethos-u55-256"))), seed)
    layout, depth = data.draw(layouts), data.draw(st.integers(1, 40))
    width, rows, size = (data.draw(st.integers(1, n)) for n in (12, 12, 3))
    first = stage.map((rows, width, depth), layout=layout)
    middle = stage.map((rows, width, depth), layout=layout)
    more = data.draw(st.integers(0, 2))
    taken = stage.map((rows + more + size - 1, width, depth), layout=layout)
    moved = data.draw(st.integers(-2, 2)) * middle.strides.height
    base = max(0, middle.tiles.addresses[0] + moved)
    taken.tiles = taken.tiles._replace(addresses=[base, 0, 0, 0])
    last = stage.map((rows + more, width, depth), layout=layout)
    one = pooled(stage, first, middle, block=data.draw(st.integers(0, 99)))
    two = pooled(stage, taken, last, size, block=data.draw(st.integers(0, 99)))
    written = [bytes_of(middle, box) for box in boxes(middle.shape, one.block_config)]
    read = [
        bytes_of(taken, (range(y.start, y.stop + size - 1), x, c))
        for y, x, c in boxes(last.shape, two.block_config)
    ]
    safe = max(
        d
        for d in range(4)
        if not any(
            read[i] & written[-1 - j]
            for i, j in product(range(len(read)), range(len(written)))
            if i + j < d
        )
    )
    words = stage.stream()
    stage.run(words)
    found = commands(words)
    pools = [k for k, c in enumerate(found) if c[0] & 0xFFFF == 0x005]
    for d in range(4):
        changed = [*found[: pools[1]], [BLOCKDEP | d << 16], *found[pools[1] :]]
        changed_words = [word for command in changed for word in command]
        if d <= safe:
            stage.run(changed_words)
        else:
            hazard(stage, changed_words)


def test_a_removed_wait_in_any_place_is_caught_or_was_not_needed() -> None:
    """Every wait of a chain of copies and operations on the same bytes is needed."""
    stage = Stage()
    maps = [stage.map((4, 4, 16)) for _ in range(2)]
    for _ in range(4):
        copied(stage, (CONSTANTS, 0), at(maps[0]), 256)
        pooled(stage, *maps)
    words = stage.stream()
    stage.run(words)
    for code in (DMA_WAIT, KERNEL_WAIT):
        places = sum(c[0] & 0xFFFF == code for c in commands(words))
        assert places >= 3
        for place in range(places):
            hazard(stage, replaced(words, code, None, place))


def test_regions_are_apart() -> None:
    """The same addresses of another region are other bytes."""
    stage = Stage()
    first, second = stage.map((4, 4, 16)), stage.map((4, 4, 16))
    copied(stage, (MAPS, 4096), (CONSTANTS, first.tiles.addresses[0]), 64)
    pooled(stage, first, second)
    stage.run()
