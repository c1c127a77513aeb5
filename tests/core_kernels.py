"""Runs kernels on a simulated Cortex-M core, on views with arbitrary memory layouts.

The kernels are compiled once.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from c_header import RUNTIME, header
from c_kernels import GUARD_BYTES, POISON, Bytes, View
from penstock.hardware.load import load_target
from penstock.ir.op import Kernel, Site
from penstock.simulators import cores
from penstock.toolchains.compiler import WARNINGS_AS_ERRORS, compile_objects
from penstock.toolchains.cortex_m import link_firmware, zig_cortex_m

POOL_BYTES = 1 << 20
_POINTER_BYTES = 4


class CoreLibrary:
    """Compiled kernels on a core."""

    def __init__(self, names: tuple[str, ...], folder: Path, target: str = "cortex-m4") -> None:
        source = folder / "kernels.c"
        lines = [f'#include "{name}.h"' for name in names]
        lines += [f"int8_t pool[{POOL_BYTES}] __attribute__((aligned(16)));", *map(_caller, names)]
        source.write_text("\n".join(lines) + "\n")
        chip = load_target(target)
        assert chip.core is not None
        tools = zig_cortex_m(chip.compiler.zig)
        objects = compile_objects(
            tools,
            [source],
            folder / "objects",
            include=(Path(str(RUNTIME)),),
            flags=(*WARNINGS_AS_ERRORS, "-Wno-missing-prototypes"),
        )
        keep = ("pool", *(f"call_{name}" for name in names))
        layout = cores.layout(chip.core)
        elf = link_firmware(tools, objects, folder / "kernels.elf", keep=keep, layout=layout)
        self._core = cores.simulator(elf, chip.core)
        self._next = 0

    def run(
        self,
        kernel: Kernel,
        inputs: list[View],
        output: View,
        rows: tuple[int, int],
        site: Site | None = None,
    ) -> None:
        """Computes rows [lower, upper) of an output between guard bytes.

        `site`: the site of a kernel that reads unpacked constants. Scratch contains poison and is
        aligned to 4 bytes only; views have arbitrary addresses.
        """
        self._next = self._core.symbol("pool")
        params = self._put(self._params(kernel, site).tobytes(), 4)
        places = [self._put_memory(view) for view in (*inputs, output)]
        views = [self._view(v, at) for v, at in zip((*inputs, output), places, strict=True)]
        sources = self._put(np.concatenate(views[:-1]).tobytes(), 4)
        sink = self._put(views[-1].tobytes(), 4)
        guard = bytes([POISON]) * GUARD_BYTES
        self._put(guard, 8)
        scratch = self._put(bytes([POISON]) * (kernel.scratch_bytes + kernel.stack_bytes), 4)
        after = self._put(guard, 1)
        self._core.call(f"call_{kernel.name}", params, sources, sink, *rows, scratch)
        assert self._core.read(after, GUARD_BYTES) == guard, "written behind the scratch"
        for view, place in zip((*inputs, output), places, strict=True):
            size = len(view.memory.bytes) + 2 * GUARD_BYTES
            found = np.frombuffer(self._core.read(place, size), np.uint8)
            assert (found[:GUARD_BYTES] == POISON).all(), "written in front of a view"
            assert (found[-GUARD_BYTES:] == POISON).all(), "written behind a view"
            view.memory.bytes[:] = found[GUARD_BYTES:-GUARD_BYTES]

    def _params(self, kernel: Kernel, site: Site | None) -> Bytes:
        """The parameter structure of words; missing tables are NULL."""
        tables = {name: self._put(table.array.tobytes(), 4) for name, table in kernel.tables}
        constants = {
            name: self._put(site.constant(k).tobytes(), 4) for k, name in kernel.constants if site
        }
        every = header(kernel.name).members
        words = {name: 0 for type, name in every if type != "int32_t"}
        words |= dict(kernel.params) | tables | constants
        members = [words[name] for _, name in every]
        return (np.array(members, np.int64) & 0xFFFFFFFF).astype("<u4").view(np.uint8)

    def _put_memory(self, view: View) -> int:
        guard = bytes([POISON]) * GUARD_BYTES
        return self._put(guard + view.memory.bytes.tobytes() + guard, 1)

    def _view(self, view: View, place: int) -> Bytes:
        table = 0
        if view.layout.table is not None:
            table = self._put(np.array(view.layout.table, "<u4").tobytes(), _POINTER_BYTES)
        words = (place + GUARD_BYTES, table, view.layout.pitch, view.layout.ring)
        return np.array(words, "<u4").view(np.uint8)

    def _put(self, content: bytes, alignment: int) -> int:
        """Appends bytes at an offset of one, so that odd addresses occur."""
        place = -(-(self._next + 1) // alignment) * alignment
        self._core.write(place, content)
        self._next = place + len(content)
        assert self._next <= self._core.symbol("pool") + POOL_BYTES, "the pool is too small"
        return place


def _caller(name: str) -> str:
    scratch = ", scratch" if "scratch" in header(name).signature else ""
    unused = "" if scratch else "    (void)scratch;\n"
    signature = (
        f"void call_{name}(const struct {name} *p, const penstock_source *x, "
        "const penstock_sink *y, int32_t lower, int32_t upper, int8_t *scratch)"
    )
    return f"{signature};\n{signature} {{\n{unused}    {name}(p, x, y, lower, upper{scratch});\n}}"
