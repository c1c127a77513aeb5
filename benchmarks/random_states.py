"""Random networks with state against TensorFlow Lite Micro, run by run.

    python -m benchmarks.random_states [--count 200] [--seed 0] [--first 0] [--steps 8] [--core] \
        [--kind variables]

Each network runs two sequences of `--steps` runs, each after a reset.
The reference is compared with TensorFlow Lite Micro; the machine, every point of the frontier, and
the generated C under sanitizers (with `--core`, also on a simulated Cortex-M4) are compared with
the reference.  Kinds of networks: `variables` and `explicit` (`tools/stateful_network.py`; in
`explicit`, states are inputs and outputs), `svdf` (`tools/svdf_network.py`), `lstm`
(`tools/lstm_network.py`).  Exits with 1 if an element differs or a network is refused.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.entry import entry
from penstock import api, ladder
from penstock.api.arrays import input_types
from penstock.errors import PenstockError
from penstock.frontends.explicit_states import feedbacks
from penstock.ground_truth import golden_inputs
from penstock.pipeline.graphs import read
from penstock.simulators.goldens import make_goldens, unrolled
from tools.lstm_network import draw_lstm
from tools.stateful_network import draw_explicit, draw_stateful
from tools.svdf_network import draw_svdf

TARGET = "cortex-m4"
SEQUENCES = 2
Drawn = tuple[bytes, dict[str, str]]
"""A model file, and the output of each explicit state by its input."""
KINDS: dict[str, Callable[[int, int], Drawn]] = {
    "variables": lambda seed, number: (draw_stateful(seed, number), {}),
    "explicit": draw_explicit,
    "svdf": lambda seed, number: (draw_svdf(seed, number), {}),
    "lstm": lambda seed, number: (draw_lstm(seed, number), {}),
}


def main(arguments: Sequence[str]) -> int:
    """Prints one line for each network with a finding, and the totals."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.random_states", description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--core", action="store_true", help="run on the simulated core, too")
    parser.add_argument("--kind", choices=list(KINDS), default="variables")
    wanted = parser.parse_args(arguments)
    findings, elements = 0, 0
    for number in range(wanted.first, wanted.first + wanted.count):
        compared, finding = judged(
            number, wanted.seed, wanted.steps, core=wanted.core, kind=wanted.kind
        )
        elements += compared
        if finding:
            findings += 1
            print(f"network {number}: {finding}", flush=True)
    print(f"{wanted.count} networks, {elements:,} elements compared, {findings} findings")
    return int(findings > 0)


def judged(
    number: int, seed: int, steps: int, *, core: bool, kind: str = "variables"
) -> tuple[int, str]:
    """The number of elements compared for a network, and what is wrong, if anything is."""
    raw, states = KINDS[kind](seed, number)
    try:
        rungs = climbed(raw, states, steps, core=core)
    except PenstockError as error:
        return 0, str(error)
    wrong = [f"{r.step}: {r.compared.first}" for r in rungs if r.compared.first is not None]
    return sum(rung.compared.elements for rung in rungs), "; ".join(wrong)


def climbed(raw: bytes, states: dict[str, str], steps: int, *, core: bool) -> list[ladder.Rung]:
    """The rungs of a network, against sequences of TensorFlow Lite Micro.  Raises PenstockError."""
    with tempfile.TemporaryDirectory(prefix="penstock-states-") as folder:
        path = Path(folder) / "network.tflite"
        path.write_bytes(raw)
        done = api.compile(path, TARGET if core else "host", states=states).compilation
        types = input_types(done.model.inputs)
        fed_back = feedbacks(read(str(path)), done.request.reading)
        truth = unrolled(make_goldens(raw, types, "network", SEQUENCES, steps, fed_back))
        sets = golden_inputs(done.model, truth)
        return list(ladder.climb(done, truth, sets, every_point=True, steps=steps))


if __name__ == "__main__":
    entry(main)
