"""Parse the answer of a model into hunks. Read answer.py first."""
