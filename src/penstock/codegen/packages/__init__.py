"""Packages: a compiled model in the folder layout of a build system.

`formats.py` defines the formats; their templates are in `codegen/templates/packages`."""

DEFAULT_PACKAGES = ("cmake",)
