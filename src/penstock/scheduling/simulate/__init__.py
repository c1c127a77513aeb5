"""Simulation of schedules without data: calls, live ranges, peak memory, bytes moved and cost."""
