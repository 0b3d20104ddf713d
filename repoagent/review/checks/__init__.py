"""Checks without a model. Read `context`, then `static` and `removed_symbol`; `run` has the table of these.

`missing_partner` is the check of the history; `file_origin` tells generated, vendored and test files.
"""
