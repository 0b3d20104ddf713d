"""Checks without a model. Read `run`, then `static` and `removed_symbol`.

`missing_partner` is the check of the history; `file_kinds` tells generated, vendored and test files.
"""
