"""Recognizing secrets, and restoring every text."""

from __future__ import annotations

import random
import re
import string
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.storage import atomic, secrets
from repoagent.storage.secrets import assigned_secrets, mask, may_hold_secrets, unknown_in, unmask
from tests.storage import realistic

ALL = string.ascii_letters + string.digits
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


@pytest.fixture(autouse=True)
def forget() -> None:
    """Forget the secrets of other tests."""
    secrets._values.clear()
    secrets._look_once.cache_clear()


def made(prefix: str, length: int, of: str = ALL, seed: int = 7) -> str:
    """Has the form of a key, but is generated: no scanner of this repository finds one."""
    chosen = random.Random(seed)
    return prefix + "".join(chosen.choice(of) for _ in range(length))


KEYS = {
    "anthropic": made("sk-ant-" + "api03-", 93) + "AA",
    "openai": made("sk-" + "proj-", 74) + "T3Blbk" + "FJ" + made("", 74, seed=8),
    "github": made("ghp" + "_", 36),
    "gitlab": made("glp" + "at-", 20),
    "google": made("AI" + "za", 35),
    "slack": made("xo" + "xb-", 12, string.digits) + made("-", 13, string.digits) + made("-", 24),
    "stripe": made("sk_" + "live_", 24),
    "pypi": made("pypi-" + "AgEIcHlwaS5vcmc", 150),
    "huggingface": made("hf" + "_", 34, string.ascii_letters),
    "aws": made("", 40),
    "url": made("", 18),
}
LINES = {
    "aws": 'aws_access_key_id = "' + made("AK" + "IA", 16, UPPER) + '"\naws_secret_access_key = "{}"\n',
    "url": "https://user:{}@github.com/a/b.git\n",
}


@pytest.mark.parametrize("name", KEYS)
def test_a_key_is_masked_and_comes_back(name: str) -> None:
    text = LINES.get(name, 'key = "{}"\n').format(KEYS[name]) + f"again: {KEYS[name]}\n"
    masked = mask(text)
    assert KEYS[name] not in masked, masked
    assert masked.count("\n") == text.count("\n")
    assert unmask(masked) == text
    assert mask(masked) == masked
    assert KEYS[name] not in mask(f"known without its context: {KEYS[name]}")


def test_a_private_key_is_masked_line_by_line_and_half_of_it_too() -> None:
    lines = [made("", 64, seed=n) for n in range(12)]
    text = "\r\n".join(["-----BEGIN " + "PRIVATE KEY-----", *lines, "-----END " + "PRIVATE KEY-----", ""])
    masked = mask(text)
    assert not any(line in masked for line in lines)
    assert masked.count("\r\n") == text.count("\r\n") and unmask(masked) == text
    assert not any(line in mask("\n".join(lines[5:8])) for line in lines)


def is_masked(sample: realistic.Sample) -> bool:
    secrets._values.clear()
    secrets._look_once.cache_clear()
    masked = mask(sample.text)
    assert unmask(masked) == sample.text and masked.count("\n") == sample.text.count("\n")
    return sample.secret not in masked if sample.secret else masked != sample.text


@pytest.mark.parametrize("seed", [18, 4711])
def test_realistic_secrets_are_masked_and_what_looks_like_one_is_not(seed: int) -> None:
    samples, others = list(realistic.secrets(seed)), list(realistic.innocent(seed))
    assert len(samples) == 50 and len(others) >= 34
    missed = [one.name for one in samples if not is_masked(one)]
    alarms = [one.name for one in others if is_masked(one)]
    assert len(missed) <= 1 and alarms == [], (missed, alarms)
    assert all(is_masked(one) for one in realistic.private_keys(seed))


def test_masking_takes_linear_time() -> None:
    """With many secrets and many beginnings of secrets, a text of twice the length takes at most about twice as
    long."""
    m = realistic.Maker(1)
    many = "".join(f"export K{n}_TOKEN={m.alnum(24)}\n" for n in range(2_000))
    for text in (many, "key='" * 10_000, "token=" * 10_000, "login " * 10_000, "://:" * 10_000, "_" * 50_000):
        before, seconds = time.process_time(), []
        for size in (1, 4):
            secrets._values.clear()
            list(assigned_secrets(text * size)) if text is not many else mask(text[: len(many) // 4 * size])
            now = time.process_time()
            seconds.append(now - before)
            before = now
        assert seconds[1] < 8 * seconds[0] + 0.1, (text[:20], seconds)


def test_a_usual_text_loads_no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> list[str]:
        raise AssertionError("the rules were asked")

    monkeypatch.setattr(secrets, "find_secrets", refuse)
    own = Path(atomic.__file__).read_text()
    source = f"{own}def parse_http2_headers(x86_64, utf8):\n    return sha256(b'')\n"
    assert mask(source) == source


def test_the_environment_is_masked_but_not_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", made("", 30))
    monkeypatch.setenv("DB_PASSWORD", "postgres")
    masked = mask(f"{made('', 30)} postgres")
    assert re.fullmatch(r"<<secret \w+>> postgres", masked)
    assert unknown_in(f"{masked} <<secret 00000000>> <<secret x>>") == ["<<secret 00000000>>"]


PIECES = st.sampled_from([*KEYS.values(), "\n", "\r\n", " ", "<<secret 1", "é\udc80", "x = ", '"'])


@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES, max_size=9))
def test_every_text_comes_back(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert unmask(mask(text)) == text


def test_known_text_is_not_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request of a run repeats all previous turns: a hundred requests must not take a hundred times as long."""
    looked: list[str] = []
    monkeypatch.setattr(secrets, "may_hold_secrets", lambda text: bool(looked.append(text)))
    turns = [f"turn {number}: {'word ' * 50}" for number in range(100)]
    for _ in range(3):
        assert [mask(turn) for turn in turns] == turns
    assert looked == turns


def test_the_marks_of_a_run_do_not_load_the_rules() -> None:
    """They are in each request, and loading the rules takes a third of a second."""
    for nonce in ("3a5fc4e1", "bc5b2e7f", "ca16d4b5", "00000000"):
        text = f"<observation-{nonce}>\nrun-20261123-154922-add460\n</observation-{nonce}>"
        assert not may_hold_secrets(text)
        assert may_hold_secrets(f"{text}\nxoxb-{nonce}-17653672481-EXamPLe2KeyOnly9wQz7RtB")
