"""The command line that compiles a model, for readers of a report to copy."""

from __future__ import annotations

import shlex
from dataclasses import replace

from penstock.errors import escaped
from penstock.frozen import frozen


def shell_word(word: str) -> str:
    """Return a word as it is written in a shell: quoted if necessary; with control characters, in
    the form of Bash and POSIX.1-2024.

    >>> shell_word("my net"), shell_word("a\\x1b'")
    ("'my net'", "$'a\\\\x1b\\\\''")
    """
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + escaped(word.replace("\\", "\\\\").replace("'", "\\'")) + "'"


@frozen
class CompileCommand:
    """A `penstock compile` command, or `penstock profile` of one layer. `options` are all but the
    budget `sram_bytes` and the goal `optimize`, which are None if the user states none.

    `folder` is the output directory of the first command; None if no directory is known. A command
    made from it writes to a directory of its own: that name, followed by `changes`."""

    model: str
    target: str
    options: tuple[str, ...] = ()
    sram_bytes: int | None = None
    optimize: str | None = None
    folder: str | None = None
    changes: tuple[str, ...] = ()

    @property
    def is_of_layer(self) -> bool:
        """Whether `--layer` selects a layer to profile by itself."""
        return "--layer" in self.options

    def __str__(self) -> str:
        """Return the command, quoted for a POSIX shell.

        >>> str(CompileCommand("my net.tflite", "cortex-m4", ("--stack", "512"), 65536))
        "penstock compile 'my net.tflite' --target cortex-m4 --stack 512 --sram 65536"
        """
        verb = "profile" if self.is_of_layer else "compile"
        words = ["penstock", verb, self.model, "--target", self.target, *self.options]
        words += [] if self.sram_bytes is None else ["--sram", str(self.sram_bytes)]
        words += [] if self.optimize is None else ["--optimize", self.optimize]
        if self.folder is not None and self.changes:
            words += ["-o", "-".join((self.folder, *self.changes))]
        return " ".join(map(shell_word, words))

    def with_rest(self, other: CompileCommand) -> CompileCommand:
        """Return this command with the further options, the budget and the goal of another."""
        options = (*self.options, *other.options)
        folder = other.folder if self.folder is None else self.folder
        return replace(other, model=self.model, target=self.target, options=options, folder=folder)

    def selecting(self, ram_bytes: int, *, streamed: bool = False) -> CompileCommand:
        """Return the command that selects the point of the frontier that needs `ram_bytes`.

        >>> str(CompileCommand("a.onnx", "host", (), None, "size").selecting(4096, streamed=True))
        'penstock compile a.onnx --target host --stream-input --sram 4096'
        """
        command = self.with_options("--stream-input") if streamed else self
        changes = (*command.changes, str(ram_bytes))
        return replace(command, sram_bytes=ram_bytes, optimize=None, changes=changes)

    def with_options(self, text: str) -> CompileCommand:
        """Return the command with further options, which replace the budget and the goal.

        >>> str(CompileCommand("a.onnx", "host", (), 64).with_options("--optimize size"))
        'penstock compile a.onnx --target host --sram 64 --optimize size'
        >>> str(CompileCommand("a.onnx", "host", folder="a").with_options("--incremental 2"))
        'penstock compile a.onnx --target host --incremental 2 -o a-incremental-2'
        >>> str(CompileCommand("a.onnx", "host", ("--stack", "512")).with_options("--stack 64"))
        'penstock compile a.onnx --target host --stack 64'
        """
        found, words = self, shlex.split(text)
        while words:
            option = words.pop(0)
            value = (words.pop(0),) if words and not words[0].startswith("-") else ()
            own = () if option in ("--sram", "--optimize") else (option.removeprefix("--"),)
            found = replace(found, changes=(*found.changes, *own, *value))
            if option == "--sram":
                found = replace(found, sram_bytes=int(*value))
            elif option == "--optimize":
                found = replace(found, optimize=str(*value))
            else:
                found = replace(found, options=_with_option(found.options, option, value))
        return found


def _with_option(options: tuple[str, ...], option: str, value: tuple[str, ...]) -> tuple[str, ...]:
    if option not in options:
        return (*options, option, *value)
    position = options.index(option) + 1
    return (*options[:position], *value, *options[position + len(value) :])
