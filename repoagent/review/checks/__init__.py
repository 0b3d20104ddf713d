"""Checks without a model: from the history, and static ones."""
