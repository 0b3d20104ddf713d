"""The project's own benchmarks: each prints a figure next to a baseline from the same run."""
