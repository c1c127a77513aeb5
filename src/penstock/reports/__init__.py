"""Reports: results as text, JSON and figures.  Reports make no decisions."""
