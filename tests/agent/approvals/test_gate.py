"""Modes, rules, read-only commands, "always": what passes, needs approval or is refused, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from repoagent.agent.approvals.policy import ApprovalRequest, Gate, Mode, Verdict
from repoagent.agent.approvals.rules import ignores_case, propose, rules
from repoagent.agent.approvals.shell_parser import read_command
from repoagent.errors import UsageError


class Person:
    """An asker that always returns the same verdict, and records the requests."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.asked: list[ApprovalRequest] = []

    def __call__(self, asked: ApprovalRequest) -> Verdict:
        self.asked.append(asked)
        return self.verdict


def gate(
    tmp_path: Path,
    mode: Mode = "ask",
    *,
    allow: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    sandbox: str = "",
) -> Gate:
    return Gate(
        mode, allow=rules(allow), deny=rules(deny), sandbox=sandbox, top=tmp_path, path="/usr/bin:/bin"
    )


def passes(gate: Gate, command: str) -> bool:
    return gate.decide(ApprovalRequest("command", command)).allowed


def test_deny_rule_on_a_case_insensitive_file_system(tmp_path: Path) -> None:
    """Simulated by a program with two names."""
    (tmp_path / "git").write_text("")
    it = gate(tmp_path, "auto", deny=("git push *",), sandbox="bubblewrap")
    it.path = f"/no/such/folder:{tmp_path}"
    commands = "GIT push", "/usr/bin/Git -C x PUSH origin", "git push"
    assert [it.decide(ApprovalRequest("command", text)).allowed for text in commands] == [True, True, False]
    (tmp_path / "GIT").hardlink_to(tmp_path / "git")
    ignores_case.cache_clear()
    assert [it.decide(ApprovalRequest("command", text)).allowed for text in commands] == [False] * 3
    assert it.decide(ApprovalRequest("command", "GIT pull")).allowed


@pytest.mark.parametrize(
    ("rule", "command", "allowed"),
    [
        ("git log *", "git log", True),
        ("git log *", "git log -n 5 -- 'a b'", True),
        ("git log *", "git 'log' x", True),
        ("git log *", "git logs", False),
        ("git log *", "git -c core.pager=evil log", False),
        ("git log *", "/tmp/git log", False),
        ("git log *", "git log; rm -rf x", False),
        ("git log *", "git log $(rm -rf x)", False),
        ("git log *", "git log `rm -rf x`", False),
        ("git log *", "git log | sh", False),
        ("git log *", "git log\nrm -rf x", False),
        ("git log *", "git log &\nrm x", False),
        ("git log *", "git log > ../out", False),
        ("git log *", "git log > out", True),
        ("git log *", "git log > .git/config", False),
        ("git log *", "git log > .GIT/hooks/pre-commit", False),
        ("git log *", "git log > .repoagent/config.toml", False),
        ("git log *", "cd .git && git log > config", False),
        ("git log *", "git log > $HOME/x", False),
        ("git log *", "git log > link/x", False),
        ("git log *", "git log < /dev/tcp/example.com/80", False),
        ("git log *", "LD_PRELOAD=./x.so git log", False),
        ("git log *", "GIT_EXTERNAL_DIFF=./x git log", False),
        ("git log *", "PATH=.:$PATH; git log", False),
        ("git log *", "for PATH in .; do git log; done", False),
        ("git log *", "git() { rm x; }; git log", False),
        ("git log *", "alias git=rm\ngit log", False),
        ("git log *", "CI=1 git log", True),
        ("git log *", "CI=$(rm x) git log", False),
        ("git log *", "timeout 9 git log", True),
        ("git log *", "env GIT_PAGER=x git log", False),
        ("git log *", "sudo git log", False),
        ("git log *", "bash -c 'git log; rm x'", False),
        ("git log *", "bash -c 'git log'", True),
        ("git log *", "echo --output=../x | xargs git log", False),
        ("pytest *", "echo x | xargs pytest", True),
        ("git log *", "git log --output=../x --format=evil", False),
        ("git log *", "git log --outp ../x", False),
        ("git log *", "git log $x", False),
        ("git log --output=x *", "git log --output=x -n 1", True),
        ("git log --output=x *", "git log --output=x --output=y", False),
        ("git grep *", "git grep -nOsh x", False),
        ("git fetch *", "git fetch --upload-pack=./x .", False),
        ("git diff *", "git diff --no-index / /etc", False),
        ("rg *", "rg --pre=./x y", False),
        ("rg *", "rg y src", True),
        ("make test", "CI='$(shell ./x)' make test", False),
        ("make test", "DEBUG=app:* make test", True),
        ("git log *", "echo x | xargs git", False),
        ("pytest", "pytest", True),
        ("pytest", "pytest -q", False),
        ("pytest -q *", "pytest $X", False),
        ("pytest -q *", "pytest -q $X", True),
        ("FOO=1 pytest *", "FOO=1 pytest x", True),
        ("FOO=1 pytest *", "FOO=2 pytest x", False),
        ("npm run *", "npm run build", True),
        ("npm run test-*", "npm run test-unit", True),
        ("npm run test-*", "npm run test-unit --x", False),
        ("frob '*'", "frob '*'", True),
        ("frob '*'", "frob a", False),
        ("frob a.c", "frob abc", False),
        ("sudo apt *", "sudo apt update", True),
        ("*", "anything at all", True),
        ("*", "$X", False),
        ("", "", False),
    ],
)
def test_rule_allows_only_its_simple_command(tmp_path: Path, rule: str, command: str, allowed: bool) -> None:
    (tmp_path / "link").symlink_to("/tmp")
    (tmp_path / ".git").mkdir()
    assert passes(gate(tmp_path, allow=(rule,) if rule else ()), command) is allowed


