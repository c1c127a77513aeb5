"""Random networks at their least memory against TensorFlow Lite Micro, element by element.

    python -m benchmarks.random_networks [--count 300] [--seed 0] [--first 0] [--workers 1]

Each network is compiled for the Cortex-M4 with the least `--sram` of its frontier. The generated C
runs on the host under sanitizers and on the simulated core. Outputs of both and of the operators'
own arithmetic are compared with TensorFlow Lite Micro; other tensors are compared with that
arithmetic. Exits with 1 if an element differs or a network is refused.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from benchmarks.entry import entry
from benchmarks.operators.drawing import Drawn
from benchmarks.operators.judging import evaluated, first_difference
from benchmarks.operators.networks import draw_network
from benchmarks.operators.reference import Reference, Refusal
from penstock import api, ladder
from penstock.errors import PenstockError

TARGET = "cortex-m4"
ARENA_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Judged:
    """The result of a network; all is equal if there is no finding."""

    number: int
    nodes: int
    points: int
    ram_bytes: int
    elements: int
    finding: str = ""

    def __str__(self) -> str:
        found = self.finding or f"{self.elements:,} elements equal"
        return (
            f"network {self.number}: {self.nodes} nodes, {self.points} points, least "
            f"{self.ram_bytes:,} B; {found}"
        )


def judge_network(number: int, seed: int = 0, target: str = TARGET) -> Judged:
    """Compiles network `number` at its least memory and runs it everywhere."""
    drawn = draw_network(seed, number)
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-networks-") as folder:
            path = Path(folder) / "network.tflite"
            path.write_bytes(drawn.tflite())
            return _judged(number, drawn, path, target)
    except PenstockError as error:
        return Judged(number, len(drawn.operators), 0, 0, 0, str(error))


def _judged(number: int, drawn: Drawn, path: Path, target: str) -> Judged:
    wanted = api.request(path, target)
    least = api.compile(wanted).compilation.points[0].ram_bytes(wanted)
    done = api.compile(path, target, sram=least).compilation
    names = (value.name for value in done.model.inputs)
    inputs = dict(zip(names, drawn.values, strict=True))
    elements, findings = 0, [_against_reference(drawn)]
    for rung in ladder.climb(done, None, [inputs]):
        elements += rung.compared.elements
        if rung.compared.mismatches:
            findings.append(f"{rung.step}: {rung.compared.first}")
    finding = "; ".join(filter(None, findings))
    return Judged(number, len(drawn.operators), len(done.points), least, elements, finding)


def _against_reference(drawn: Drawn) -> str:
    """The first difference of the operators' arithmetic; empty if there is none."""
    with Reference(ARENA_BYTES) as reference:
        answer = reference.run(drawn.tflite(), drawn.values)
    if isinstance(answer, Refusal):
        return f"TensorFlow Lite Micro refuses it: {answer.reason}"
    return first_difference(evaluated(drawn), answer)


def main(arguments: Sequence[str]) -> int:
    """Returns 1 if there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.random_networks")
    parser.add_argument("--count", type=int, default=300, help="how many networks")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=0, help="other networks")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    numbers = range(chosen.first, chosen.first + chosen.count)
    judged: list[Judged] = []
    with ProcessPoolExecutor(chosen.workers, get_context("spawn")) as executor:
        for found in executor.map(partial(judge_network, seed=chosen.seed), numbers):
            print(found, flush=True)
            judged.append(found)
    elements = sum(each.elements for each in judged)
    findings = sum(bool(each.finding) for each in judged)
    print(f"{len(judged)} networks, {elements:,} elements compared, {findings} findings")
    return int(findings > 0)


if __name__ == "__main__":
    entry(main)
