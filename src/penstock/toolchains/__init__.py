"""C compilers and what they write: for Cortex-M, for the host, and ELF files."""
