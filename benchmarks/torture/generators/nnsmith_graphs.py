"""Random graphs by NNSmith, exported by both of torch's exporters and quantised by onnxruntime."""

# pyright: reportMissingImports=false, reportMissingModuleSource=false
# The packages are in the extra `torture`.

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

from benchmarks.torture.case import Case, Generator
from benchmarks.torture.exporting import Form, exported_case, quiet

MOST_NODES = 8
MOST_ELEMENTS = 4096
SOLVER_MILLISECONDS = 5000


def draw(seed: int, form: Form | None = None) -> Case | None:
    """The network of a seed, in a form (see `exported_case`); None if the solver finds none in its
    time."""
    random = Random(f"nnsmith {seed}")
    with quiet():
        module, inputs = _module(random)
    return None if module is None else exported_case(module, inputs, random, form)


def _module(random: Random) -> tuple[Any, tuple[Any, ...]]:
    import numpy
    import torch
    from nnsmith.graph_gen import model_gen
    from nnsmith.materialize import Model

    start = random.getrandbits(31)
    for seeded in (torch.manual_seed, numpy.random.seed):
        seeded(start)
    _seed_globally(start)
    kind = Model.init("torch", backend_target="cpu")
    try:
        grown = model_gen(
            opset=_operators(),
            method="symbolic-cinit",
            seed=start,
            max_elem_per_tensor=MOST_ELEMENTS,
            max_nodes=random.randint(2, MOST_NODES),
            timeout_ms=SOLVER_MILLISECONDS,
            rank_choices=[2, 3, 4],
            dtype_choices=["f32"],
        )
        model: Any = kind.from_gir(grown.make_concrete())
        model.refine_weights()
    except Exception:  # whatever NNSmith raises: there is no network for this seed
        return None, ()
    net = model.torch_model
    if net.proxy_enabled:
        net.disable_proxy_grad()
    inputs = tuple(torch.empty(like.shape).uniform_(-2, 2) for like in net.input_like.values())
    return net, inputs


def _seed_globally(seed: int) -> None:
    """NNSmith draws from the generator of the module `random`."""
    import random as module

    module.seed(seed)


@cache
def _operators() -> Any:
    """The operators of torch that NNSmith knows."""
    from nnsmith.materialize import Model
    from nnsmith.narrow_spec import auto_opset

    return auto_opset(Model.init("torch", backend_target="cpu"), None)


GENERATOR = Generator("nnsmith-graphs", draw, ("nnsmith", "torch", "onnxscript"))
