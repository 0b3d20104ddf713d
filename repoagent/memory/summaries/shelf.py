"""What is known before anybody is asked, and what is kept of what was paid for."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.memory.summaries.parts import Record, read_record, write_record
from repoagent.memory.summaries.store import Summary, read_summary, write_summary
from repoagent.store import Layout, ensure, locked
from repoagent.store.report import Warn, to_stderr


@dataclass
class Shelf:
    """The summaries of a repository; with `layout` None nothing outlives the run. With `refresh` only what a person has
    corrected counts as known, and what came of this run."""

    layout: Layout | None
    refresh: bool = False
    warn: Warn = to_stderr
    _now: dict[str, Summary] = field(default_factory=dict)

    @property
    def folder(self) -> Path | None:
        return None if self.layout is None else folder_of(self.layout)

    def aside(self) -> Shelf:
        """The same shelf for a trial: what is put on it is not kept, and does not change this one."""
        return _Trial(self.layout, self.refresh, self.warn, dict(self._now))

    def known(self, key: str) -> Summary | None:
        """The summary that needs nobody to be asked. Raises Refused for a file that is no real one."""
        if key in self._now:
            return self._now[key]
        found = self.kept(key)
        return None if found is not None and self.refresh and not found.edited else found

    def kept(self, key: str) -> Summary | None:
        """The summary that is kept, to be asked for anew or not."""
        return None if self.folder is None else read_summary(self.folder, key, self.warn)

    def keep(self, key: str, summary: Summary) -> Summary:
        """Keep what a model wrote, and return what counts from now on: what another process, or a person, has put there
        meanwhile stays. Raises Refused or Busy."""
        if self.layout is not None and self.folder is not None:
            ensure(self.layout)
            with locked(self.folder / ".lock", what="the summaries of files"):
                summary = self.known(key) or write_summary(self.folder, key, summary)
        self._now[key] = summary
        return summary

    def last(self, path: str) -> Record | None:
        """What is known of a path since it was summarized last."""
        return None if self.folder is None or not path else read_record(self.folder, path, self.warn)

    def remember(self, record: Record) -> None:
        """Say that this is what is known of its path. Raises Refused."""
        if self.layout is None or self.folder is None or not record.path or self.last(record.path) == record:
            return
        ensure(self.layout)
        write_record(self.folder, record)


class _Trial(Shelf):
    def keep(self, key: str, summary: Summary) -> Summary:
        self._now[key] = summary
        return summary

    def remember(self, record: Record) -> None:
        return


def folder_of(layout: Layout) -> Path:
    """Where the summaries of files are; those of commits stand beside it."""
    return layout.summaries / "files"
