"""The generators of `benchmarks.torture`: each file has one, `GENERATOR`."""
