"""A Messages API server whose answers are written by hand: see docs/internals/judging.md."""
