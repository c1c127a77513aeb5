"""The hooks of code generation: they run after all passes, and write what these have found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np

from penstock import uma
from penstock_ultra_trail import engine

DRIVER_FILES = "ultra_trail.h", "ultra_trail.c"


def gen_includes() -> str:
    """Return the C text at the beginning of the model's C file."""
    return '#include "ultra_trail.h"\n'


def gen_sources(target: uma.AcceleratorTarget, program: uma.Program) -> Mapping[str, str]:
    """Return the files of the driver: those of this folder, and the configuration of the network.

    The driver's memories are as large as the network needs."""
    own = [call for call in uma.calls(program) if call.engine == target.name]
    folder = Path(__file__).parent
    files = {name: (folder / name).read_text("utf-8") for name in DRIVER_FILES}
    return {**files, "ultra_trail_config.h": config_header(own)}


def config_header(calls: list[uma.Call]) -> str:
    """Return a header with the configuration words that `ConfigGenerator` has stored for the layer
    of each call, in the order of execution, and the sizes that they need."""
    texts = [cast(bytes, cast(uma.Composite, c.op).attribute("words")) for c in calls]
    layers = [engine.Words.from_buffer_copy(text) for text in texts]
    lengths = [n.in_length * n.in_c for n in layers] + [n.out_length * n.out_c for n in layers]
    sizes = {
        "LAYERS": len(calls),
        "FMEM_BYTES": max(lengths, default=1),
        "WMEM_BYTES": max((n.out_c * n.taps * n.in_c for n in layers), default=1),
        "CHANNELS": max((n.out_c for n in layers), default=1),
    }
    lines = [
        "/* ultra_trail_config.h: the layers that the engine runs, and what they need of it. */",
        "#ifndef ULTRA_TRAIL_CONFIG_H",
        "#define ULTRA_TRAIL_CONFIG_H",
        "",
        *(f"#define ULTRA_TRAIL_{name} {number}" for name, number in sizes.items()),
        "",
    ]
    for k, text in enumerate(texts):
        words = ", ".join(f"0x{word:08x}" for word in np.frombuffer(text, np.uint32))
        lines.append(f"#define ULTRA_TRAIL_CONFIG_{k} {words}")
    return "\n".join([*lines, "", "#endif\n"])
