"""Parse a model's answer into patches. Read answer.py first, then blocks.py and formats.py."""
