"""Small texts of a person or a repository: found without leaving their folder, their front matter read."""

from __future__ import annotations

from repoagent.work.texts.front import Value, front_matter
from repoagent.work.texts.places import Place, inside, names_in, read_text
from repoagent.work.texts.shown import cut, one_line

__all__ = ["Place", "Value", "cut", "front_matter", "inside", "names_in", "one_line", "read_text"]
