"""Run one task repeatedly, each time with another call failing (a full disk, for example), and resume it normally.

    python -m tests.crash.run_fails FOLDER SCENE ERROR COUNT [FIRST]

in the `environment` of fault_library.py. ERROR, COUNT and FIRST are as in fail.py. Prints a line of JSON for each.
"""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path
from typing import Any

from tests.crash.fail import PASSES
from tests.crash.fault_library import FAIL, FAIL_ON
from tests.crash.runs import TRIES, Stage
from tests.crash.scenes import in_child
from tests.crash.stage import settle

KNOWN = {0, 3, 6, 7}


def main(folder: Path, name: str, error: str, count: int, first: int = 0) -> None:
    stage = Stage(folder, name)
    mode, number = (FAIL_ON if error.endswith("+") else FAIL), getattr(errno, error.rstrip("+"))
    chosen = [event for event in stage.events if event.call not in PASSES]
    stride = max(1, len(chosen) // count)
    for event in chosen[first % stride :: stride]:
        stage.fresh()
        ran = stage.faults.run(stage.act, mode, event.number, number)
        stage.without_formatters()
        said = stage.said.read_text()
        found: dict[str, Any] = stage.torn_work()
        if "Traceback" in said or ran.code not in KNOWN or (ran.code and "repoagent: " not in said):
            found["said"] = said[-1500:]
        stage.said.write_text("")
        codes = []
        while ran.code and codes[-1:] != [0] and len(codes) < TRIES:
            codes.append(in_child(stage.go_on))
        if codes[-1:] not in ([], [0]) or "Traceback" in stage.said.read_text():
            found["codes"] = codes, stage.said.read_text()[-1500:]
        settle(stage.repo)  # the next command remembers and removes what this one could not
        try:
            found |= stage.wrong(stage.calls + 3 * (1 + len(stage.scene.child)), redone=True)
        except Exception as error_there:  # noqa: BLE001
            found["exception"] = repr(error_there)[:1000]
        print(
            json.dumps(
                {
                    "number": event.number, "of": len(stage.events), "code": ran.code, "codes": codes,
                    "event": f"{event.program} {event.call} {event.path}", "wrong": found, "said": said[-400:],
                }, default=repr,
            ),
            flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], *map(int, sys.argv[4:]))
