"""What was learned about a file: short, with date, source and the text it was true of."""
