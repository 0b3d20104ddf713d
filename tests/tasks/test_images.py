"""`read` of an image or a PDF: what the model gets now, later and after a kill, and which models get none."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from repoagent.config.layers import load
from repoagent.edit.model_setup import model_setup
from repoagent.git.worktree import layout, open_worktree
from repoagent.llm.usage import Limits
from repoagent.tasks.run_context import RunRequest
from repoagent.tasks.session import run
from tests.conftest import GitRepo
from tests.llm.media.files import pdf, png
from tests.llm.providers.messages_server import Received, Server, messages_server
from tests.tasks.bare import NAME, User, go

SHOT = png(800, 600, noise=4000)
READ = '<read path="shot.png"/>'
Serve = Callable[..., Server]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    with ExitStack() as running:

        def serve(*replies: Any) -> Server:
            left = list(replies)

            def script(received: Received) -> str:
                reply = left.pop(0)
                return reply if isinstance(reply, str) else str(reply(received))

            server = running.enter_context(messages_server(script))
            for key, value in server.environment.items():
                monkeypatch.setenv(key, value)
            return server

        yield serve


def work(repo: GitRepo, prompt: str = "Look.", model: str = "anthropic/claude-sonnet-5-5") -> str:
    worktree = open_worktree(repo.top)
    settings = load(layout(worktree), flags={"model": model, "timeout": 5})
    ready = model_setup(settings, limits=Limits(turns=20))
    return run(worktree, RunRequest(prompt, NAME, mode="auto-edit"), settings, User(), ready).text


def images(received: Any) -> list[tuple[int, int, bytes]]:
    """The position of each image or PDF, as message and block, and its bytes."""
    return [
        (number, at, b64decode(block["source"]["data"]))
        for number, message in enumerate(received.body["messages"])
        for at, block in enumerate(message["content"])
        if block["type"] in {"image", "document"}
    ]


def says_what_it_sees(received: Received) -> str:
    """Its answer names the attachments of the request; without them the answer is wrong."""
    seen = images(received)
    return f"<finish>{len(seen[0][2])} bytes</finish>" if seen else "<finish>nothing</finish>"


def test_an_image_is_sent_again_at_the_same_position(repo: GitRepo, serve: Serve) -> None:
    repo.write("shot.png", SHOT)
    server = serve(READ, '<read path="src/app.py"/>', says_what_it_sees)
    assert work(repo) == f"{len(SHOT)} bytes"
    first, second = server.requests[1:]
    ((message, block, data),) = images(first)
    assert data == SHOT and images(second) == [(message, block, SHOT)]
    content = first.body["messages"][message]["content"]
    assert (
        f"shot.png: image/png, 800 x 600 pixels, {len(SHOT):,} bytes; attached below.\n</observation-"
        in content[block - 1]["text"]
    )
    assert content[block]["cache_control"]  # the last of the request
    kept = (repo.top / ".repoagent/conversations" / f"{NAME}.md").read_text()
    assert "attached=" in kept and "shot.png" in kept
    for path in (repo.top / ".repoagent").rglob("*"):  # the bytes are stored once, and never as base64
        if path.is_file():
            assert b64encode(SHOT)[100:200] not in path.read_bytes()
    assert [path.read_bytes() for path in (repo.top / ".repoagent").rglob("*.png")] == [SHOT]


def test_a_resumed_run_sends_the_same_bytes_or_reports_them_missing(repo: GitRepo, serve: Serve) -> None:
    repo.write("shot.png", SHOT)
    repo.write("paper.pdf", pdf(2))
    server = serve(f'{READ}\n<read path="paper.pdf"/>', "I see.", says_what_it_sees, says_what_it_sees)
    work(repo)
    repo.write("shot.png", png(1, 1))
    assert work(repo, "Again.") == f"{len(SHOT)} bytes"
    assert [data for *_, data in images(server.requests[2])] == [SHOT, pdf(2)]
    for path in (repo.top / ".repoagent").rglob("*.png"):
        path.write_bytes(png(2, 2))  # the file has changed since it was sent
    assert work(repo, "And now?") == f"{len(pdf(2))} bytes"
    assert "shot.png is not attached: the copy that was sent no longer exists" in server.requests[3].text


REASONS = {
    "shot.png": "cannot tell whether scripted/one accepts images",
    "private/a.png": "is listed in .repoagentignore",
    "../away.png": "is not a normalized path inside the work tree",
    "away.png": "symbolic link",
    "cut.png": "cut.png ends too early",
    "old.tiff": "binary",
    "story.txt": "%PDF-like beginnings",
}


def test_a_model_that_gets_no_image_gets_the_reason(repo: GitRepo) -> None:
    (repo.top.parent / "away.png").write_bytes(SHOT)
    (repo.top / "away.png").symlink_to(repo.top.parent / "away.png")
    for name, data in {
        "shot.png": SHOT, "private/a.png": SHOT, "cut.png": SHOT[:2000], "old.tiff": b"II*\0" + bytes(range(256)) * 4,
        "story.txt": b"%PDF-like beginnings\n", ".repoagentignore": b"private/\n",
    }.items():  # fmt: skip
        repo.write(name, data)
    _, model, user = go(repo, "\n".join(f'<read path="{path}"/>' for path in REASONS), "So.")
    for (path, said), observation in zip(REASONS.items(), user.observations, strict=True):
        assert said in observation.text, path
    assert not model.seen[-1].media and not list((repo.top / ".repoagent").rglob("*.png"))


def test_a_text_model_gets_a_description(repo: GitRepo, tmp_path: Path) -> None:
    repo.write("shot.png", SHOT)
    program = tmp_path / "model.sh"
    program.write_text(
        f"#!/bin/sh\nif grep -q 'not known to accept images'; then echo Seen.; else echo '{READ}'; fi\n"
    )
    program.chmod(0o755)
    assert work(repo, model=f"command:{program}") == "Seen."
    kept = (repo.top / ".repoagent/conversations" / f"{NAME}.md").read_text()
    assert "model.sh is not known to accept images; if it does" in kept
    assert f"; shot.png: image/png, 800 x 600 pixels, {len(SHOT):,} bytes." in kept


def test_an_edit_sees_the_image(repo: GitRepo, serve: Serve) -> None:
    from repoagent.edit.edit import edit
    from repoagent.edit.request import EditRequest, Target
    from repoagent.edit.ui import NonInteractive

    repo.write("shot.png", SHOT)
    repo.commit("add a picture", **{"f.txt": "one\n"})

    def changes(received: Received) -> str:
        size = len(images(received)[0][2])
        return f"```diff\n--- a/f.txt\n+++ b/f.txt\n@@ -1 +1 @@\n-one\n+{size}\n```\n"

    serve(READ, changes)
    worktree = open_worktree(repo.top)
    settings = load(layout(worktree), flags={"model": "anthropic/claude-sonnet-5-5"})
    edit(worktree, EditRequest("Write its size.", (Target("f.txt"),)), settings, NonInteractive())
    assert repo.read("f.txt") == f"{len(SHOT)}\n".encode()
    assert [path.read_bytes() for path in (repo.top / ".repoagent/sent").glob("*.png")] == [SHOT]
