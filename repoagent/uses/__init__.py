"""Find where symbols are used, by name.

symbols.py has the question and the answer, find.py searches, report.py formats the answer. request_symbols.py finds
the uses of the symbols that a request names.
"""
