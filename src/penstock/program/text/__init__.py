"""Text form of programs."""
