"""Scheduling: which nodes run interleaved, in which order, in what stripes, and at what cost.

A stripe is the interval of output rows that one kernel call computes.  This package contains no
operator-specific code and assigns no addresses.
"""
