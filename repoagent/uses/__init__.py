"""Where symbols are used, by name: query.py (what is asked), find.py (the search), report.py (the answer),
request_symbols.py.
"""
