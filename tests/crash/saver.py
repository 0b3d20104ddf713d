"""A second process that saves files repeatedly, as editors do, each time with a new token.

    python -m tests.crash.saver TOP LOG SEED

A file has lines `slot NAME: TOKEN`; a save reads the file, replaces the token of one slot, and writes the file. Each
save appends a line of JSON to LOG: the file, the slot, the new token, and the one that was `seen` before. A save holds
LOG.lock; so do the test's hooks that write files, so that they overwrite no save. The process ends when LOG.stop
exists. LOG.busy means that a hook is running, LOG.near that the slot `near` is saved as well.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import sys
import time
from pathlib import Path

# few saves of a.txt, or no edit would succeed
ALWAYS = [("a.txt", "far"), *[("b.txt", "far"), ("d.md", "far")] * 6]
IN_HOOKS = [("a.txt", "far"), ("b.txt", "far"), ("c.txt", "far"), ("d.md", "far"), ("a.txt", "near")]
WAYS = ["in place", "over", "renamed", "recreated"]
SECONDS = 0.02  # between two saves, at most


def slot(data: bytes, name: str) -> str | None:
    """Return the token in a slot, or None if the file has no such slot."""
    match = re.search(rb"^slot %s: *(\S+)" % name.encode(), data, re.MULTILINE)
    return match[1].decode() if match else None


def write(path: Path, data: bytes, way: str, chance: random.Random) -> None:
    """Write the file as an editor would, in one of WAYS; all but "renamed" write it in two pieces."""
    half = chance.randrange(len(data) + 1)
    if way == "renamed":
        other = path.with_name(f"{path.name}~")
        other.write_bytes(data)
        other.rename(path)
        return
    if way == "recreated":
        path.unlink(missing_ok=True)
        time.sleep(chance.uniform(0, 0.004))
    mode = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if way != "over" else 0)
    with os.fdopen(os.open(path, mode, 0o644), "wb", buffering=0) as file:
        if chance.random() < 0.3:
            time.sleep(chance.uniform(0, 0.004))
        file.write(data[:half])
        file.write(data[half:])
        file.truncate()


def main(top: Path, log: Path, seed: int) -> None:
    chance = random.Random(seed)
    number = 0
    with log.open("a") as out, log.with_suffix(".lock").open("w") as lock:
        while not log.with_suffix(".stop").exists():
            time.sleep(chance.uniform(0, SECONDS))
            name, which = chance.choice(IN_HOOKS if log.with_suffix(".busy").exists() else ALWAYS)
            if which == "near" and not log.with_suffix(".near").exists():
                continue
            path = top / name
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                data = b""
            seen = slot(data, which)
            if seen is not None:
                number += 1
                token = f"T{number}x{seed}"
                way = chance.choice(WAYS)
                write(
                    path,
                    data.replace(
                        b"%s: %s" % (which.encode(), seen.encode()),
                        b"%s: %s" % (which.encode(), token.encode()),
                    ),
                    way,
                    chance,
                )
                entry = {
                    "file": name,
                    "slot": which,
                    "token": token,
                    "seen": seen,
                    "way": way,
                    "at": time.time(),
                }
                out.write(json.dumps(entry) + "\n")
                out.flush()
            fcntl.flock(lock, fcntl.LOCK_UN)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
