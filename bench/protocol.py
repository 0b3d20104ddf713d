"""What native tools cost compared with tags: the scripted tasks of the tests, played with both in one run.

    python -m bench.protocol

The model is a script that goes by what it is sent alone, behind a local Messages API that checks what the real one
does: signatures of thinking, and a result for each call. It acts alike in both, so this says what is sent, and nothing
of how well a model does.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from repoagent.llm.model import strings
from repoagent.llm.usage import Limits
from tests.conftest import GitRepo
from tests.llm.providers.messages_server import Received, messages_server
from tests.llm.providers.thinking_server import Thinker, unmarked
from tests.tasks.scenarios.rules import fix_rounding, rename_everywhere, replace_line
from tests.tasks.scenarios.sight import Rule, Sight
from tests.tasks.scenarios.sources import KINDS
from tests.tasks.scenarios.stage import Stage

BYTES = 4  # of a token, about
PROTOCOLS = ("tags", "tools")


def read_all(see: Sight) -> str:
    """Reads eight files in one reply, then says so: the case for calls in parallel."""
    done = sum(role == "assistant" for role, _ in see.messages)
    reads = "".join(f'<read path="f{number}.txt"/>\n' for number in range(8))
    return reads if not done else "<reject>nothing to change</reject>"


TASKS: dict[str, tuple[str, Rule]] = {
    "change a line": ("Write two for one.", replace_line("f1.txt", "one", "two")),
    "fix a failing test": ("Make the failing test pass.", fix_rounding),
    "rename in several files": ("Rename one to uno.", rename_everywhere("one", "uno")),
    "read eight files": ("What is in the files?", read_all),
}


@dataclass
class Played:
    """Bytes that a model reads of each request, and how many of them are as in the request before."""

    requests: list[int]
    same: list[int]
    wrote: int

    @property
    def cells(self) -> list[str]:
        total = sum(self.requests)
        grown = (self.requests[-1] - self.requests[0]) / max(1, len(self.requests) - 1)
        return [
            str(len(self.requests)), f"{self.requests[0] // BYTES:,}", f"{grown / BYTES:,.0f}", f"{total // BYTES:,}",
            f"{sum(self.same) / total:.0%}", f"{self.wrote // BYTES:,}",
        ]  # fmt: skip


def played(folder: Path, task: str, protocol: str) -> Played:
    prompt, rule = TASKS[task]
    repo = GitRepo(folder)
    folder.mkdir(parents=True)
    repo.git("init", "-q")
    for message, files in KINDS["python"]():
        for path, content in files.items():
            repo.write(path, content)
        repo.commit(message)
    for number in range(8):
        repo.write(f"f{number}.txt", f"file {number}\none\n" + "text\n" * 20)
    repo.commit("Add texts")
    stage = Stage(repo)
    thinker = Thinker(lambda received: str(stage.script(received)))
    with messages_server(thinker) as server:
        os.environ.update(server.environment)
        try:
            stage.go(rule, prompt, mode="auto", limits=Limits(turns=30), config={"protocol": protocol})
        except Exception as error:
            if "declined: nothing to change" not in str(error):
                raise
        if thinker.rejected:
            raise AssertionError(thinker.rejected)
    sent = [pieces(received) for received in server.requests]
    same = [0]
    for before, after in pairwise(sent):
        common = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
        same.append(sum(map(len, before[:common])))
    return Played(
        [sum(map(len, each)) for each in sent], same, sum(len(reply.encode()) for reply in thinker.wrote)
    )


def pieces(received: Received) -> list[bytes]:
    """What a model reads, in the order of the cache: tools, system, messages; the thinking is the same in both."""
    body = received.body
    texts = [json.dumps(tool) for tool in body.get("tools", ())]
    texts += [block["text"] for block in body["system"]]
    for message in unmarked(body["messages"]):
        for block in message["content"]:
            shown = {"thinking": "", "text": block.get("text", "")}
            texts.append(shown.get(block["type"], " ".join(strings(block))))  # ids, names, values
    return [text.encode() for text in texts]


def main() -> None:
    print("| task | protocol | calls | first request | grows by | total sent | as before | written |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        os.environ |= {
            "HOME": place, "XDG_CONFIG_HOME": place, "XDG_STATE_HOME": place,
            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
        }  # fmt: skip
        for task in TASKS:
            for protocol in PROTOCOLS:
                found = played(Path(place) / task.replace(" ", "-") / protocol, task, protocol)
                print(f"| {task} | {protocol} | {' | '.join(found.cells)} |")


if __name__ == "__main__":
    main()
