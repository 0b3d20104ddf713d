"""The exchanges about a file: which of them a prompt shows, and how old ones are compacted.

exchanges.py  the turns of a conversation and the records of edits, put together
said.py       what was said in an exchange, in a few lines
choose.py     what matters for a request, within a budget
compact.py    the oldest exchanges moved to the archive, a line each kept among the notes
"""

from __future__ import annotations

from repoagent.memory.turns.choose import told
from repoagent.memory.turns.compact import Compacted, compact, compact_above
from repoagent.memory.turns.exchanges import Exchange, exchanges

__all__ = ["Compacted", "Exchange", "compact", "compact_above", "exchanges", "told"]
