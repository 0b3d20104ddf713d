"""A program as a model: the prompt on its standard input, the reply on its standard output."""
