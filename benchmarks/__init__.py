"""Benchmarks: commands that measure penstock and print its figures beside others'."""
