"""Find where symbols are used, by name.

query.py parses the question, find.py searches, report.py formats the answer. request_symbols.py does it for the symbols
that a request names.
"""
