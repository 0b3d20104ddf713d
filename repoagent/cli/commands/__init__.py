"""One module per command, or per part of a large one: parse options, call one function, print the result."""
