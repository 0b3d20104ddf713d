"""The baseline: what a person does with a chat window. The files go in, the whole new files come out and are pasted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from bench.local.tasks import Task
from repoagent.config.layers import load
from repoagent.llm.client import complete
from repoagent.llm.model import Message, Part, Request
from repoagent.llm.registry import open_model
from repoagent.llm.usage import Meter

_FENCE = re.compile(r"^(`{3,})[^`\n]*\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Pasted:
    """`files` is empty when the answer has no fence for each of them."""

    question: str
    answer: str
    files: dict[str, bytes]
    tokens_in: int
    tokens_out: int


def paste(task: Task, model: str) -> Pasted:
    """Ask once. Raises what a model call raises."""
    asked = question(task)
    request = Request((), (Message("user", (Part(asked),)),), task.output_tokens)
    reply = complete(open_model(load(None, flags={"model": model})), request, Meter())
    usage = reply.usage
    return Pasted(asked, reply.text, pasted(task, reply.text), usage.total - usage.output, usage.output)


def question(task: Task) -> str:
    """The files in fences, then what is wanted."""
    shown = "".join(
        f"{path}:\n```{PurePosixPath(path).suffix[1:]}\n{_text(task, path)}\n```\n\n" for path in task.files
    )
    what = "the whole new file" if len(task.files) == 1 else "the whole new files, each in its own code block"
    return f"{shown}{task.instruction}\n\nGive me {what}."


def pasted(task: Task, answer: str) -> dict[str, bytes]:
    """What is then in the files. The block for a single file is the longest one; several are taken in their order.
    An editor keeps the line endings of a file, and whether it ends in one."""
    blocks = [match[2] for match in _FENCE.finditer(answer.replace("\r\n", "\n"))]
    if len(task.files) == 1 and blocks:
        blocks = [max(blocks, key=len)]
    if len(blocks) != len(task.files):
        return {}
    found = {}
    for path, block in zip(task.files, blocks, strict=True):
        old = task.source[path]
        text = block.rstrip("\n") + ("\n" if old.endswith(b"\n") else "")
        found[path] = text.replace("\n", "\r\n" if b"\r\n" in old else "\n").encode()
    return found


def _text(task: Task, path: str) -> str:
    return task.source[path].decode().replace("\r\n", "\n").rstrip("\n")
