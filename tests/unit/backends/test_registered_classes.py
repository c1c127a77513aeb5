"""Registration of classes that derive from the same backend, and of driver functions."""

from __future__ import annotations

import pytest

import penstock
from penstock.backends.uma import backend as facade
from penstock.errors import BackendError
from penstock.uma import LeastTraffic
from penstock_smv import Smv


def test_another_class_replaces_where_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two classes that derive from the same backend, and so have its name."""

    class Fewer(Smv):
        pass

    class More(Smv):
        def __init__(self) -> None:
            super().__init__()
            self._register_tiler("nn.conv2d", LeastTraffic(only=frozenset({"h", "c"})))

    monkeypatch.setattr(facade, "REGISTERED", {})
    Fewer().register()
    with pytest.raises(BackendError, match="two accelerators are called") as caught:
        More().register()
    assert "register(replace=True)" in caught.value.help
    assert not facade.registered()["smv"].accelerator().target.tilers
    More().register(replace=True)
    assert facade.registered()["smv"].accelerator().target.tilers


def test_a_derived_backend_may_have_a_name_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(Smv):
        target_name = "smv_mine"  # type: ignore[assignment]

    monkeypatch.setattr(facade, "REGISTERED", {})
    Mine().register()
    net = penstock.GraphBuilder("net")
    graph = net.build(net.conv2d(net.input((1, 8, 8, 4)), 8, 3))
    done = penstock.verify(graph, "host", accelerators=("smv_mine:input_bytes=256",))
    assert {part.engine for part in done.compiled.compilation.parts.parts} == {"smv_mine"}
    assert [(rung.step, rung.mismatches) for rung in done.rungs] == [("machine", 0), ("host", 0)]


@pytest.mark.parametrize("register", ["_register_wait", "_register_instances"])
def test_what_waits_or_selects_is_a_driver_function(register: str) -> None:
    with pytest.raises(BackendError, match="must be a Driver") as caught:
        getattr(Smv(), register)(max)
    assert caught.value.code == "backend-067"
