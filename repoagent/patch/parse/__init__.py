"""Parse a model's answer into patches. Read answer.py first, then blocks.py, fences.py and the formats."""
