"""Findings that need no model and no network: what the history of a repository says of a change.

answer.py      all of it: which history there is, each rule, what is said of an index that is not there yet
past.py        what the rules are given; source.py where it comes from
habits.py      what is usual in a repository, learned now and then and kept; learn.py how
partners.py fixes.py unusual.py generated.py vendored.py api.py   the rules
marks.py comments.py signatures.py   what they ask: is it generated, vendored, a test, a comment; does the change of a
                           signature break a call
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.review.history.answer import HistoryAnswer, history_findings

__all__ = ["HistoryAnswer", "history_findings"]

_HOME = {"HistoryAnswer": "answer", "history_findings": "answer"}

__getattr__ = door(__name__, _HOME)
