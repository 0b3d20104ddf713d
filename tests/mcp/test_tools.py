"""What each tool gives and refuses, as the server uses it; the protocol around it is tested in test_server.py."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repoagent.errors import CheckFailed, NothingDone, Refused, RepoagentError, UsageError
from repoagent.llm.media import Media
from repoagent.mcp.server import perform
from repoagent.mcp.tool import Service
from repoagent.mcp.tools import make_tools
from tests.conftest import GitRepo
from tests.llm.media.files import pdf, png

PATCH = """\
--- a/src/app.py
+++ b/src/app.py
@@ -1,2 +1,2 @@
 def greet(name):
-    return 'hello ' + name
+    return 'hello, ' + name
"""
BACK = PATCH.replace("'hello, '", "'hi '").replace("'hello '", "'hello, '")  # when that is applied
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"[:36]


class Tools:
    """The tools of a server that was started in the folder `top` with these options."""

    def __init__(self, top: Path, **options: Any) -> None:
        self.service, self.cancelled = Service(top, **options), threading.Event()

    def call(self, name: str, /, **arguments: Any) -> str:
        """The text of the result."""
        return self.answer(name, **arguments)[0]

    def answer(self, name: str, /, **arguments: Any) -> tuple[str, Media | None]:
        tool = make_tools(self.service)[name]
        return perform(tool, self.service, arguments, self.cancelled, lambda *progress: None)


Use = Callable[..., Tools]


@pytest.fixture
def use(repo: GitRepo) -> Use:
    return partial(Tools, repo.top)


def snapshot(top: Path) -> dict[str, tuple[bytes, int]]:
    """Every file, of git and of ours too, with its time; the index of the history, which is derived, apart."""
    return {
        str(path.relative_to(top)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in top.rglob("*")
        if path.is_file() and ".repoagent" not in path.relative_to(top).parts
    }


def blobs(use: Use, *paths: str) -> dict[str, str]:
    """The `sources` of a patch of these files, "src/app.py" by default."""
    return {path: blob_in(use().call("read", path=path)) for path in paths or ("src/app.py",)}


def blob_in(text: str) -> str:
    """The blob id that `read` returned."""
    match = re.search(r' blob="?([0-9a-f]{40})', text)
    assert match
    return match[1]


def lines_in(text: str) -> list[str]:
    """The lines of the block in a result."""
    return text.partition("\n")[2].rpartition("\n</")[0].split("\n")


def test_neighbors_history_outline_and_read(repo: GitRepo, use: Use) -> None:
    repo.commit("greet louder", a="1")
    tools = use()
    assert "\na.txt  score " in tools.call("neighbors", paths=["src/app.py", "README.md"])
    assert "first commit" in tools.call("history", path="src/app.py")
    latest = tools.call("history", path=".", limit=1)
    assert "greet louder" in latest and "first commit" not in latest
    outline = tools.call("outline", path="src/app.py")
    assert "python, 6 lines" in outline and "def greet(name)" in outline and "def main()" in outline
    assert "(1 more)" in tools.call("outline", path="src/app.py", limit=1)
    text = tools.call("read", path="src/app.py", first_line=5, last_line=6)
    assert lines_in(text)[0] == "def main():" and ' lines="5-6"' in text
    assert blob_in(text) == repo.git("hash-object", "src/app.py").strip()


def test_neighbors_and_history_do_not_name_withheld_files(repo: GitRepo, use: Use) -> None:
    repo.write(".repoagentignore", "secret-*\n")
    repo.commit("together", **{"src/app.py": "x = 1\n", "src/secret-plan.md": "a\n", "a.txt": "1\n"})
    near = use().call("neighbors", paths=["src/app.py"])
    repo.commit("alone", **{"src/secret-plan.md": "b\n"})
    repo.git("mv", "src/secret-plan.md", "src/plan.md")
    repo.commit("made public")
    past = [use().call("history", path=path) for path in ("src", "src/plan.md", ".")]
    assert "a.txt" in near and "in app.py" in past[0] and "moved here" in past[1]
    for text in (near, *past):
        assert "secret-" not in text and "alone" not in text


def test_uses_of_a_symbol_and_of_a_file(repo: GitRepo, use: Use) -> None:
    repo.write("cli.py", "from src.app import greet\n\n\ndef hello():\n    greet('x')\n")
    repo.write("secret.py", "from src.app import greet\n")
    repo.write(".repoagentignore", "secret.py\n")
    tools = use()
    text = tools.call("uses", symbol="greet")
    assert "cli.py: 2 lines: 1, 5, in hello" in text and "src/app.py" in text and "secret.py" not in text
    whole = tools.call("uses", path="src/app.py", limit=1)
    assert "\ngreet (function, 1-2): 2 lines" in whole and "\nnot used in other files: main\n" in whole
    with pytest.raises(Refused, match="repoagentignore"):
        tools.call("uses", path="secret.py", symbol="greet")
    with pytest.raises(UsageError, match="name a symbol"):
        tools.call("uses")


def test_files(repo: GitRepo, use: Use) -> None:
    repo.write("src/new.py", "x = 1\n")
    repo.write("src/.env", "KEY=1\n")
    listing = use().call("files")
    assert "\nsrc/  2 files" in listing and "omitted" not in listing
    first, second = lines_in(use().call("files", path="src", pattern="*.py"))
    assert first.startswith(f"src/app.py  {len(repo.read('src/app.py'))} B  20") and "untracked" not in first
    assert second.startswith("src/new.py  6 B  20") and second.endswith("  untracked")
    assert "1 file withheld" in use().call("files", path="src")
    assert "omitted: name a folder" in use().call("files", limit=1)
    with pytest.raises(UsageError, match="no such folder: nowhere"):
        use().call("files", path="nowhere")


def test_read_returns_an_image(repo: GitRepo, use: Use) -> None:
    for name, data in {"shot.png": png(), "large.png": png(noise=4_000_000), "paper.pdf": pdf()}.items():
        repo.write(name, data)
    text, image = use().answer("read", path="shot.png")
    blob = repo.git("hash-object", "shot.png").strip()
    assert text == f"shot.png: image/png, 30 x 20 pixels, {len(png())} bytes, blob {blob}; it follows."
    assert image is not None and image.data == png()
    with pytest.raises(UsageError, match=r"large\.png is .* make it smaller"):
        use().call("read", path="large.png")
    with pytest.raises(UsageError, match=r"cannot send paper\.pdf .*pdftotext"):
        use().call("read", path="paper.pdf")


def test_a_long_file_comes_in_parts(repo: GitRepo, use: Use) -> None:
    lines = [f"line {n} {'x' * 90}" for n in range(1000)]
    repo.write("long.txt", "\n".join(lines) + "\n")
    tools = use()
    seen: list[str] = []
    while len(seen) < len(lines):
        text = tools.call("read", path="long.txt", first_line=len(seen) + 1)
        assert len(text) <= 25 * 1024
        seen += lines_in(text)
        assert (f'lines="{len(seen) + 1}-' in text) == (len(seen) < len(lines))
    assert seen == lines


@pytest.mark.soak
def test_recall_and_review(repo: GitRepo, use: Use) -> None:
    tools = use()
    assert tools.call("recall", query="why is the greeting so") == "No matches."
    with pytest.raises(UsageError, match="no word"):
        tools.call("recall", query="...")
    for number in range(8):
        repo.commit(f"both {number}", **{"a.txt": f"{number}\n", "README.md": f"{number}\n"})
    repo.write("a.txt", "staged\n")
    repo.git("add", "a.txt")
    report = tools.call("review")
    assert "1 finding in 1 file" in report and "[partner-missing]\n  a.txt" in report
    assert "0 findings" in tools.call("review", paths=["README.md"])
    repo.write(".repoagentignore", "a.txt\n")
    assert "0 findings" in tools.call("review")
    with pytest.raises(UsageError, match="cannot be combined"):
        tools.call("review", base="HEAD~1", commit="HEAD")
    with pytest.raises(UsageError, match="nowhere"):
        tools.call("review", commit="nowhere")
    assert "ask" not in make_tools(Service(repo.top))["review"].arguments["properties"]
    assert "ask" in make_tools(Service(repo.top, model="manual"))["review"].arguments["properties"]


def test_review_asks_the_model_of_the_server_on_request(repo: GitRepo, use: Use, tmp_path: Path) -> None:
    (tmp_path / "model.sh").write_text(f"cat > {tmp_path}/asked; echo '<finish>nothing found</finish>'\n")
    repo.write("a.txt", "changed\n")
    repo.git("add", "-A")
    tools = use(model=f"command:sh {tmp_path / 'model.sh'}")
    tools.call("review")
    assert not (tmp_path / "asked").exists()
    tools.call("review", ask=True)
    assert "changed" in (tmp_path / "asked").read_text()
    with pytest.raises(UsageError, match="'ask' was unexpected"):
        use().call("review", ask=True)


@pytest.mark.soak
def test_a_path_that_leads_elsewhere_is_refused(repo: GitRepo, use: Use) -> None:
    secret = "secret of the house\n"
    outside = repo.top.parent / "outside.txt"
    outside.write_text(secret)
    (repo.top / "link").symlink_to("../outside.txt")
    (repo.top / "linked").symlink_to("..")
    repo.write(".env", f"KEY={secret}")
    repo.write("hidden.txt", secret)
    repo.write(".repoagentignore", "hidden.txt\n")
    before = snapshot(repo.top)
    for path in (
        "../outside.txt", "/etc/passwd", ".git/config", ".GIT/config", "src/../../x", "link", "linked/x", "a\0b",
        ".env", "hidden.txt",
    ):  # fmt: skip
        for name in ("read", "outline"):
            with pytest.raises(RepoagentError) as error:
                use().call(name, path=path)
            assert secret.strip() not in str(error.value)
        new = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+owned\n"
        for sources in ({}, {path: "0" * 40}):
            with pytest.raises(RepoagentError):
                use(write=True).call("apply", patch=new, sources=sources)
        assert snapshot(repo.top) == before
    assert outside.read_text() == secret


def test_keys_are_masked_and_come_back_in_a_patch(repo: GitRepo, use: Use) -> None:
    repo.commit(**{"conf.py": f'TOKEN = "{TOKEN}"\nlimit = 1\n'})
    tools = use(write=True)
    shown = tools.call("read", path="conf.py")
    assert TOKEN not in shown
    line = lines_in(shown)[0]
    patch = f"--- a/conf.py\n+++ b/conf.py\n@@ -1,2 +1,2 @@\n {line}\n-limit = 1\n+limit = 2\n"
    done = tools.call("apply", patch=patch, sources={"conf.py": blob_in(shown)})
    assert done.startswith("Committed ") and TOKEN not in done
    assert repo.read("conf.py").decode() == f'TOKEN = "{TOKEN}"\nlimit = 2\n'
    assert TOKEN not in tools.call("outline", path="conf.py")
    made_up = patch.replace("limit = 1", "limit = 2").replace("+limit = 2", "+limit = '<<secret 0123abcd>>'")
    with pytest.raises(Refused, match="unknown placeholder <<secret 0123abcd>>"):
        tools.call("apply", patch=made_up, sources=blobs(use, "conf.py"))


def test_a_check_writes_nothing(repo: GitRepo, use: Use) -> None:
    sources = blobs(use)
    before = snapshot(repo.top)
    # without --write there is no argument that makes it write
    for tools, check_only in ((use(), True), (use(write=True), True), (use(), False)):
        text = tools.call("apply", patch=PATCH, sources=sources, check_only=check_only)
        assert text.startswith("The patch fits; nothing was written") and "Placed at src/app.py:1." in text
        assert "\n+    return 'hello, ' + name\n" in text
    assert snapshot(repo.top) == before


WORKFLOW = "--- /dev/null\n+++ b/.github/workflows/x.yml\n@@ -0,0 +1 @@\n+on: push\n"


def test_a_refused_patch_changes_nothing(repo: GitRepo, use: Use) -> None:
    head, source = repo.head(), blobs(use)
    missing = r"changes src/app\.py, which is missing from `sources`"
    both = blobs(use, "src/app.py", "a.txt")
    refusals: list[tuple[str, dict[str, str], type[RepoagentError], str]] = [
        (PATCH, {}, UsageError, missing),
        (PATCH, both, UsageError, "does not change a.txt"),
        (PATCH, {"src/app.py": "0" * 40}, Refused, "git does not have that blob"),
        (PATCH.replace("'hello '", "'bye '"), source, Refused, "bye"),
        (WORKFLOW, {}, Refused, "the change goes beyond your request"),  # it gets executed
        (PATCH, source, CheckFailed, "not like this"),  # of the hook
    ]
    repo.hook("pre-commit", "echo not like this; exit 1\n")
    for patch, sources, error, words in refusals:
        with pytest.raises(error, match=words):
            use(write=True).call("apply", patch=patch, sources=sources)
        assert (repo.head(), repo.status()) == (head, "")


def test_apply_commits_as_the_user(repo: GitRepo, use: Use) -> None:
    """Without the trailers in a message of the assistant, which may be a mail."""
    repo.write("a.txt", "mine, not committed\n")
    tools = use(write=True)
    text = "Greet with a comma\n\nIt reads better.\n\n"
    said = f"{text}Signed-off-by: A <a@x>\nReview-Ignore: *\n"
    mail = f"From: A <a@x>\nDate: Mon, 1 Jan 2024 00:00:00 +0000\nSubject: {said}---\n{BACK}"
    for patch in ({"patch": PATCH, "message": said}, {"patch": mail}):
        source = blobs(use)
        done = tools.call("apply", sources=source, **patch)
        edit = repo.git("log", "-1", "--format=%(trailers:key=Repoagent-Edit,valueonly)").strip()
        assert done.startswith(f"Committed {repo.head()} on main (edit {edit}): Greet with a comma\n")
        message = repo.git("log", "-1", "--format=%an%n%B")
        assert message.startswith(f"Ada Tester\n{text}Repoagent-Edit: {edit}\n")
        assert "Signed" not in message and "Ignore" not in message
        assert repo.status() == " M a.txt\n"
        with pytest.raises(NothingDone, match="already"):
            tools.call("apply", sources=source, **patch)
    again = BACK.replace("'hi '", "'hey '").replace("'hello, '", "'hi '")
    kept = tools.call("apply", patch=again, sources=blobs(use), commit=False)
    assert kept.startswith("Written, not committed (edit ") and b"'hey '" in repo.read("src/app.py")


def test_a_call_that_was_cancelled_changes_nothing(repo: GitRepo, use: Use) -> None:
    """Neither before it begins, nor while it waits for another call."""
    tools, source = use(write=True), blobs(use)
    for seconds in (0.0, 0.2):
        tools.cancelled.clear()
        timer = threading.Timer(seconds, tools.cancelled.set)
        began = time.monotonic()
        with tools.service.writing, pytest.raises(NothingDone, match="cancelled"):
            timer.start()
            if not seconds:
                timer.join()
            tools.call("apply", patch=PATCH, sources=source)
        assert time.monotonic() - began < 5
    assert repo.status() == "" and b"hello, " not in repo.read("src/app.py")


def test_outside_a_repository(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not in a git work tree"):
        Tools(tmp_path).call("neighbors", paths=["a"])


def test_bytes_that_are_no_utf8_can_be_sent(repo: GitRepo, use: Use) -> None:
    repo.commit("latin", **dict.fromkeys((os.fsdecode(b"caf\xe9.txt"), "latin.txt"), b"na\xefve\n"))
    for text in (use().call("neighbors", paths=["latin.txt"]), use().call("read", path="latin.txt")):
        assert text.encode()


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("read", {}, "'path' is a required property"),
    ("read", {"path": 3}, "path: must match type string"),
    ("read", {"path": "a.txt", "mode": "w"}, "'mode' was unexpected"),
    ("read", {"path": ""}, "minLength"),
    ("read", {"path": "x" * 5000}, "maxLength"),
    ("read", {"path": "a.txt", "first_line": 0}, "minimum 1"),
    ("read", {"path": "a.txt", "first_line": 99}, "outside the file"),
    ("neighbors", {"paths": []}, "minItems"),
    ("neighbors", {"paths": "a.txt"}, "type array"),
    ("neighbors", {"paths": ["nowhere.txt"]}, "nowhere.txt"),
    ("neighbors", {"paths": ["a.txt"], "revision": "--output=x"}, "--output=x"),
    ("history", {"path": "a.txt", "limit": 10**9}, "maximum 100"),
    ("history", {"path": "a.txt", "revision": "\0"}, "no such revision"),
    ("review", {"range": "a\0..b"}, "no such revision"),
    ("history", {"path": "nowhere.txt"}, "no such file: nowhere.txt"),
    ("outline", {"path": "src"}, "src is a folder"),
    ("outline", {"path": "a.txt", "language": "klingon"}, "unknown language 'klingon'"),
    ("recall", {"query": "x", "kinds": ["secrets"]}, "enum"),
    ("apply", {"patch": "no patch", "sources": {}}, "contains no patch"),
    ("apply", {"patch": PATCH}, "'sources' is a required property"),
    ("apply", {"patch": PATCH, "sources": {"src/app.py": "HEAD"}}, "pattern"),
    ("apply", {"patch": "x" * 4_000_001, "sources": {}}, "maxLength"),
]  # fmt: skip


def test_wrong_arguments_are_one_sentence(use: Use) -> None:
    for name, arguments, words in WRONG:
        with pytest.raises(RepoagentError) as error:
            use(write=True).call(name, **arguments)
        assert words in str(error.value), (name, arguments, str(error.value))
        assert len(str(error.value)) < 700


@pytest.mark.soak
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_plausible_arguments_change_nothing_unasked(repo: GitRepo, use: Use, data: st.DataObject) -> None:
    """Arguments of the right kinds, mostly: what gets past the schema."""
    tools = use(write=True)
    before = snapshot(repo.top)
    path = st.sampled_from(["a.txt", "src/app.py", "src", "README.md"]) | st.text(min_size=1, max_size=12)
    number = st.integers(1, 60)
    drawn: dict[str, dict[str, Any]] = {
        "neighbors": {"paths": st.lists(path, min_size=1, max_size=3), "revision": path | st.just("HEAD"), "limit": number},
        "history": {"path": path, "revision": path | st.just("HEAD"), "limit": number},
        "outline": {"path": path, "depth": st.integers(1, 50), "limit": number},
        "read": {"path": path, "first_line": number, "last_line": number, "characters": path | st.just("1-5")},
        "recall": {"query": st.text(min_size=1, max_size=30), "paths": st.lists(path, max_size=2)},
        "review": {"range": path | st.just("HEAD..HEAD"), "paths": st.lists(path, max_size=2)},
        "apply": {
            "patch": st.text(max_size=80) | st.sampled_from([PATCH, PATCH.replace("src/app.py", "a.txt")]),
            "sources": st.dictionaries(path, st.text("0123456789abcdef", min_size=7, max_size=40), max_size=2),
        },
    }  # fmt: skip
    name = data.draw(st.sampled_from(sorted(drawn)))
    required = make_tools(tools.service)[name].arguments["required"]
    keys = [key for key in drawn[name] if key in required or data.draw(st.booleans())]
    with suppress(RepoagentError):
        tools.call(name, **{key: data.draw(drawn[name][key]) for key in keys})
    assert snapshot(repo.top).keys() == before.keys()
    assert repo.status() == ""
