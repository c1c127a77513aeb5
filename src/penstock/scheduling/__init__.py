"""Scheduling: which nodes run together, in which stripes and order, at what cost. No operator is
named here, and no address."""
