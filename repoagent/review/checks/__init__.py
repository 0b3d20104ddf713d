"""Checks without a model. Read `context`, then any check; `run` has the table of them.

Static: `static`, `removed_symbol`. From the history: `missing_partner`, `statistics`, `generated`, `api_changed`.
`file_origin` tells generated, vendored and test files, `comments` changes that need no partner.
"""
