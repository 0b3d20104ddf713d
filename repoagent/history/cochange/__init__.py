"""Which files change together: score.py ranks neighbors, missing.py finds a usual partner that a change lacks."""
