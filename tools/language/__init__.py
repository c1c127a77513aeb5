"""language: counts private words and vague names, which the tests keep from growing.

`python -m tools.language` prints the counts beside their records in `tests/ratchets.json`.
"""
