"""What of a large file a model is shown, held against what real commits changed."""
