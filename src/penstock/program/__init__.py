"""Program, the narrow waist: commands with addresses, for generators, simulators, reports."""
