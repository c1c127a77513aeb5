"""Names that accelerators give: reports show them, so none may be empty or blank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from errors.wrong_descriptions import implementation, made, running
from penstock.errors import BackendError
from penstock.uma import Driver, KernelCall, OpStrategy, UMABackend, is_op, wildcard

BLANK = ("", " ", "\t", "npu\n", "\u00a0", 7, None)


def refusal(make: Callable[[], object]) -> BackendError:
    with pytest.raises(BackendError) as caught:
        make()
    assert caught.value.help
    return caught.value


@pytest.mark.parametrize("name", [*BLANK, "Npu", "n-pu", "1npu", "\u3164"])
def test_an_accelerator_has_a_name(name: Any) -> None:
    backend = type("Nameless", (UMABackend,), {"target_name": name})
    assert refusal(lambda: backend().accelerator()).code == "backend-046"


@pytest.mark.parametrize("name", BLANK)
def test_a_memory_has_a_name(name: Any) -> None:
    error = refusal(lambda: made(lambda npu: npu._register_memory(name, "1KiB")))
    assert repr(name) in str(error)


@pytest.mark.parametrize("name", BLANK)
def test_a_pattern_has_a_name(name: Any) -> None:
    pattern = is_op("nn.conv2d")(wildcard(), wildcard(), wildcard())
    error = refusal(lambda: made(lambda npu: npu._register_pattern(name, pattern)))
    assert repr(name) in str(error)


@pytest.mark.parametrize("name", BLANK)
def test_a_kernel_has_a_name(name: Any) -> None:
    error = refusal(lambda: OpStrategy().add_implementation(lambda call: (), name=name))
    assert repr(name) in str(error)


@pytest.mark.parametrize("name", BLANK)
def test_a_driver_function_has_a_name(name: Any) -> None:
    driver = Driver(name, "npu", idle, object)

    def compute(call: KernelCall) -> object:
        return (call.invoke(driver),)

    strategy = implementation(compute=compute)
    assert repr(name) in str(refusal(lambda: running(strategy)))


def idle(device: object) -> None:
    """A functional model that does nothing."""
