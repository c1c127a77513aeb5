"""Text forms of parts, frontiers and schedules."""
