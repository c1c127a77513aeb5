"""Core family without optimised kernels: all operators run in portable C11."""
