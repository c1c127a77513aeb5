"""Program, the narrow waist: commands with addresses, read by generators, simulators and reports."""
