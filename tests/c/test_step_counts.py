"""The counts of steps leave out the callback of a streamed input, which is the caller's code."""

from __future__ import annotations

import pytest

from penstock import api, execution
from penstock.pipeline.compilation import compile_request


def test_the_callback_of_a_streamed_input_belongs_to_no_step() -> None:
    """LeNet-5, whose rows are pulled between the steps of a cascade."""
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    done = compile_request(api.request("zoo:lenet5", stream_input=True, optimize="size"))
    rows = done.model.inputs[0].type.shape[1]
    with execution.firmware(done) as chip:
        (inputs,) = api.drawn_sets(done, 1)
        run = chip.run(inputs)
        core = chip.simulator
        following, arena = core.symbol("lenet5_next_0"), core.symbol("lenet5_arena")
        core.write(following, bytes(4))
        callback = core.call("lenet5_feed_0", following, 0, arena).counts.cycles
    steps = sum(step.cycles for step in run.steps)
    assert callback > 28
    assert run.counts.cycles - steps > rows * callback
