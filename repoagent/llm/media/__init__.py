"""Images and PDFs that go to a model beside text: what they are, by their bytes, and how much of it is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.llm.media.kept import Attachments, in_words
    from repoagent.llm.media.limits import MediaLimits, refuse_any, refuse_over
    from repoagent.llm.media.media import Media
    from repoagent.llm.media.read import media_of

__all__ = ["Attachments", "Media", "MediaLimits", "in_words", "media_of", "refuse_any", "refuse_over"]

_HOME = {
    "kept": ("Attachments", "in_words"),
    "limits": ("MediaLimits", "refuse_any", "refuse_over"),
    "media": ("Media",),
    "read": ("media_of",),
}

__getattr__ = door(__name__, {name: module for module, names in _HOME.items() for name in names})
