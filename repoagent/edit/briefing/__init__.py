"""What a model is told of an edit: gathered, composed to what fits, in the form that it writes best; and its tools."""
