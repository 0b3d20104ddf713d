"""The project's own benchmarks: each prints a figure beside a baseline that it ran itself, in the same run."""
