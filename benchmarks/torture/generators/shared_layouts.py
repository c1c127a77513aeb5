"""Torch modules whose tensors are read in several axis orders, exported and quantised."""

# pyright: reportMissingImports=false, reportMissingModuleSource=false
# The packages are in the extra `torture`.

from __future__ import annotations

from random import Random

from benchmarks.torture.case import Case, Generator
from benchmarks.torture.exporting import exported_case, normal
from benchmarks.torture.generators.torch_modules import SHARING, STEPS, Grown

SQUARE = (3, 4, 5)


def draw(seed: int) -> Case | None:
    """The network of a seed: square images, and mostly steps that share and transpose."""
    import torch

    random = Random(f"shared layouts {seed}")
    torch.manual_seed(random.getrandbits(32))
    grown = Grown(random)
    side = random.choice(SQUARE)
    shape = random.choice(((1, side, side, side), (1, 2, side, side), (1, side, side)))
    grown.inputs = [normal(random, *shape)]
    grown.values = list(grown.inputs)
    for _ in range(random.randint(1, 5)):
        makers = SHARING if random.random() < 0.6 else STEPS
        grown.step_of(makers)
    return exported_case(grown.module(), tuple(grown.inputs), random)


GENERATOR = Generator("shared-layouts", draw, ("torch", "onnxscript"))
