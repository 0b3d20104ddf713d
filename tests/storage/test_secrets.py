"""Recognizing secrets, and restoring every text."""

from __future__ import annotations

import re
import time
from pathlib import Path
from string import ascii_letters, digits

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.storage import atomic, secrets
from repoagent.storage.secrets import assigned_secrets, mask, may_hold_secrets, unknown_in, unmask
from tests.storage import realistic

M = realistic.Maker(7)
KEYS = {
    "anthropic": "sk-ant-" + f"api03-{M.alnum(93)}AA",
    "openai": "sk-" + f"proj-{M.alnum(74)}T3Blbk" + f"FJ{M.alnum(74)}",
    "github": "ghp" + f"_{M.alnum(36)}",
    "gitlab": "glp" + f"at-{M.alnum(20)}",
    "google": "AI" + f"za{M.alnum(35)}",
    "slack": "xo" + f"xb-{M.of(digits, 12)}-{M.of(digits, 13)}-{M.alnum(24)}",
    "stripe": "sk_" + f"live_{M.alnum(24)}",
    "pypi": "pypi-" + f"AgEIcHlwaS5vcmc{M.alnum(150)}",
    "huggingface": "hf" + f"_{M.of(ascii_letters, 34)}",
    "aws": M.alnum(40),
    "url": M.alnum(18),
    "password": M.alnum(10),
}
LINES = {
    "aws": 'aws_access_key_id = "AK' + f'IA{M.of(realistic.BASE32, 16)}"\naws_secret_access_key = "{{}}"\n',
    "url": "https://user:{}@github.com/a/b.git\n",
    "password": "password = {}\n",
}


@pytest.fixture(autouse=True)
def forget() -> None:
    secrets._values.clear()
    secrets._look_once.cache_clear()


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
    lines = [realistic.Maker(seed).alnum(64) for seed in range(12)]
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
    monkeypatch.setenv("DEPLOY_TOKEN", token := realistic.Maker(8).alnum(30))
    monkeypatch.setenv("DB_PASSWORD", "postgres")
    masked = mask(f"{token} postgres")
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
