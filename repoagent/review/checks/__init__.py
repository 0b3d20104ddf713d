"""Checks without a model. Read `run`, which has the table of them, and `context`, then any check.

Static: `static`, `removed_symbol`. From the history: `missing_partner`, `statistics`, `generated`,
`api_changed`. `file_origin` tells generated, vendored and test files.
"""
