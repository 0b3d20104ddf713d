"""Search what is remembered: notes, edits, conversations, summaries of commits and of files.

words.py     a text as words and names
passages.py  the plain files as passages; files.py which files there are, and whether they have changed
index.py     the tables; update.py brings them up to date, current.py does so when they are asked
query.py     what is asked; rank.py what answers it best; snippet.py what is shown; ask.py the whole
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.memory.recall.ask import Answer, Hit, Search, answer, search, search_memory, told
    from repoagent.memory.recall.current import catch_up
    from repoagent.memory.recall.passages import Kind

__all__ = ["Answer", "Hit", "Kind", "Search", "answer", "catch_up", "search", "search_memory", "told"]

_HOME = {
    "Answer": "ask",
    "Hit": "ask",
    "Kind": "passages",
    "Search": "ask",
    "answer": "ask",
    "catch_up": "current",
    "search": "ask",
    "search_memory": "ask",
    "told": "ask",
}

__getattr__ = door(__name__, _HOME)
