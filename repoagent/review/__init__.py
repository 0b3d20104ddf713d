"""Findings on a change: what its history says without a model, and what a model shows on its lines."""
