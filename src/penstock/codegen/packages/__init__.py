"""Packages: a compiled model in the folder layout of a build system, one file per format.

The registry finds the formats of this folder; each file defines one `PackageFormat` called
`FORMAT`, and its templates are in `codegen/templates/packages`."""

DEFAULT_PACKAGES = ("cmake",)
