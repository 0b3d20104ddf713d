"""`python -m demo`, or `make demo`: repoagent on a throw-away clone of its own repository.

Without REPOAGENT_MODEL it replays a recorded conversation with a real model. With it, that model is asked
live, and `--record FILE` records what it says. KEEP=1 leaves the folder there to look at. Exit code: 0 when
every step did what it should, 1 when not, that of `repoagent edit` when a live model did not manage an edit.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from demo import scenes
from demo.repository import isolated, make, users_own
from demo.stage import Failed, gap, heading, say

CASSETTE = Path(__file__).with_name("cassette.jsonl")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description="repoagent on a throw-away repository")
    parser.add_argument("--record", type=Path, metavar="FILE", help="record the live model's replies to FILE")
    record = parser.parse_args().record
    model = os.environ.get("REPOAGENT_MODEL")
    if record and not model:
        parser.error("there is nothing to record without a model: set REPOAGENT_MODEL")
    if record and record.exists():
        parser.error(f"{record} is there already: remove it first")
    if not shutil.which("git"):
        parser.error("git is not on PATH: install it first")
    folder = Path(tempfile.mkdtemp(prefix="repoagent-demo-")).resolve()
    started = time.monotonic()
    code = 1
    try:
        code = _play(folder, model, record.absolute() if record else None)
        gap()
        done = "Done" if code else "Every step did what it should"
        say(f"{done}, in {time.monotonic() - started:.0f} s.")
    except Failed as error:
        sys.stderr.write(f"\nthe demo failed: {error}\n")
    except KeyboardInterrupt:
        code = 130
    finally:
        if os.environ.get("KEEP"):
            say(f"The repository is kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return code


def _play(folder: Path, model: str | None, record: Path | None) -> int:
    heading("repoagent: a request becomes one clean commit")
    if model:
        say(f"Live: {model} is asked.")
        env = users_own()
    else:
        first = json.loads(CASSETTE.read_bytes().split(b"\n")[0])
        say(
            f"No key is needed: what the model says are recorded replies of {first['model'].split('/')[-1]}, a "
            f"real model, from {first['date'][:10]}. All else happens here and now. Set REPOAGENT_MODEL to run it live."
        )
        env = isolated(folder / "home")
    gap()
    say("All of it in a throw-away folder:")
    play = scenes.Play(make(folder, env), bool(model), record)
    if not model:
        play.stage.must("git config repoagent.model replay:demo/cassette.jsonl")
        play.stage.must("git config repoagent.edit.format whole   # as recorded")
    play.stage.must("git log --oneline -3")
    code = 0
    try:
        scenes.one_request_one_commit(play)
        scenes.what_is_remembered(play)
        scenes.take_it_back(play)
    except scenes.ModelFailed as failure:
        code = _told(failure)
    for scene in (scenes.a_check_that_fails, scenes.your_own_work):
        if code in (2, 4, 70, 130):
            break
        try:
            scene(play)
        except scenes.ModelFailed as failure:
            code = _told(failure)
    scenes.next_steps(play)
    return code


def _told(failure: scenes.ModelFailed) -> int:
    gap()
    say(f"This time {failure}. Nothing was changed: the file, the index and the branch are as they were.")
    return failure.code


sys.exit(main())
