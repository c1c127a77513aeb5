"""Search for cascades: consecutive parts of a network that run interleaved, a few rows at a time.

The result is a Pareto front of memory against time.
"""
