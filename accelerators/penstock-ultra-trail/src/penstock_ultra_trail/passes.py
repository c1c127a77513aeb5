"""The program passes of ultra_trail: one replaces operations by driver calls, the other removes
loads of features that are already in a feature memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from penstock import uma
from penstock.uma import AcceleratorTarget
from penstock_ultra_trail import engine


@dataclass(frozen=True, slots=True)
class Convolution1D:
    """A convolution that reads one feature memory and writes another.

    source, goal: the indices of the feature memories that hold the input and the output."""

    source: int
    goal: int


class CodegenGenerateExternCalls:
    """Program pass of RFC 0060: replaces each `Convolution1D` by calls of the driver."""

    def __call__(self, program: uma.Program, target: AcceleratorTarget) -> uma.Program:
        def with_calls(command: uma.Command) -> uma.Command:
            if not isinstance(command, uma.Call) or command.engine != target.name:
                return command
            kernel = command.kernel
            return replace(command, kernel=replace(kernel, body=_driver_calls(kernel.body)))

        return replace(program, run=tuple(map(with_calls, program.run)))


def _driver_calls(
    body: Callable[..., Sequence[uma.Command]] | None,
) -> Callable[..., tuple[uma.Command, ...]]:
    # A kernel body is a function that returns the commands of a kernel call.  The driver calls load
    # the input, load the constants, convolve, and store the output.

    def commands(*arguments: object) -> tuple[uma.Command, ...]:
        assert body is not None
        (issue,) = body(*arguments)
        assert isinstance(issue, uma.Issue)
        assert isinstance(issue.operation, Convolution1D)
        words, multiplier, shift, weights, bias = issue.tables
        op, (x,), y = issue.operation, issue.inputs, issue.result
        return (
            uma.Invoke(engine.LOAD_FEATURES, (words, op.source, uma.Address(x.buffer, x.offset))),
            uma.Invoke(engine.LOAD_WEIGHTS, (words, weights, bias, multiplier, shift)),
            uma.Invoke(engine.CONVOLVE, (words, op.source, op.goal)),
            uma.Invoke(engine.STORE_FEATURES, (words, op.goal, uma.Address(y.buffer, y.offset))),
        )

    return commands


class ReuseFeatures:
    """A program pass that removes loads of tensors already in feature memory."""

    def __call__(self, program: uma.Program, target: AcceleratorTarget) -> uma.Program:
        held: dict[int, str] = {}

        def shorter(command: uma.Command) -> uma.Command:
            if isinstance(command, uma.Loop):
                held.clear()  # what runs in there may use the memories, too
            if not isinstance(command, uma.Call) or command.engine != target.name:
                return command
            source, goal = cast(Any, command.op).attribute("scopes")
            is_there = held.get(source) == command.inputs[0].tensor
            held.update({source: command.inputs[0].tensor, goal: command.output.tensor})
            return replace(command, body=command.body[is_there:])

        return replace(program, run=tuple(map(shorter, program.run)))
