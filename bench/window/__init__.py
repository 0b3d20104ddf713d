"""What of a long run is sent, and how much of it the provider has already: `python -m bench.window`."""
