"""Modes, rules, read-only commands, "always": what passes, needs approval or is refused, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import Mock

import pytest

from repoagent.agent.approvals.policy import ApprovalRequest, Gate, Mode, Verdict
from repoagent.agent.approvals.rules import HiddenFiles, parse_rules, propose_patterns
from repoagent.agent.approvals.shell_parser import read_command
from repoagent.errors import UsageError


@dataclass
class Person:
    """An asker that always returns the same verdict, and records the requests."""

    verdict: Verdict
    asked: list[ApprovalRequest] = field(default_factory=list)

    def __call__(self, asked: ApprovalRequest) -> Verdict:
        self.asked.append(asked)
        return self.verdict


def gate(tmp_path: Path, mode: Mode = "ask", *, sandbox: str = "", **rules: Sequence[str]) -> Gate:
    """`rules` are the patterns to `allow` and to `deny`."""
    parsed = {name: parse_rules(patterns) for name, patterns in rules.items()}
    return Gate(mode, **parsed, sandbox=sandbox, hidden=HiddenFiles(tmp_path), path="/usr/bin:/bin")


def decide(gate: Gate, command: str) -> Verdict:
    return gate.decide(ApprovalRequest("command", command))


def passes(gate: Gate, command: str) -> bool:
    return decide(gate, command).allowed


def test_deny_rule_ignores_case_except_of_options(tmp_path: Path) -> None:
    it = gate(tmp_path, "auto", deny=("git push *", "git branch -D *"), sandbox="landlock")
    for text in ("GIT push", "/usr/bin/Git -C x PUSH origin", "git push", "Git branch -D x"):
        assert not passes(it, text), text
    assert passes(it, "GIT pull") and passes(it, "git branch -d x")


OF_GIT_LOG = "git log ¦ git log -n 5 -- 'a b' ¦ git 'log' x ¦ git log > out ¦ bash -c 'git log'"
NOT_OF_GIT_LOG = """
git logs ¦ git -c core.pager=evil log ¦ /tmp/git log ¦ git log; rm -rf x ¦ git log $(rm -rf x) ¦
git log `rm -rf x` ¦ git log | sh ¦ git log\nrm -rf x ¦ git log &\nrm x ¦ git log > ../out ¦
git log > .git/config ¦ git log > .GIT/hooks/pre-commit ¦ git log > .repoagent/config.toml ¦
cd .git && git log > config ¦ git log > $HOME/x ¦ git log > link/x ¦ git log < /dev/tcp/example.com/80 ¦
LD_PRELOAD=./x.so git log ¦ GIT_EXTERNAL_DIFF=./x git log ¦ PATH=.:$PATH; git log ¦
for PATH in .; do git log; done ¦ git() { rm x; }; git log ¦ alias git=rm\ngit log ¦ CI=$(rm x) git log ¦
env GIT_PAGER=x git log ¦ sudo git log ¦ bash -c 'git log; rm x' ¦ echo --output=../x | xargs git log ¦
git log --output=../x --format=evil ¦ git log --outp ../x ¦ git log $x ¦ echo x | xargs git
"""
RULES = {  # the commands that a rule allows, and others
    "git log *": (OF_GIT_LOG, NOT_OF_GIT_LOG),
    "pytest *": ("echo x | xargs pytest", ""),
    "git log --output=x *": ("git log --output=x -n 1", "git log --output=x --output=y"),
    "git grep *": ("", "git grep -nOsh x"),
    "git fetch *": ("", "git fetch --upload-pack=./x ."),
    "git diff *": ("", "git diff --no-index / /etc"),
    "rg *": ("rg y src", "rg --pre=./x y"),
    "make test": ("DEBUG=app:* make test", "CI='$(shell ./x)' make test"),
    "pytest": ("pytest", "pytest -q"),
    "pytest -q *": ("pytest -q $X", "pytest $X"),
    "FOO=1 pytest *": ("FOO=1 pytest x", "FOO=2 pytest x"),
    "git status": ("CI=1 git status ¦ timeout 9 git status", ""),
    "npm run *": ("npm run build", ""),
    "npm run test-*": ("npm run test-unit", "npm run test-unit --x"),
    "frob '*'": ("frob '*'", "frob a"),
    "frob a.c": ("", "frob abc"),
    "sudo apt *": ("sudo apt update", ""),
    "*": ("anything at all", "$X"),
}


def commands(text: str) -> list[str]:
    """The commands in a table, which are separated by ¦."""
    return [command.strip() for command in text.split("¦") if command.strip()]


@pytest.mark.parametrize("rule", RULES)
def test_rule_allows_only_its_simple_command(tmp_path: Path, rule: str) -> None:
    (tmp_path / "link").symlink_to("/tmp")
    (tmp_path / ".git").mkdir()
    allowed, others = map(commands, RULES[rule])
    it = gate(tmp_path, allow=(rule,))
    assert [command for command in (*allowed, *others) if passes(it, command)] == allowed


PUSHES = """
git push ¦ git push origin ¦ ls; git push ¦ /usr/bin/git push ¦ git -C x push ¦ git -c a=b push ¦ X=1 git push ¦
sudo git push ¦ env git push ¦ bash -c 'git push' ¦ git $x ¦ $(git push) ¦ true && timeout 3 git push ¦
find . -exec git push \\; ¦ f() { git push; }; f
"""


@pytest.mark.parametrize("mode", ["ask", "auto-edit", "auto", "read-only"])
def test_deny_rule_wins_in_every_mode(tmp_path: Path, mode: Mode) -> None:
    it = gate(tmp_path, mode, allow=("*",), deny=("git push *",), sandbox="landlock")
    it.asker = person = Person(Verdict(True))
    for command in commands(PUSHES):
        verdict = decide(it, command)
        assert not verdict.allowed and "git push *" in verdict.reason and not person.asked, command


def test_command_that_a_deny_rule_does_not_match(tmp_path: Path) -> None:
    it = gate(tmp_path, "auto", deny=("rm *",), sandbox="landlock")
    assert not passes(it, "/bin/rm x") and passes(it, "/bin/rmdir x") and passes(it, "git status | cat; make")
    assert "simpler" in decide(it, "eval $x").reason  # which may be `rm`


HARMLESS = """
ls -la src ¦ cat a.txt | grep -n x | wc -l ¦ ls 2>/dev/null ¦ find . -name '*.py' ¦ sort a ¦ sed -n 1,5p a.txt ¦
date -uIseconds ¦ date -u +%s ¦ printf '%d%%\\n' 5 ¦ diff -u a.txt b.txt ¦ wc -c a.txt ¦ md5sum -b a.txt
"""
HARMLESS_IN_A_SANDBOX = """
cat /etc/passwd ¦ cat ../x ¦ cat link ¦ cat ~/x ¦ grep -R x . ¦ grep --file=/etc/passwd x ¦ cat < /etc/passwd ¦
cat -- -link ¦ grep -vflink a.txt ¦ grep -1R x . ¦ grep --der x ¦ find . -follow ¦ diff -N . src ¦
git status ¦ git --no-pager log -p -n 3 ¦ git branch ¦ rg x ¦ cd src && ls ¦ x=1; echo $x ¦ echo $(cat a.txt) ¦
md5sum -c a.txt ¦ sha1sum --che a.txt ¦ sha256sum -wc a.txt ¦ cksum -c a.txt ¦ wc --fil=a.txt ¦ tree -l .
"""
HARMFUL = """
cat secret ¦ head -5 ./src/../secret ¦ ls > out ¦ git diff --output=x ¦ git diff --outp=x ¦
git diff --ext-diff ¦ git -c core.fsmonitor=x status ¦ git grep -Oless x ¦ git grep --open=sh x ¦
git branch -D x ¦ git stash ¦ git remote add x y ¦ git config --list ¦ find . -delete ¦ find . -exec rm {} + ¦
find . -fprint x ¦ sort --files0-from=a ¦ sort -o a a ¦ sort -uo a a ¦ sort --compress-program=sh a ¦ sed -i s/a/b/ a ¦
sed -n 'w x' a ¦ awk '{print}' a ¦ uniq a b ¦ rg --pre sh x ¦ rg -.z x ¦ date -s x ¦ date -us2030-01-01 ¦
date -Rf.env ¦ date -If.env ¦ du --fil=x ¦ tree -o x ¦ printf 'x%n' PATH; ls ¦ printf '%3.*ln' 1 PATH ¦ LD_PRELOAD=x ls ¦
cd .. && ls ¦ ./ls ¦ PATH=x; ls ¦ env ¦ tee x
"""


def test_read_only_command_passes_if_harmless(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "-link").symlink_to("/etc/passwd")
    (tmp_path / "secret").write_text("key")
    (tmp_path / "src").mkdir()
    bare, boxed = gate(tmp_path, "read-only"), gate(tmp_path, "read-only", sandbox="landlock")
    bare.hidden = boxed.hidden = HiddenFiles(tmp_path, {"secret": "it is a secret"}.get)
    free, confined, refused = map(commands, (HARMLESS, HARMLESS_IN_A_SANDBOX, HARMFUL))
    whole = [*free, *confined, *refused]
    assert [command for command in whole if passes(boxed, command)] == [*free, *confined]
    assert [command for command in whole if passes(bare, command)] == free


def test_program_in_the_work_tree_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "ls").write_text("#!/bin/sh\nrm -rf x\n")
    (tmp_path / "ls").chmod(0o755)
    it = gate(tmp_path)
    it.path = f"{tmp_path}:/usr/bin:/bin"
    assert not passes(it, "ls") and passes(it, "cat a")
    assert passes(it, "cat " + "a" * 300)  # longer than the name of a file may be


MODES = {  # (mode, sandbox): what passes, what is asked about, what is refused
    ("ask", ""): ("", "edit", ""),
    ("ask", "landlock"): ("", "command make", ""),
    ("auto-edit", ""): ("edit ¦ write", "", ""),
    ("auto-edit", "landlock"): ("", "command make", ""),
    ("auto", "landlock"): ("command make ¦ command eval $x ¦ python", "browse ¦ tool", ""),
    ("auto", ""): ("edit", "", "command make ¦ python"),
    ("read-only", "landlock"): ("delegate", "browse", "command make ¦ edit ¦ write ¦ python ¦ tool"),
}


@pytest.mark.parametrize(("mode", "sandbox"), MODES)
def test_mode_passes_refuses_or_asks(tmp_path: Path, mode: Mode, sandbox: str) -> None:
    for expected, requests in zip(("yes", "asked", "no"), map(commands, MODES[mode, sandbox]), strict=True):
        for request in requests:
            kind, _, what = request.partition(" ")
            it = gate(tmp_path, mode, sandbox=sandbox)
            it.asker = person = Person(Verdict(False, reason="the user said no: later"))
            verdict = it.decide(ApprovalRequest(kind, what or "x"))
            assert bool(person.asked) is (expected == "asked"), request
            assert verdict.allowed is (expected == "yes"), request
            assert verdict.by and (verdict.allowed or verdict.reason)
            if (mode, sandbox, kind) == ("auto", "", "command"):
                assert "--mode ask" in verdict.reason


def test_rules_of_other_kinds_and_in_read_only_mode(tmp_path: Path) -> None:
    assert not passes(gate(tmp_path, "read-only", allow=("make *",), sandbox="landlock"), "make")
    it = gate(tmp_path, allow=("browse:https://docs.python.org/*",), deny=("tool:deploy*",))
    it.asker = Person(Verdict(True))
    assert it.decide(ApprovalRequest("browse", "https://docs.python.org/3/")).by.startswith("rule")
    assert it.decide(ApprovalRequest("browse", "https://docs.python.org.evil/")).by == "person"
    assert not it.decide(ApprovalRequest("tool", "deploy all")).allowed
    assert not passes(gate(tmp_path, allow=("browse:*",)), "browse:x")


def test_always_is_saved_and_each_decision_is_audited(tmp_path: Path) -> None:
    saved: list[str] = []
    events: list[Mapping[str, object]] = []
    it = gate(tmp_path, sandbox="landlock")
    it.asker = person = Person(Verdict(True, always=True, keep=True))
    it.remember, it.audit = saved.extend, events.append
    assert passes(it, "ls | head; ruff check a.py && make test")
    assert person.asked[0].patterns == ("ruff *", "make test") and person.asked[0].sandbox == "landlock"
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
    it = gate(tmp_path)
    it.asker = person = Person(Verdict(True, always=True))
    for command in ("eval $x", "pytest > ../out", "X=$y make", "python -c 'a\nb'"):
        assert passes(it, command)
    assert [asked.patterns for asked in person.asked] == [(), (), (), ()] and it.allow == ()


EXACT = """
git config x y ¦ git push --force ¦ npm run build -- --x ¦ npm install x ¦ cargo test a ¦ make test ¦
python -m pytest -q ¦ sudo ls ¦ rm -rf 'my dir' ¦ bash x.sh ¦ FOO=1 make ¦ repoagent config run.mode auto
"""
PROPOSED = {
    **{command: (command,) for command in commands(EXACT)},
    "git log -n 3": ("git log *",),
    "echo a > b": ("echo *",),
    "bash -c 'ruff -q'": ("ruff *",),
    "rm '*' \"it's\"": ("rm '*' 'it'\"'\"'s'",),
    **dict.fromkeys(("git -c a=b log", "rm *.o", "rm $x", "make test; rm $x"), ()),
}


def test_always_proposes_narrow_patterns(tmp_path: Path) -> None:
    for command, patterns in PROPOSED.items():
        assert propose_patterns(read_command(command)) == patterns, command
        assert not patterns or passes(gate(tmp_path, allow=patterns), command), command


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
        patterns = propose_patterns(read_command(command.strip()))
        assert not any(pattern.endswith("*") for pattern in patterns), command


def test_unclosed_quote_in_a_pattern_is_reported() -> None:
    for pattern, why in (("git log 'x", "unclosed quote"), ("  ", "not a command pattern")):
        with pytest.raises(UsageError, match=why):
            parse_rules([pattern])


def test_error_of_the_asker_propagates(tmp_path: Path) -> None:
    """Nothing is allowed by accident if the asker raises."""
    it = gate(tmp_path)
    it.asker = Mock(side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        passes(it, "make")
    assert not passes(gate(tmp_path), "make")
