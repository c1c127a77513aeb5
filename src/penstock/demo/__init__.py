"""The demo model and its test digits."""
