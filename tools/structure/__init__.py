"""structure: measures of the source tree that the tests keep from growing.

`python -m tools.structure` prints every measure beside its record in `tests/ratchets.json`.
"""
