"""The home of a run: its folder, whether it is alive, what it is told while it works.

    .repoagent/runs/NAME/
      run.json       what it is, how far it is, how it ended; replaced whole
      lock           held while the run is alive: the system frees it however the process ends
      inbox/*.md     messages it has not seen, oldest name first; anybody may put one there
      inbox/taken/   messages it was given, until they are surely in its conversation
      stop, pause    files whose being there is the request
      plan.md, checkpoint.md, output/, changes/    of the run itself

The conversation of the run NAME is `.repoagent/conversations/NAME.md`; it is the truth, and all a killed run needs.

place.py    the folder and its name
record.py   run.json
process.py  which process it is, told apart from a later one with the same number
life.py     a run that is alive: progress, control, end
inbox.py    messages, delivered at least once
requests.py stop and pause, as files
listing.py  live and past runs, and the one that a person names
steer.py    what others ask of a run: message, stop, pause, resume, wait
remove.py   a run deleted
foreign.py  a run that came with the repository
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.work.home.foreign import refuse_foreign
    from repoagent.work.home.inbox import Message, unread
    from repoagent.work.home.life import Live, Stopped, living
    from repoagent.work.home.listing import Run, children, chosen, find, refreshed, runs, tree
    from repoagent.work.home.place import Home, goes_on, home_of, new_name
    from repoagent.work.home.record import About, Record
    from repoagent.work.home.remove import bring_back, delete, sweep_away
    from repoagent.work.home.steer import end_now, message, pause, resume, stop, wait

_HOME = {
    "foreign": ("refuse_foreign",),
    "inbox": ("Message", "unread"),
    "life": ("Live", "Stopped", "living"),
    "listing": ("Run", "children", "chosen", "find", "refreshed", "runs", "tree"),
    "place": ("Home", "goes_on", "home_of", "new_name"),
    "record": ("About", "Record"),
    "remove": ("bring_back", "delete", "sweep_away"),
    "steer": ("end_now", "message", "pause", "resume", "stop", "wait"),
}

__all__ = [
    "About",
    "Home",
    "Live",
    "Message",
    "Record",
    "Run",
    "Stopped",
    "bring_back",
    "children",
    "chosen",
    "delete",
    "end_now",
    "find",
    "goes_on",
    "home_of",
    "living",
    "message",
    "new_name",
    "pause",
    "refreshed",
    "refuse_foreign",
    "resume",
    "runs",
    "stop",
    "sweep_away",
    "tree",
    "unread",
    "wait",
]

__getattr__ = door(__name__, {name: module for module, names in _HOME.items() for name in names})
