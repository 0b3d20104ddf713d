"""Syntax trees: languages, parsing, new syntax errors. Read languages.py and parser.py first."""
