"""Machines that execute what penstock writes, and count what it costs."""