@pytest.mark.parametrize("mode", ["ask", "auto-edit", "auto", "read-only"])
@pytest.mark.parametrize(
    "command",
    ["git push", "git push origin", "ls; git push", "/usr/bin/git push", "git -C x push", "git -c a=b push", "X=1 git push",
     "sudo git push", "env git push", "bash -c 'git push'", "git $x", "$(git push)", "true && timeout 3 git push",
     "find . -exec git push \\;", "f() { git push; }; f"],
)  # fmt: skip
def test_deny_rule_wins_in_every_mode(tmp_path: Path, mode: Mode, command: str) -> None:
    person = Person(Verdict(True))
    it = gate(tmp_path, mode, allow=("*",), deny=("git push *",), sandbox="bubblewrap")
    it.asker = person
    verdict = it.decide(ApprovalRequest("command", command))
    assert not verdict.allowed and "git push *" in verdict.reason and not person.asked


def test_ambiguous_command_is_not_run_automatically_with_deny_rules(tmp_path: Path) -> None:
    it = gate(tmp_path, "auto", deny=("git push *",), sandbox="bubblewrap")
    assert "simpler" in it.decide(ApprovalRequest("command", "eval $x")).reason
    assert passes(it, "git status | cat; make")


@pytest.mark.parametrize(
    ("command", "confined", "free"),
    [
        ("ls -la src", True, True),
        ("cat a.txt | grep -n x | wc -l", True, True),
        ("cat /etc/passwd", True, False),
        ("cat ../x", True, False),
        ("cat link", True, False),
        ("cat ~/x", True, False),
        ("cat secret", False, False), ("head -5 ./src/../secret", False, False),
        ("grep -R x .", True, False),
        ("grep --file=/etc/passwd x", True, False),
        ("cat < /etc/passwd", True, False),
        ("ls 2>/dev/null", True, True),
        ("ls > out", False, False),
        ("git status", True, False),
        ("git --no-pager log -p -n 3", True, False),
        ("git diff --output=x", False, False),
        ("git diff --outp=x", False, False),
        ("git diff --ext-diff", False, False),
        ("git -c core.fsmonitor=x status", False, False),
        ("git grep -Oless x", False, False),
        ("git grep --open=sh x", False, False),
        ("git branch", True, False),
        ("git branch -D x", False, False),
        ("git stash", False, False),
        ("git remote add x y", False, False),
        ("git config --list", False, False),
        ("find . -name '*.py'", True, True),
        ("find . -delete", False, False),
        ("find . -exec rm {} +", False, False),
        ("find . -fprint x", False, False),
        ("sort a", True, True),
        ("sort -o a a", False, False),
        ("sort -uo a a", False, False),
        ("sort --compress-program=sh a", False, False),
        ("sed -n 1,5p a.txt", True, True),
        ("sed -i s/a/b/ a", False, False),
        ("sed -n 'w x' a", False, False),
        ("awk '{print}' a", False, False),
        ("uniq a b", False, False),
        ("rg --pre sh x", False, False),
        ("rg x", True, False),
        ("date -s x", False, False),
        ("tree -o x", False, False),
        ("LD_PRELOAD=x ls", False, False),
        ("cd src && ls", True, False),
        ("cd .. && ls", False, False),
        ("./ls", False, False),
        ("x=1; echo $x", True, False),
        ("PATH=x; ls", False, False),
        ("echo $(cat a.txt)", True, False),
        ("env", False, False),
        ("tee x", False, False),
    ],
)  # fmt: skip
def test_read_only_command_passes_if_harmless(
    tmp_path: Path, command: str, confined: bool, free: bool
) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "secret").write_text("key")
    (tmp_path / "src").mkdir()
    bare, boxed = gate(tmp_path, "read-only"), gate(tmp_path, "read-only", sandbox="bubblewrap")
    bare.off_limits = boxed.off_limits = lambda path: "it is a secret" if path == "secret" else None
    assert passes(boxed, command) is confined
    assert passes(bare, command) is free


