"""Texts cut into tokens by a Hugging Face `tokenizer.json` of the kind BPE."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from sexpgpu.data.files import bad_file, locate, missing_package, read_bytes, read_text, shards, signature
from sexpgpu.data.source import Bpe

_WHAT = "a tokenizer.json of the kind BPE"
_TEXT = "a UTF-8 text"


@frozen
class Vocabulary:
    """`size` is one more than the highest id; `digest` the SHA-256 of the file."""

    size: int
    digest: str


def read_vocabulary(source: Bpe, base: Path | None) -> Vocabulary:
    """What the tokenizer's file says of its ids; no package is needed for that."""
    paths = shards(source.tokenizer, base)
    return _vocabulary(signature(paths))


@lru_cache(maxsize=16)
def _vocabulary(files: tuple[tuple[Path, int, int], ...]) -> Vocabulary:
    path = files[0][0]
    data = read_bytes(path, _WHAT)
    try:
        document = json.loads(data)
        model = document["model"]
        kind = model.get("type", "BPE")
        ids = [*model["vocab"].values(), *(token["id"] for token in document.get("added_tokens", ()))]
        size = 1 + max(int(i) for i in ids)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as fault:
        raise bad_file(path, _WHAT, f"it has no table of tokens ({type(fault).__name__}: {fault})") from None
    if kind != "BPE":
        raise bad_file(path, _WHAT, f"its model is of the kind {kind}")
    return Vocabulary(size, hashlib.sha256(data).hexdigest())


def load_tokenizer(source: Bpe, base: Path | None) -> Any:
    """The tokenizer; `E-DEV-010` where its package is not installed."""
    read_vocabulary(source, base)
    path = locate(source.tokenizer, base)
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise missing_package("bpe", "tokenizers", "bpe") from None
    try:
        return Tokenizer.from_str(read_text(path, _WHAT))
    except Exception as fault:  # what its library raises has no narrower type
        raise bad_file(path, _WHAT, str(fault)) from None


def encode(tokenizer: Any, text: str) -> NDArray[np.int32]:
    """i32[tokens], with nothing put before or behind the text."""
    return np.array(tokenizer.encode(text, add_special_tokens=False).ids, np.int32)


def read_bpe(source: Bpe, base: Path | None) -> NDArray[np.int32]:
    """i32[tokens] of all files, each encoded by itself; read once while they stay as they are."""
    files = signature(shards(source.path, base))
    return _ids(source, base, files, signature(shards(source.tokenizer, base)))


@lru_cache(maxsize=4)
def _ids(source: Bpe, base: Path | None, files: Any, tokenizer_file: Any) -> NDArray[np.int32]:
    tokenizer = load_tokenizer(source, base)
    found = np.concatenate([encode(tokenizer, read_text(path, _TEXT)) for path, _, _ in files])
    found.flags.writeable = False
    return found
