"""Findings read off the changed texts alone: no model, no history, no network.

run.py      the rules that are on, one after another, within a bound of time; what no longer parses
lines.py    what an added line should not hold: conflict markers, keys and tokens, calls left over from debugging
symbols.py  names that are gone and that other code still uses; imports.py what Python and JavaScript import
"""

from __future__ import annotations

from repoagent.review.static.run import StaticAnswer, static_findings

__all__ = ["StaticAnswer", "static_findings"]
