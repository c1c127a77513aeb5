"""Code that several operators share: arithmetic, windows, decoding of model files, checks.

The operators are in `ops/`, one file each; the registry does not search this package."""
