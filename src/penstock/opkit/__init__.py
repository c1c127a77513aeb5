"""What several operators share: arithmetic, windows, decoding of model files, checks.

Operators themselves stand in `ops/`, one file each; nothing here is found by the registry."""
