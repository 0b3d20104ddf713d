"""A Messages API server whose answers are written by hand: see README.md next to it."""
