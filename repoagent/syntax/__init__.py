"""Syntax trees: languages, parsing, outlines, and syntax errors that a change adds.

Read `languages` (the language of a file, and its grammar) and `parser` first. `outline` lists the symbols of a file,
which `symbol` defines. `definitions` finds those of programs, with the tables of `rules` and `tail_rules`; `documents`
finds those of documents and style sheets, and `data_keys` those of data files. `occurrences` finds names and their
roles. `regressions` reports new syntax errors, which `c_errors` finds from the tokens alone in C and C++.
"""
