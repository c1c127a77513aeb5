"""A driver of nvdla may run layers as late as in `nvdla_wait`: programs then compute the same, and
without their waits something else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from available import path_of
from lowered import inputs_of_graph
from offloading import compiled
from penstock import api, execution
from penstock.errors import InternalError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.ir.tensor import Array
from penstock.ops.unary import LeakyRelu
from penstock.pipeline.compilation import Compilation, compile_request
from penstock.program.program import Command, Invoke, Loop, Program
from penstock.scheduling.model.parts import fused_members
from penstock.scheduling.options import BYTES, DEFAULTS, Options
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine
from penstock.toolchains.compiler import compile_objects
from penstock.toolchains.host import host_compiler

DRIVER = Path(__file__).with_name("deferred_nvdla.c")
WAIT = "nvdla_wait();"
TILES = Options(partition="best", objective=BYTES)

Inputs = Mapping[str, Array]


class DeferredLibrary:
    """The generated code of a network, to be linked with the driver that runs layers late."""

    def __init__(self, done: Compilation, folder: Path) -> None:
        self._done, self._folder = done, folder
        for name, content in done.bundle.files:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        (folder / DRIVER.name).write_text(DRIVER.read_text())
        (self._code,) = (
            name
            for name in execution.library_sources(done)
            if name != "nvdla.c" and WAIT in (folder / name).read_text()
        )
        others = (n for n in execution.library_sources(done) if n not in (self._code, "nvdla.c"))
        self._rest = self._objects((*others, DRIVER.name), "rest")
        self.text = (folder / self._code).read_text()

    def _objects(self, names: Sequence[str], folder: str) -> tuple[Path, ...]:
        paths = [self._folder / name for name in names]
        return tuple(
            compile_objects(host_compiler(), paths, self._folder / folder, include=(self._folder,))
        )

    def is_equal(self, text: str, sets: Sequence[Inputs]) -> bool:
        """Whether the outputs equal those of the graph, if `text` is the source of the run."""
        (self._folder / self._code).write_text(text)
        library = (*self._objects((self._code,), "own"), *self._rest)
        found = execution.outputs_on_host(self._done, sets, host_compiler(), library)
        expected = [run_graph(self._done.model, inputs) for inputs in sets]
        return all(
            (mine[name] == theirs[name]).all()
            for mine, theirs in zip(found, expected, strict=True)
            for name in mine
        )


def without_one_wait(text: str) -> Iterator[str]:
    """The source without each of its waits."""
    pieces = text.split(WAIT)
    for k in range(1, len(pieces)):
        yield WAIT.join(pieces[:k]) + ";" + WAIT.join(pieces[k:])


def commands_without_one_wait(commands: Sequence[Command]) -> Iterator[tuple[Command, ...]]:
    """The commands without each of their waits."""
    for k, command in enumerate(commands):
        before, after = commands[:k], commands[k + 1 :]
        if isinstance(command, Invoke):
            yield (*before, *after)
        elif isinstance(command, Loop):
            for body in commands_without_one_wait(command.body):
                yield (*before, replace(command, body=body), *after)


def is_refused(program: Program, inputs: Inputs) -> bool:
    try:
        Machine(program).run(inputs)
    except InternalError as error:
        return error.code == "machine-012"
    return False


def assert_late(done: Compilation, folder: Path) -> None:
    """Asserts that outputs are equal in C and on the reference machine with all waits; that they
    differ in C without some of the waits, each taken alone; and that the machine refuses to miss at
    least as many.

    C needs no wait before a step of the processor that uses nothing of the queued layers, or that
    moves no bytes because it computes in place."""
    sets = [inputs_of_graph(done.model, seed) for seed in (3, 4)]
    library = DeferredLibrary(done, folder)
    assert library.is_equal(library.text, sets)
    assert not is_refused(done.program, sets[0])
    wrong = [not library.is_equal(text, sets) for text in without_one_wait(library.text)]
    runs = commands_without_one_wait(done.program.run)
    refused = [is_refused(replace(done.program, run=run), sets[0]) for run in runs]
    assert len(wrong) == len(refused)
    assert 0 < sum(wrong) <= sum(refused)


def branches() -> Graph:
    """Convolutions, and between them a lookup and a depthwise convolution on the processor."""
    net = GraphBuilder("branches")
    a = net.conv2d(net.input((1, 20, 12, 8), zero_point=3), 16, 3, activation="relu", name="a")
    b = net.apply(LeakyRelu(0.1), a, quantisation=a.type.quantisation, name="b")
    c = net.conv2d(b, 16, 3, activation="relu", name="c")
    d = net.depthwise_conv2d(a, 5, multiplier=2, name="d")
    e = net.conv2d(d, 16, 1, activation="relu", name="e")
    y = net.conv2d(net.add(c, e, name="sum"), 8, 3, activation="relu", name="y")
    return net.build(y, net.max_pool2d(c, 2, name="z"))


def test_layers_run_late_in_loops(tmp_path: Path) -> None:
    done = compiled(branches(), "nvdla", sram_bytes=10500)
    loops = [c for c in done.program.run if isinstance(c, Loop)]
    assert any(isinstance(c, Invoke) for loop in loops for c in loop.body)
    assert_late(done, tmp_path)


def network(
    model: str, attributes: str, options: Options = DEFAULTS, sram: int | None = None
) -> Compilation:
    nvdla = f"nvdla:{attributes}"
    request = api.request(
        path_of(model), "host", accelerators=(nvdla,), options=options, sram=sram, optimize="speed"
    )
    return compile_request(request)


def test_groups_in_tiles_run_late(tmp_path: Path) -> None:
    done = network("zoo:squeezenet:resolution=64", "config=large,cvsram=8k", TILES)
    assert any(fused_members(part) for part in done.schedule.parts.parts)
    assert_late(done, tmp_path)


def test_residual_layers_run_late(tmp_path: Path) -> None:
    assert_late(network("zoo:resnet8:resolution=16", "config=large"), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "attributes", "options", "sram"),
    [
        ("zoo:resnet8", "config=small", DEFAULTS, 18_500),
        ("pretrainedResnet_quant", "config=small", DEFAULTS, None),
        ("vww_96_int8", "config=small", DEFAULTS, None),
        ("vww_96_int8", "config=large,cvsram=16k", TILES, None),
        ("zoo:googlenet:resolution=32", "config=large,cvsram=16k", TILES, None),
    ],
)
def test_whole_networks_run_late(
    model: str, attributes: str, options: Options, sram: int | None, tmp_path: Path
) -> None:
    assert_late(network(model, attributes, options, sram), tmp_path)


def test_a_program_without_layers_has_no_waits() -> None:
    net = GraphBuilder("net")
    done = compiled(net.build(net.softmax(net.input((1, 10)))), "nvdla")
    assert done.program.waits == ()
