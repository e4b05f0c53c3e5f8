"""What generators and evaluations show: texts in the events, images and arrays as files beside them."""

from __future__ import annotations

import io
import math
import os
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from attrs import frozen

from sexpgpu.data.codec import Codec
from sexpgpu.diag import Note, error
from sexpgpu.experiment import SampleForm
from sexpgpu.runtime.durable import replace_file
from sexpgpu.runtime.engine import Array
from sexpgpu.runtime.events import EventStream


@frozen(eq=False)
class Sample:
    """One shown tensor; `texts` where it is shown as text."""

    name: str
    form: SampleForm
    value: Array
    texts: tuple[str, ...] = ()


def make_sample(name: str, form: SampleForm, value: Array, codec: Codec | None) -> Sample:
    """A sample; ids without a codec are shown as numbers."""
    if form != "text":
        return Sample(name, form, value)
    rows = value.reshape(-1, value.shape[-1]) if value.ndim else value.reshape(1, 1)
    texts = tuple(codec.decode(row) if codec else " ".join(map(str, row.tolist())) for row in rows)
    return Sample(name, form, value, texts)


def tell(samples: Iterable[Sample], folder: Path, root: Path, events: EventStream, step: int, source: str) -> None:
    """Write files under `folder` and one event a sample; `source` is the generator or pass that shows them."""
    for sample in samples:
        file = write_sample(sample, folder)
        events.write(
            "sample",
            step,
            name=sample.name,
            source=source,
            form=sample.form,
            texts=list(sample.texts),
            file=None if file is None else file.relative_to(root).as_posix(),
        )


def file_of(name: str, form: SampleForm, folder: Path) -> Path | None:
    """Where `write_sample` puts a sample; None for a text."""
    if form == "text":
        return None
    return folder / (name.replace("/", "-") + (".png" if form == "image" else ".npy"))


def require_free(paths: Sequence[Path], folder: Path, force: bool) -> None:
    """`E-IO-107` where a file is there already, unless with `force`; `E-IO-001` where `folder` cannot be written."""
    taken = [path for path in paths if path.exists() or path.is_symlink()]
    if taken and not force:
        also = [Note(f"{path} too") for path in taken[1:]]
        raise error("E-IO-107", f"{taken[0]} exists already", help="another --out, or --force", notes=also)
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise error("E-IO-001", f"{folder} cannot be written", actual=f"{there} is no directory")
    if not os.access(there, os.W_OK | os.X_OK):
        raise error("E-IO-001", f"{folder} cannot be written", actual="Permission denied")


def write_sample(sample: Sample, folder: Path) -> Path | None:
    """The file of an image (PNG) or array (npy) under `folder`, replaced as a whole; None for a text."""
    path = file_of(sample.name, sample.form, folder)
    if path is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    if sample.form == "image":
        replace_file(path, png(tiled(sample.value)))
        return path
    data = io.BytesIO()
    np.save(data, sample.value)
    replace_file(path, data.getvalue())
    return path


def tiled(images: Array) -> Array:
    """u8[height, width] or [height, width, 3] of images side by side, as near to a square as it goes.

    `images` is [images, channels, height, width], or lacks images, channels or both. Floats are stretched from the
    least to the greatest value; u8 stays as it is.
    """
    x = images
    if x.ndim == 2:
        x = x[None, None]
    elif x.ndim == 3:
        x = x[None] if x.shape[0] in (1, 3) else x[:, None]
    if x.dtype != np.uint8:
        x = x.astype(np.float64)
        finite = x[np.isfinite(x)]
        low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
        x = np.clip(np.nan_to_num((x - low) / ((high - low) or 1.0)) * 255.0 + 0.5, 0, 255).astype(np.uint8)
    count, channels, height, width = x.shape
    columns = max(1, math.ceil(math.sqrt(count)))
    rows = max(1, -(-count // columns))
    sheet = np.zeros((rows * columns, channels, height, width), np.uint8)
    sheet[:count] = x
    sheet = sheet.reshape(rows, columns, channels, height, width).transpose(0, 3, 1, 4, 2)
    sheet = sheet.reshape(rows * height, columns * width, channels)
    return sheet[:, :, 0] if channels == 1 else sheet


def png(image: Array) -> bytes:
    """u8[height, width] grey or [height, width, 3] colour as a PNG file (ISO/IEC 15948, filter type 0 on every row)."""
    height, width = image.shape[:2]
    colour = 0 if image.ndim == 2 else 2
    rows = image.reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