def test_program_in_the_work_tree_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "ls").write_text("#!/bin/sh\nrm -rf x\n")
    (tmp_path / "ls").chmod(0o755)
    it = gate(tmp_path)
    it.path = f"{tmp_path}:/usr/bin:/bin"
    assert not passes(it, "ls") and passes(it, "cat a")


@pytest.mark.parametrize(
    ("mode", "sandbox", "asked", "expected"),
    [
        ("ask", "", ("edit", "a.txt"), None),
        ("ask", "bwrap", ("command", "make"), None),
        ("auto-edit", "", ("edit", "a.txt"), True),
        ("auto-edit", "", ("write", "a.txt"), True),
        ("auto-edit", "bwrap", ("command", "make"), None),
        ("auto", "bwrap", ("command", "make"), True),
        ("auto", "bwrap", ("command", "eval $x"), True),
        ("auto", "bwrap", ("python", "1"), True),
        ("auto", "bwrap", ("browse", "https://x"), None),
        ("auto", "bwrap", ("tool", "x"), None),
        ("auto", "", ("command", "make"), False),
        ("auto", "", ("python", "1"), False),
        ("auto", "", ("edit", "a"), True),
        ("read-only", "bwrap", ("command", "make"), False),
        ("read-only", "bwrap", ("edit", "a"), False),
        ("read-only", "bwrap", ("write", "a"), False),
        ("read-only", "bwrap", ("python", "1"), False),
        ("read-only", "bwrap", ("tool", "x"), False),
        ("read-only", "bwrap", ("delegate", "x"), True),
        ("read-only", "bwrap", ("browse", "https://x"), None),
    ],
)  # fmt: skip
def test_mode_passes_refuses_or_asks(
    tmp_path: Path, mode: Mode, sandbox: str, asked: tuple[str, str], expected: bool | None
) -> None:
    person = Person(Verdict(False, reason="the user said no: later"))
    it = gate(tmp_path, mode, sandbox=sandbox)
    it.asker = person
    verdict = it.decide(ApprovalRequest(*asked))
    assert bool(person.asked) is (expected is None)
    assert verdict.allowed is bool(expected) and verdict.by and (verdict.allowed or verdict.reason)
    if mode == "auto" and not sandbox and asked[0] == "command":
        assert "--mode ask" in verdict.reason


def test_allow_rule_is_ignored_in_read_only_mode(tmp_path: Path) -> None:
    assert not passes(gate(tmp_path, "read-only", allow=("make *",), sandbox="bwrap"), "make")


def test_rules_of_other_kinds(tmp_path: Path) -> None:
    it = gate(tmp_path, allow=("browse:https://docs.python.org/*",), deny=("tool:deploy*",))
    it.asker = Person(Verdict(True))
    assert it.decide(ApprovalRequest("browse", "https://docs.python.org/3/")).by.startswith("rule")
    assert it.decide(ApprovalRequest("browse", "https://docs.python.org.evil/")).by == "person"
    assert not it.decide(ApprovalRequest("tool", "deploy all")).allowed
    assert not passes(gate(tmp_path, allow=("browse:*",)), "browse:x")


def test_always_is_saved_and_each_decision_is_audited(tmp_path: Path) -> None:
    saved: list[str] = []
    events: list[Mapping[str, object]] = []
    it = gate(tmp_path, sandbox="bwrap")
    person = Person(Verdict(True, always=True, keep=True))
    it.asker, it.remember, it.audit = person, saved.extend, events.append
    assert passes(it, "ls | head; ruff check a.py && make test")
    assert person.asked[0].patterns == ("ruff *", "make test") and person.asked[0].sandbox == "bwrap"
    assert saved == ["ruff *", "make test"]
    assert passes(it, "make test; ruff format") and len(person.asked) == 1
    person.verdict = Verdict(True, always=True)
    assert passes(it, "make all") and passes(it, "make all") and len(person.asked) == 2
    assert saved == ["ruff *", "make test"]
    assert [event["by"] for event in events] == [
        "person, always: ruff *, make test",
        "rule make test, rule ruff *",
        "person, for this run: make all",
        "rule make all",
    ]


