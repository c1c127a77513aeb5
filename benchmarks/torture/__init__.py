"""Torture: random models, judged by other runtimes; see `__main__`."""
