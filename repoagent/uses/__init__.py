"""Where what a file defines is used: found by name with git, told apart by the syntax tree.

answering.py  the whole question; asking.py what a text asks for: a symbol, a symbol of a file, all that a file defines
search.py     the files that hold a name: `git grep`, no index is kept; scanning.py reads and parses them, within bounds
finding.py    where it is defined, and where it is used; roles.py which occurrences of its name are uses
naming.py     the symbols that a request names, and their uses as lines of a prompt; words.py which words are names
locating.py   where such names are defined, and their tests, by text alone: for the first request of a run
values.py     the answer as plain values; wording.py as text
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.uses.answering import answer
    from repoagent.uses.locating import locate
    from repoagent.uses.naming import uses_block
    from repoagent.uses.values import Answer, Definition, Uses, UsesIn
    from repoagent.uses.wording import told

__all__ = ["Answer", "Definition", "Uses", "UsesIn", "answer", "locate", "told", "uses_block"]

_HOME = {
    "Answer": "values",
    "Definition": "values",
    "Uses": "values",
    "UsesIn": "values",
    "answer": "answering",
    "locate": "locating",
    "told": "wording",
    "uses_block": "naming",
}

__getattr__ = door(__name__, _HOME)
