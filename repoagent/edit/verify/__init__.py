"""What stands between a model's diff and the files: whether it may be, whether it fits, what it does unasked."""
