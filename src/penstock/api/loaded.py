"""`load`: a network that runs in this process."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from penstock.api.arguments import ignore_stage
from penstock.api.compiled import Compiled
from penstock.api.keywords import with_settings
from penstock.api.network import Network
from penstock.api.requested import Model, request
from penstock.api.settings import Settings
from penstock.errors import UsageError
from penstock.pipeline.compilation import compile_request
from penstock.pipeline.request import Request
from penstock.pipeline.stages import OnStage
from penstock.scheduling.options import DEFAULTS, QUICK

HOST = "host"  # The default target: code for this machine.


@with_settings
def load(
    model: Model | Request | Compiled,
    target: str = HOST,
    *,
    on_stage: OnStage = ignore_stage,
    **settings: Unpack[Settings],
) -> Network:
    """Compile a model to C, and the C for this machine: a network with `predict` and `evaluate`.

    The C is that of the target; results do not depend on it.  `model` may also be what
    `penstock.compile` returns, whose C is then run.

    on_stage: called with the name of each stage when it begins.

    Raises as `compile`; ToolError if this machine has no C compiler; UnsupportedError if an
    accelerator has no model of its driver in C."""
    done = model.compilation if isinstance(model, Compiled) else None
    if done is None:
        assert not isinstance(model, Compiled)
        wanted = request(model, target, **settings)
        if wanted.target.name == HOST and wanted.options == DEFAULTS:
            wanted = replace(wanted, options=QUICK)
        done = compile_request(wanted, on_stage)
    elif settings or target != HOST:
        raise UsageError(
            "usage-180",
            "a compiled model takes no settings",
            where="penstock.load",
            why="it is compiled already",
            help="pass the settings to penstock.compile, or pass the model itself",
        )
    return Network.of(done)
