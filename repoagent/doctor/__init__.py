"""Is everything here that repoagent needs? A list of checks, each with what was found and what to do.

check.py       a check and its three levels; one that fails in an unexpected way is a check that found an error
program.py     git, Python, grammars, extras
models.py      the configuration, the models, their keys (by the names of variables only) and addresses
repository.py  the work tree and its git directory, .repoagent/, the hooks
indexes.py     the history index and the memories
machine.py     sandbox, locks, disk, clock
checks.py      all of them, in order
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.doctor.check import Check, Level
    from repoagent.doctor.checks import examine

__all__ = ["Check", "Level", "examine"]

_HOME = {"Check": "check", "Level": "check", "examine": "checks"}

__getattr__ = door(__name__, _HOME)
