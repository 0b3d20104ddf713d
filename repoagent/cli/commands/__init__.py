"""One module per command, or per part of a large one. Each parses the options, calls one function and prints the
result."""
