"""Run one scene again and again, and let one call after the other fail (a full disk, say); what is wrong then.

    python -m tests.crash.fail FOLDER SCENE ERROR COUNT

in the environment of machine.py. ERROR is a name of errno; with a + at its end everything after that call fails too.
COUNT is how many of the calls are tried. Prints a line of JSON for each.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from functools import partial
from pathlib import Path

from tests.crash.machine import FAIL, FAIL_ON
from tests.crash.stage import Stage, settle

PASSES = {"start", "end"}


def main(folder: Path, name: str, error: str, count: int) -> None:
    stage = Stage(folder, name)
    mode, number = (FAIL_ON if error.endswith("+") else FAIL), getattr(errno, error.rstrip("+"))
    chosen = [event for event in stage.events if event.call not in PASSES]
    for event in chosen[:: max(1, len(chosen) // count)]:
        stage.fresh()
        reader, writer = os.pipe()  # the counter takes no notice of pipes
        ran = stage.faults.run(partial(speaking, writer, stage), mode, event.number, number)
        os.close(writer)
        with os.fdopen(reader, errors="replace") as said:
            text = said.read()
        settled = settle(stage.repo)
        found = stage.wrong(lived=True)
        if "Traceback" in text or ran.code in (70, 99) or ran.code < 0 or (ran.code and not text.strip()):
            found["said"] = text[-500:]
        print(
            json.dumps(
                {
                    "number": event.number, "of": len(stage.events), "code": ran.code, "landed": stage.landed,
                    "event": f"{event.program} {event.call} {event.path}", "settled": (settled, settled),
                    "wrong": found, "said": text[-400:],
                }
            ),
            flush=True,
        )  # fmt: skip


def speaking(descriptor: int, stage: Stage) -> int:
    os.dup2(descriptor, 2)
    return stage.act()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
