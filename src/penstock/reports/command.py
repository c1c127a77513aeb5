"""The command line that compiles a model, for readers of a report to copy."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class CompileCommand:
    """A `penstock compile` command. `options` are all but the budget `sram_bytes` and the goal
    `optimize`, which are None if the user states none."""

    model: str
    target: str
    options: tuple[str, ...] = ()
    sram_bytes: int | None = None
    optimize: str | None = None

    def __str__(self) -> str:
        """Return the command, quoted for a POSIX shell.

        >>> str(CompileCommand("my net.tflite", "cortex-m4", ("--stack", "512"), 65536))
        "penstock compile 'my net.tflite' --target cortex-m4 --stack 512 --sram 65536"
        """
        words = ["penstock", "compile", self.model, "--target", self.target, *self.options]
        words += [] if self.sram_bytes is None else ["--sram", str(self.sram_bytes)]
        words += [] if self.optimize is None else ["--optimize", self.optimize]
        return shlex.join(words)

    def with_rest(self, other: CompileCommand) -> CompileCommand:
        """Return this command with the options, the budget and the goal of another."""
        return replace(other, model=self.model, target=self.target)

    def selecting(self, ram_bytes: int, *, streamed: bool = False) -> CompileCommand:
        """Return the command that selects the point of the frontier that needs `ram_bytes`.

        >>> str(CompileCommand("a.onnx", "host", (), None, "size").selecting(4096, streamed=True))
        'penstock compile a.onnx --target host --stream-input --sram 4096'
        """
        command = self.with_options("--stream-input") if streamed else self
        return replace(command, sram_bytes=ram_bytes, optimize=None)

    def with_options(self, text: str) -> CompileCommand:
        """Return the command with further options, which replace the budget and the goal.

        >>> str(CompileCommand("a.onnx", "host", (), 64).with_options("--optimize size"))
        'penstock compile a.onnx --target host --sram 64 --optimize size'
        """
        found, words = self, shlex.split(text)
        while words:
            option = words.pop(0)
            value = (words.pop(0),) if words and not words[0].startswith("-") else ()
            if option == "--sram":
                found = replace(found, sram_bytes=int(*value))
            elif option == "--optimize":
                found = replace(found, optimize=str(*value))
            elif option not in found.options:
                found = replace(found, options=(*found.options, option, *value))
        return found
