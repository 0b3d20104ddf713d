"""Find where symbols are used, by name.

find.py parses the question and searches, report.py formats the answer. request_symbols.py finds the uses of the symbols
that a request names.
"""
