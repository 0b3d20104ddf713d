"""Syntax trees: languages, parsing, outlines, and syntax errors that a change adds.

Read `languages` (which language a file is in, and its grammar) and `parser` first. `outline/` lists the symbols of a
file, `occurrences` finds names and their roles (`node_roles`), `regressions` reports new syntax errors, for C and C++
by tokens (`c_errors`).
"""
