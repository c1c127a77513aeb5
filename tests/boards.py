"""Boards as users describe them: target files with memories of any number, in any order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ARENA, CONSTANT = ("arena",), ("constant",)


@dataclass(frozen=True, slots=True)
class BoardMemory:
    """A table `[[memories]]`; its fields are those of the target file."""

    name: str
    size: int
    holds: tuple[str, ...] = ARENA
    bandwidth: float = 4
    latency: int = 0
    budget: bool = True
    burst: int = 1

    @property
    def text(self) -> str:
        holds = ", ".join(f'"{kind}"' for kind in self.holds)
        return f"""
[[memories]]
name = "{self.name}"
size = {self.size}
holds = [{holds}]
bandwidth_bytes_per_cycle = {self.bandwidth}
latency_cycles = {self.latency}
burst_bytes = {self.burst}
budget = {str(self.budget).lower()}
"""


FLASH = BoardMemory("flash", 1 << 20, CONSTANT)


def board(folder: Path, *memories: BoardMemory, kernels: str = "dsp") -> str:
    """The path of the target file of a Cortex-M4 with these memories, in this order."""
    text = f"""
name = "my-board"
description = "a board of a user"
core = "cortex-m4"

[compiler]
zig = ["-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp"]
gcc = ["-mthumb", "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
optimise = "speed"
{"".join(memory.text for memory in memories)}
[[engines]]
name = "cpu"
kernels = "{kernels}"
bandwidth_bytes_per_cycle = 4
cycles_per_mac = 8.1
cycles_per_element = 130.4
cycles_per_loop = 34.9
cycles_per_call = 88.4
"""
    path = folder / "board.toml"
    path.write_text(text)
    return str(path)
