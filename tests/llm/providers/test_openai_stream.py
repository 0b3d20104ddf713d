"""A reply is the same for any division into chunks by the server and packets by the network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle

from hypothesis import given
from hypothesis import strategies as st

from repoagent.llm.model import Usage
from repoagent.llm.providers.openai_stream import StreamedChat
from tests.llm.helpers import ask

WORDS = st.text(st.sampled_from("ab<>/think \n\r\u2028é\U0001f600"), max_size=30)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=5)


@dataclass(frozen=True)
class Cuts:
    """How many characters a delta has and how many bytes a packet, in turn; and whether JSON is sent as ASCII,
    where the halves of a character outside the first plane may be parted."""

    deltas: list[int]
    packets: list[int]
    ascii_only: bool


CUTS = st.builds(Cuts, SIZES, SIZES, st.booleans())
WHOLE = Cuts([99], [4096], False)


def spans(length: int, sizes: list[int]) -> Iterator[slice]:
    at = 0
    for size in cycle(sizes):
        if at >= length:
            return
        yield slice(at, at + size)
        at += size


def packets(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    return (data[span] for span in spans(len(data), sizes))


def stream(reply: str, cuts: Cuts) -> bytes:
    units = reply.encode("utf-16-be")
    halves = [units[at : at + 2].decode("utf-16-be", "surrogatepass") for at in range(0, len(units), 2)]
    text = "".join(halves) if cuts.ascii_only else reply
    events: list[object] = [
        {"choices": [{"delta": {"content": text[span]}}]} for span in spans(len(text), cuts.deltas)
    ]
    events.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    lines = [f"data: {json.dumps(event, ensure_ascii=cuts.ascii_only)}\n\n" for event in events]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


def read(reply: str, cuts: Cuts) -> tuple[str, str]:
    received, heard = StreamedChat(), []
    received.take(packets(stream(reply, cuts), cuts.packets), heard.append)
    assert received.ended
    return received.text, "".join(heard)


@given(WORDS, WORDS, CUTS)
def test_any_chunking_gives_the_same_reply(thought: str, answer: str, cuts: Cuts) -> None:
    block = f"<think>{thought.replace('</think>', '')}</think>"
    expected = answer.lstrip("\r\n")
    assert read(block + answer, cuts) == (expected, expected)
    plain = f"x{answer}"
    assert read(plain, cuts) == (plain, plain)
    assert read(answer, cuts) == read(answer, WHOLE)


@given(st.binary(max_size=200), SIZES)
def test_any_bytes_are_read_or_refused(data: bytes, sizes: list[int]) -> None:
    received = StreamedChat()
    try:
        received.take(packets(data, sizes), lambda text: None)
    except json.JSONDecodeError:
        pass
    assert not received.ended
    assert received.usage(ask()) == Usage()
