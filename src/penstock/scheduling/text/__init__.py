"""Printers and parsers of the text forms of parts, frontiers and schedules."""
