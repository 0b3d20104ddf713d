"""`read` of an image or a PDF: what the model gets now, later and after a kill, and which models get none."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repoagent.config.layers import load_settings
from repoagent.edit.edit import edit
from repoagent.edit.request import EditRequest, Target
from repoagent.edit.ui import NonInteractive
from repoagent.git.worktree import layout_of, open_worktree
from tests.conftest import GitRepo
from tests.llm.media.files import pdf, png
from tests.llm.providers.messages_server import Received, Script, Server
from tests.tasks.bare import diff, go, run_dir
from tests.tasks.scenarios.stage import MODEL, Stage

SHOT = png(800, 600, noise=4000)
READ = '<read path="shot.png"/>'
Serve = Callable[[Script], Server]


@pytest.fixture
def stage(repo: GitRepo, server_with: Serve) -> Stage:
    """With shot.png, and a model behind the server."""
    repo.write("shot.png", SHOT)
    stage = Stage(repo)
    stage.server = server_with(stage.script)
    return stage


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


def test_an_image_is_sent_again_at_the_same_position(repo: GitRepo, stage: Stage) -> None:
    """By a resumed run too, from one copy, or the copy is reported missing."""
    repo.write("paper.pdf", pdf(2))
    replies = [f'{READ}\n<read path="paper.pdf"/>', '<read path="src/app.py"/>', *[says_what_it_sees] * 3]
    assert stage.go(*replies, prompt="Look.").text == f"{len(SHOT)} bytes"
    first, second = stage.requests[1:]
    (message, block, shot), (_, last, paper) = images(first)
    assert (shot, paper) == (SHOT, pdf(2)) and images(second) == images(first)
    content = first.body["messages"][message]["content"]
    said = f"shot.png: image/png, 800 x 600 pixels, {len(SHOT):,} bytes; attached below.\n</observation-"
    assert said in content[block - 1]["text"]
    assert content[last]["cache_control"]  # the last of the request
    kept = run_dir(repo).conversation.read_text()
    assert "attached=" in kept and "shot.png" in kept
    stored = [path.read_bytes() for path in (repo.top / ".repoagent").rglob("*") if path.is_file()]
    assert stored.count(SHOT) == 1 and not any(b64encode(SHOT)[100:200] in data for data in stored)

    repo.write("shot.png", png(1, 1))
    assert stage.go(prompt="Again.").text == f"{len(SHOT)} bytes"
    assert images(stage.requests[3])[:2] == images(first)
    (copy,) = (repo.top / ".repoagent").rglob("*.png")
    copy.write_bytes(png(2, 2))  # it has changed since it was sent
    assert stage.go(prompt="And now?").text == f"{len(pdf(2))} bytes"
    assert "shot.png is not attached: the copy that was sent no longer exists" in stage.requests[4].text


FILES = {  # the content of a file, and what the model gets
    "shot.png": (SHOT, "cannot tell whether scripted/one accepts images"),
    "private/a.png": (SHOT, "is listed in .repoagentignore"),
    "cut.png": (SHOT[:2000], "cut.png is truncated or broken"),
    "old.tiff": (b"II*\0" + bytes(range(256)) * 4, "binary"),
    "story.txt": (b"%PDF-like beginnings\n", "%PDF-like beginnings"),
}


def test_a_model_that_gets_no_image_gets_the_reason(repo: GitRepo) -> None:
    (repo.top.parent / "away.png").write_bytes(SHOT)
    (repo.top / "away.png").symlink_to(repo.top.parent / "away.png")
    repo.write(".repoagentignore", "private/\n")
    reasons = {"../away.png": "is not a normalized path inside the work tree", "away.png": "symbolic link"}
    for name, (data, said) in FILES.items():
        repo.write(name, data)
        reasons[name] = said
    _, model, user = go(repo, "\n".join(f'<read path="{path}"/>' for path in reasons), "So.")
    for (path, said), observation in zip(reasons.items(), user.observations, strict=True):
        assert said in observation.text, path
    assert not model.seen[-1].media and not list((repo.top / ".repoagent").rglob("*.png"))


def test_a_text_model_gets_a_description(repo: GitRepo, stage: Stage, tmp_path: Path) -> None:
    program = tmp_path / "model.sh"
    program.write_text(f"if grep -q 'not known to accept images'; then echo Seen.; else echo '{READ}'; fi\n")
    assert stage.go(prompt="Look.", config={"model": f"command:sh {program}"}).text == "Seen."
    kept = run_dir(repo).conversation.read_text()
    assert "model.sh is not known to accept images; if it does" in kept
    assert f"; shot.png: image/png, 800 x 600 pixels, {len(SHOT):,} bytes." in kept


def test_an_edit_sees_the_image(repo: GitRepo, server_with: Serve) -> None:
    repo.write("shot.png", SHOT)
    repo.commit("add a picture", **{"f.txt": "one\n"})

    def reply(received: Received) -> str:
        seen = images(received)
        return diff("f.txt", "one", str(len(seen[0][2]))) if seen else READ

    server_with(reply)
    worktree = open_worktree(repo.top)
    settings = load_settings(layout_of(worktree), flags={"model": MODEL})
    edit(worktree, EditRequest("Write its size.", (Target("f.txt"),)), settings, NonInteractive())
    assert repo.read("f.txt") == f"{len(SHOT)}\n".encode()
    assert [path.read_bytes() for path in (repo.top / ".repoagent/sent").glob("*.png")] == [SHOT]
