"""Find where symbols are used, by name.

symbols.py defines queries and answers, find.py searches, and report.py formats the answer. request_symbols.py finds the
uses of the symbols that a request names.
"""
