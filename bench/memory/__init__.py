"""What finding a memory costs, beside reading one file."""
