"""Syntax trees: languages, parsing, outlines, and syntax errors that a change adds.

Read `languages` (the language of a file, and its grammar) and `parser` first. `outline` lists the symbols of a file
(`symbol`): those of programs (`definitions`, with the tables of `rules` and `tail_rules`), of documents and style
sheets (`documents`), and of data files (`data_keys`). `occurrences` finds names and their roles, `regressions` reports
new syntax errors, which `c_errors` finds from the tokens alone in C and C++.
"""
