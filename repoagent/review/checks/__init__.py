"""Checks without a model. Read `run` first, then `static` and `removed_symbol` (with `module_names`).

`missing_partner` is the check that uses the history; `file_kinds` recognizes generated, vendored and test files.
"""
