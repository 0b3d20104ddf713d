"""Run one scene repeatedly, each time with another call failing (a full disk, for example), and report what is wrong.

    python -m tests.crash.fail FOLDER SCENE ERROR COUNT [FIRST]

in the `environment` of fault_library.py. ERROR is a name of errno; with a final +, all later calls fail as well. COUNT
is the number of calls to fail, evenly spaced from number FIRST on. Prints a line of JSON for each.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from functools import partial
from pathlib import Path

from tests.crash.fault_library import FAIL, FAIL_ON
from tests.crash.stage import Stage, settle

PASSES = {"start", "end"}


def main(folder: Path, name: str, error: str, count: int, first: int = 0) -> None:
    stage = Stage(folder, name)
    mode, number = (FAIL_ON if error.endswith("+") else FAIL), getattr(errno, error.rstrip("+"))
    chosen = [event for event in stage.events if event.call not in PASSES]
    stride = max(1, len(chosen) // count)
    for event in chosen[first % stride :: stride]:
        stage.fresh()
        reader, writer = os.pipe()  # the library does not count calls on pipes
        ran = stage.faults.run(partial(speaking, writer, stage), mode, event.number, number)
        os.close(writer)
        with os.fdopen(reader, errors="replace") as pipe:
            text = pipe.read()
        for left in stage.repo.top.glob("sed??????"):  # the hook's sed could not remove it
            left.unlink()
        settled = settle(stage.repo)
        found = stage.wrong(lived=True)
        if event.program.startswith("git") and event.call.startswith("unlink"):
            found.pop("litter", None)  # git's own lock, which git could not remove
        if "Traceback" in text or ran.code in (70, 99) or ran.code < 0 or (ran.code and not text.strip()):
            found["said"] = text[-500:]
        print(
            json.dumps(
                {
                    "number": event.number, "of": len(stage.events), "code": ran.code, "landed": stage.landed,
                    "event": f"{event.program} {event.call} {event.path}", "settled": (settled, settled),
                    "wrong": found, "said": text[-400:],
                }, default=repr,
            ),
            flush=True,
        )  # fmt: skip


def speaking(descriptor: int, stage: Stage) -> int:
    os.dup2(descriptor, 2)
    return stage.act()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], *map(int, sys.argv[4:]))
