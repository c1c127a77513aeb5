"""Convolutions of nvdla that start while the one before runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import BackendError
from penstock_nvdla.configurations import LARGE, SMALL, NvdlaConfiguration
from penstock_nvdla.cut import Convolution, hardware_layers
from penstock_nvdla.dataflow import rows_cycles
from penstock_nvdla.layer import ConvolutionLayer, NvdlaMemory, Padding, Surface
from penstock_nvdla.model import execute
from penstock_nvdla.overlap import divided, overlapping
from penstock_nvdla.sdp_constants import PassSettings
from penstock_nvdla.sequencer import Sequencer
from penstock_nvdla.stream import MEANWHILE, Write, convolution_writes, to_bytes
from penstock_nvdla.task import OUTPUT_REGISTER, Step, Task

SETTINGS = PassSettings(0, 0, 0, 0, 0, 1, one_sided=False)
OUTPUT_AT = 1 << 20
SOURCE_REGISTER, WEIGHTS_REGISTER = "CDMA.D_DAIN_ADDR_LOW_0", "CDMA.D_WEIGHT_ADDR_LOW"


def depthwise(chip: NvdlaConfiguration, size: int, channels: int, passes: int = 1) -> Task:
    shape = (size, size, channels)
    return Task(
        chip, *shape, *shape, 3, 3, pad_left=1, pad_top=1, passes=(SETTINGS,) * passes, by_pack=True
    )


def run(chip: NvdlaConfiguration, writes: Sequence[Write]) -> Sequencer:
    memory = {NvdlaMemory.MAIN: np.zeros(2 * OUTPUT_AT, np.uint8)}
    sequencer = Sequencer()
    execute(to_bytes(writes), memory, chip, sequencer)
    return sequencer


def placed(steps: Sequence[Step]) -> list[Write]:
    """The writes of steps, with outputs behind all that is read."""
    return [
        replace(write, word=write.word + OUTPUT_AT * (write.register == OUTPUT_REGISTER))
        for step in steps
        for write in step.writes
    ]


@pytest.mark.parametrize("passes", [1, 2])
def test_packs_of_channels_overlap_where_memory_is_late(passes: int) -> None:
    task = depthwise(LARGE, 28, 88, passes)
    steps = list(task.even_steps(0, 28))
    convolutions = [step for step in steps if isinstance(step.layer, ConvolutionLayer)]
    assert len(convolutions) >= 3 * passes
    assert [step.early for step in convolutions] == [False] + [True] * (len(convolutions) - 1)
    taken = run(LARGE, placed(steps)).cycles
    assert taken == rows_cycles(task, 0, 28, frozenset()).cycles
    alone = [write for write in placed(steps) if write != MEANWHILE]
    assert taken < run(LARGE, alone).cycles - 1000
    assert not any(step.early for step in depthwise(SMALL, 28, 88, passes).even_steps(0, 28))


def test_layers_that_the_buffer_cannot_contain_together_do_not_overlap() -> None:
    """Three rows of 2,560 columns take half of the banks."""
    shape = (2560, 20, 64)
    task = Task(LARGE, *shape, *shape, 3, 3, 1, 1, 1, 1, 1, 1, passes=(SETTINGS,), by_pack=True)
    steps = list(task.even_steps(0, 20))
    assert len(steps) > 2
    assert not any(step.early for step in steps)


@pytest.mark.parametrize(
    ("register", "word", "expected"),
    [
        (SOURCE_REGISTER, OUTPUT_AT + 4 * 10 * 32, "reads what the one before writes"),
        (WEIGHTS_REGISTER, OUTPUT_AT + 256, "reads what the one before writes"),
        ("SDP_RDMA.D_BS_BASE_ADDR_LOW", OUTPUT_AT, "reads what the one before writes"),
        ("banks", 0x00010001, "other banks"),
    ],
)
def test_a_convolution_that_starts_too_early_is_refused(
    register: str, word: int, expected: str
) -> None:
    steps = list(depthwise(LARGE, 10, 64).even_steps(0, 10))
    assert len(steps) == 2
    names = ("CDMA.D_BANK", "CSC.D_BANK") if register == "banks" else (register,)
    first, second = placed(steps[:1]), placed(steps[1:])
    changed = [replace(write, word=word) if write.register in names else write for write in second]
    assert changed != second
    run(LARGE, [*first, *changed[1:]])
    with pytest.raises(BackendError, match=expected) as caught:
        run(LARGE, [*first, *changed])
    assert caught.value.code == "nvdla-012"


def test_only_convolutions_overlap() -> None:
    (first, *_), (*_, last) = (
        list(depthwise(LARGE, 28, 32, passes).even_steps(0, 28)) for passes in (1, 2)
    )
    for writes in ([MEANWHILE, *placed([first])], [*placed([first]), MEANWHILE, *placed([last])]):
        with pytest.raises(BackendError, match="only convolutions may overlap"):
            run(LARGE, writes)


@pytest.mark.parametrize("size", [40, 100])
def test_rows_overlap_where_this_takes_fewer_cycles(size: int) -> None:
    """The layers leave in memory what as few as possible do, and the model counts fewer cycles."""
    generator, taken, left = np.random.default_rng(1), dict[int, int](), list[bytes]()
    content = generator.integers(0, 256, 2 * OUTPUT_AT, np.uint8)
    source, output = Surface.packed(size, size, 32), Surface.packed(size, size, 32, OUTPUT_AT)
    whole = Convolution(
        LARGE, size, size, 96, 40, 3, 3, source, output, 1 << 18, padding=Padding(1, 1, 1, 1)
    )
    for layers in (hardware_layers(whole), divided(whole)):
        memory, sequencer = {NvdlaMemory.MAIN: content.copy()}, Sequencer()
        together = overlapping(layers)
        found = together or layers
        begin = ([], *[[MEANWHILE] if together else []] * (len(found) - 1))
        writes = zip(begin, map(convolution_writes, found), strict=True)
        execute(to_bytes(w for one in writes for w in (*one[0], *one[1])), memory, LARGE, sequencer)
        taken[len(found)] = sequencer.cycles
        left.append(memory[NvdlaMemory.MAIN].tobytes())
    fewest, parts = sorted(taken)
    assert taken[parts] < 0.9 * taken[fewest]
    assert left[0] == left[1] != content.tobytes()


def test_a_convolution_of_which_the_buffer_cannot_store_all_weights_stays_whole() -> None:
    """Each part would fetch them again."""
    source, output = Surface.packed(8, 8, 32), Surface.packed(8, 8, 32, OUTPUT_AT)
    whole = Convolution(LARGE, 8, 8, 512, 1024, 3, 3, source, output, 1 << 18)
    assert divided(whole) == hardware_layers(whole)
