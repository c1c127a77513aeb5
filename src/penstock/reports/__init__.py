"""Reports: read results, decide nothing."""
