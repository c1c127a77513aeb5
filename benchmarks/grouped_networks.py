"""GroupedNetworks: the networks of the benchmarks of groups on NVDLA, and their command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.graph_groups import short_name

CONFIGURATIONS = ("small", "large")
SMALL_NETWORKS = ("zoo:resnet8", "zoo:squeezenet", "zoo:googlenet")
SMALL_MODELS = ("vww_96_int8.tflite", "kws_ref_model.tflite", "mobilenetv2_160_035.tflite")
LARGE_NETWORKS = ("zoo:vgg16", "zoo:resnet50", "zoo:inception_v3", "zoo:densenet121")
LARGE_MODELS = ("topo_nasnet_mobile_int8.tflite.gz", "topo_randwire_like_ws40_seed1_fp32.onnx.gz")


def selected(program: str, text: str, arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The networks and configurations that a command line selects.

    program, text: the module of the command, and its help.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=text)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="this one only")
    parser.add_argument("--config", action="append", metavar="NAME", help="this one only")
    parser.add_argument("--large", action="store_true", help="large networks")
    wanted = parser.parse_args(arguments)
    for model in models(wanted.folder, large=wanted.large):
        if not wanted.network or short_name(model) in wanted.network:
            for config in wanted.config or CONFIGURATIONS:
                print(f"compiling {short_name(model)} for {config}", file=sys.stderr)
                yield model, config


def models(folder: Path | None, *, large: bool) -> Sequence[str]:
    """What is compiled: networks of the zoo, and models of a folder."""
    zoo, files = (LARGE_NETWORKS, LARGE_MODELS) if large else (SMALL_NETWORKS, SMALL_MODELS)
    return zoo if folder is None else (*zoo, *(str(folder / name) for name in files))
