"""The examples at the end of each help text: arguments, by command."""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "penstock compile": (
        "kws.tflite",
        "kws.tflite --target cortex-m0plus --sram 16KiB -o out",
        "kws.tflite --target cortex-m55 --accelerator ethos_u55:macs=128",
    ),
    "penstock explore": (
        "kws.tflite -o frontier",
        "kws.tflite --target cortex-m0plus --keep-input",
    ),
    "penstock run": (
        "kws.tflite --input features.npy --output scores.npy",
        "kws.tflite --target host",
    ),
    "penstock verify": (
        "kws.tflite --reference tflite",
        "kws.tflite --goldens kws.npz --sram 16KiB --every-point",
    ),
    "penstock profile": (
        "kws.tflite --top 5",
        "kws.tflite --target cortex-m7 -o profile",
        "kws.tflite --no-simulate --json",
    ),
    "penstock scan": (
        "models --stop-after read",
        "models --target cortex-m4 --sram 256KiB --jobs 2",
    ),
    "penstock compare": (
        "before.json after.json",
        "kws-before kws-after --fail-if-worse",
    ),
    "penstock golden": (
        "kws.tflite -o kws.npz",
        "recurrent.tflite -o recurrent.npz --state state_in=state_out",
    ),
    "penstock show": (
        "zoo:",
        "kws.tflite --nodes",
        "kws.tflite --stop-after schedule",
    ),
    "penstock targets": ("", "--show cortex-m4 > board.toml"),
    "penstock ops": ("", "nn.conv2d"),
    "penstock options": ("", "--json"),
    "penstock demo": ("", "--target cortex-m0plus -o digits"),
    "penstock backend list": ("", "--json"),
    "penstock backend new": ("my_npu", "my_npu --layout files -o packages/my_npu"),
}
