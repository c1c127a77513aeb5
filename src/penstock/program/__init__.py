"""Program: commands with addresses, the common input of code generators, simulators and reports."""
