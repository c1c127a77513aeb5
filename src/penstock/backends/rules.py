"""rules: constraints that several accelerators have.  Messages quote their first sentences."""

from __future__ import annotations

from penstock.backends.offloaded import Offloaded


def one_group(offloaded: Offloaded) -> bool | str:
    """Convolutions must have one group.

    Return True, or the reason for refusal."""
    groups = offloaded.parameters.get("groups", 1)
    return groups == 1 or f"there are {groups} groups of channels"


def single_image(offloaded: Offloaded) -> bool | str:
    """Convolutions must have batch size 1.

    Return True, or the reason for refusal."""
    images = offloaded.output.shape[0]
    return offloaded.main.kind != "Conv2D" or images == 1 or f"there are {images}"


def double_rounding(offloaded: Offloaded) -> bool | str:
    """Results must be rounded twice, as in TensorFlow Lite Micro.

    Requantisation multiplies and then shifts right; both steps round.

    Return True, or the reason for refusal."""
    is_single = offloaded.parameters.get("single_rounding", 0)
    return not is_single or "the model requires single rounding"
