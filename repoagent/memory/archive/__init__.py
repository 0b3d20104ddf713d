"""Memories as one file: to share them, to put those away that have lost their file, and how long what was said is kept.

form.py     the archive: a .tar.gz that the same memories make with the same bytes, read with suspicion
lines.py    an edit in it, checked part by part
pack.py     a memory folder -> what goes into an archive; outgoing.py which memories
place.py    which memory or file here an arriving memory belongs to, by its path
unite.py    what arrives and what is here -> both, without doubles: pure functions; arriving.py and write.py write it
orphans.py  which memories have lost their file everywhere; gc.py puts these away
keep.py     what was said too long ago is let go
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.memory.archive.arriving import Arrival, Import, Mode, bring
    from repoagent.memory.archive.form import Archive, Parcel, read_archive
    from repoagent.memory.archive.gc import Collected, Judged, collect
    from repoagent.memory.archive.keep import forget_conversations, forget_daily
    from repoagent.memory.archive.outgoing import Exported, export

__all__ = [
    "Archive",
    "Arrival",
    "Collected",
    "Exported",
    "Import",
    "Judged",
    "Mode",
    "Parcel",
    "bring",
    "collect",
    "export",
    "forget_conversations",
    "forget_daily",
    "read_archive",
]

_HOME = {
    "Archive": "form",
    "Arrival": "arriving",
    "Collected": "gc",
    "Exported": "outgoing",
    "Import": "arriving",
    "Judged": "gc",
    "Mode": "arriving",
    "Parcel": "form",
    "bring": "arriving",
    "collect": "gc",
    "export": "outgoing",
    "forget_conversations": "keep",
    "forget_daily": "keep",
    "read_archive": "form",
}

__getattr__ = door(__name__, _HOME)
