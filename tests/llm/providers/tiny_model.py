"""A language model of 100 KB with random weights: llama.cpp loads it at once, and it writes noise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np

_EMBEDDING, _HEADS, _FEED = 32, 2, 64
_TEMPLATE = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}<assistant>"


def write_tiny_model(path: Path, *, context: int = 512, numbers: Mapping[str, int] | None = None) -> Path:
    """A GGUF file at `path`: llama architecture, one layer, a token for each byte. `numbers` are more entries
    of its header."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type("model")
    writer.add_name("Tiny Noise")
    writer.add_context_length(context)
    writer.add_embedding_length(_EMBEDDING)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_FEED)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_EMBEDDING // _HEADS)
    for key, number in (numbers or {}).items():
        writer.add_uint32(key, number)
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2, *[gguf.TokenType.BYTE] * 256]
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(_TEMPLATE)
    for tensor, shape in _shapes(len(tokens)).items():
        weights = np.random.default_rng([4, len(tensor), *shape]).normal(0, 0.3, shape)
        if tensor.endswith("norm.weight"):
            weights = np.ones(shape)
        if tensor == "output.weight":
            weights[:3] = 0  # it never ends by itself: a test sets the length
            weights[3:] *= 3
        writer.add_tensor(tensor, weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    square, wide, line = (_EMBEDDING, _EMBEDDING), (_FEED, _EMBEDDING), (_EMBEDDING,)
    shapes: dict[str, tuple[int, ...]] = {f"blk.0.attn_{part}": square for part in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_gate": wide, "blk.0.ffn_up": wide, "blk.0.ffn_down": (_EMBEDDING, _FEED)}
    shapes |= dict.fromkeys(("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"), line)
    shapes |= dict.fromkeys(("token_embd", "output"), (vocabulary, _EMBEDDING))
    return {f"{tensor}.weight": shape for tensor, shape in shapes.items()}
