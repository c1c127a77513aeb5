"""One model from its file to the simulated core, with every rung of verification."""

from __future__ import annotations

from pathlib import Path

import pytest

from available import path_of
from penstock import api

MODEL = "arithmetic"


def test_a_model_is_verified_against_its_goldens_on_every_rung() -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    path = Path(path_of(MODEL))
    verified = api.verify(path, "cortex-m4", path.with_suffix(".npz"))
    assert verified.passed
    assert all(rung.comparison.elements for rung in verified.rungs)