def test_always_is_not_offered_if_it_would_not_be_enough(tmp_path: Path) -> None:
    person = Person(Verdict(True, always=True))
    it = gate(tmp_path)
    it.asker = person
    for command in ("eval $x", "pytest > ../out", "X=$y make", "python -c 'a\nb'"):
        assert passes(it, command)
    assert [asked.patterns for asked in person.asked] == [(), (), (), ()] and it.allow == ()


@pytest.mark.parametrize(
    ("command", "patterns"),
    [
        ("git log -n 3", ("git log *",)),
        ("git config x y", ("git config x y",)),
        ("git -c a=b log", ()),
        ("git push --force", ("git push --force",)),
        ("npm run build -- --x", ("npm run build -- --x",)),
        ("npm install x", ("npm install x",)),
        ("cargo test a", ("cargo test a",)),
        ("make test", ("make test",)),
        ("python -m pytest -q", ("python -m pytest -q",)),
        ("sudo ls", ("sudo ls",)),
        ("rm -rf 'my dir'", ("rm -rf 'my dir'",)),
        ("echo a > b", ("echo *",)),
        ("bash x.sh", ("bash x.sh",)),
        ("bash -c 'ruff -q'", ("ruff *",)),
        ("FOO=1 make", ("FOO=1 make",)),
        ("rm '*' \"it's\"", ("rm '*' 'it'\"'\"'s'",)),
        ("rm *.o", ()),
        ("rm $x", ()),
        ("repoagent config run.mode auto", ("repoagent config run.mode auto",)),
    ],
)
def test_always_proposes_narrow_patterns(tmp_path: Path, command: str, patterns: tuple[str, ...]) -> None:
    assert propose(read_command(command)) == patterns
    if patterns:
        assert passes(gate(tmp_path, allow=patterns), command)


RUNS_OTHERS = """
pytest -q; py.test; cmake -P x; cmake --build b; ctest; ninja -C b; make; gmake; just x; go test ./...; go build; go list; go vet
go generate; cargo test; cargo build; cargo tree; cargo run; rustfmt a.rs; eslint .; prettier .; jest; vitest; mocha; tsc
mvn test; mvn compile; gradle test; ./gradlew test; npm test; npm ls; npm ci; npm run x; npx x; pnpm test; pnpm ls; yarn test
yarn lint; dotnet test; bundle check; mix test; composer test; pip list; pip install x; python x.py; python3 -m x; node x.js
ruby x.rb; perl x.pl; php x.php; mypy .; pylint .; flake8; pyright; isort .; tox; nox; uv run x; poetry run x; pre-commit run
find . -exec rm a +; find . -name x -execdir y +; git fetch ext::x; git tag -s v1; git apply x; git submodule foreach x
git bisect run x; git rebase -x y; git difftool; tar xf a --to-command=x; tar cf a b; sed -i s/a/b/e f; sed 1w f; awk 1 f; gawk 1 f
vim f; less f; man x; ssh h x; scp a b; rsync -e x a b; docker run x; env x=1; printf -v x y; watch x; parallel x; entr x; gdb x
script x; strace x; unzip a; zip -TT x a; sort --compress-program=x f; ed f; dc f; bc f; m4 f; curl x; wget x; crontab f; at now
"""


def test_always_proposes_no_wildcard_for_programs_that_run_others() -> None:
    """For other programs, the pattern is the exact command, or there is none."""
    for command in RUNS_OTHERS.replace("\n", ";").split(";"):
        assert not [pattern for pattern in propose(read_command(command.strip())) if pattern.endswith("*")], (
            command
        )


def test_unclosed_quote_in_a_pattern_is_reported() -> None:
    with pytest.raises(UsageError, match="unclosed quote"):
        rules(["git log 'x"])
    with pytest.raises(UsageError, match="not a command pattern"):
        rules(["  "])


def test_error_of_the_asker_propagates(tmp_path: Path) -> None:
    """Nothing is allowed by accident if the asker raises."""

    def gone(_: ApprovalRequest) -> Verdict:
        raise KeyboardInterrupt

    it = gate(tmp_path)
    it.asker = gone
    decide: Callable[[ApprovalRequest], Verdict] = it.decide
    with pytest.raises(KeyboardInterrupt):
        decide(ApprovalRequest("command", "make"))
    assert not passes(gate(tmp_path), "make")
