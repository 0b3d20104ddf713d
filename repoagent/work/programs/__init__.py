"""Programs that a person's configuration names: started, fed, listened to for a time and up to a size, and ended."""

from __future__ import annotations

from repoagent.work.programs.running import Ran, start

__all__ = ["Ran", "start"]
