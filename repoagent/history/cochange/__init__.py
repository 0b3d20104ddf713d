"""Score which files change together, from commits alone. Read score.py first."""
