"""What the index of a history costs, beside git itself."""
