"""Opening an experiment's loaders: its data against its types, each file once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from attrs import asdict, define
from attrs import field as attribute

from sexpgpu.data.files import shards
from sexpgpu.data.fingerprint import Fingerprint, fingerprint, used_files
from sexpgpu.data.loader import OpenLoader, open_loader
from sexpgpu.data.reader import Reader
from sexpgpu.data.readers import open_source
from sexpgpu.data.source import ByStep, Combinator, FieldSource, Source, Window
from sexpgpu.diag import Diagnostic, SxError, error, warning
from sexpgpu.experiment import Loader, LoaderField


@define
class Loaders:
    """The loaders opened so far, by name; sources that several share are read once.

    `microbatches` are those of a step.
    """

    microbatches: int = 1

    _opened: dict[str, OpenLoader] = attribute(factory=dict, init=False)
    _sources: dict[Source, Reader] = attribute(factory=dict, init=False)
    _data: dict[str, dict[str, object]] = attribute(factory=dict, init=False)
    _files: dict[tuple[Path, ...], Fingerprint | None] = attribute(factory=dict, init=False)

    def open(self, loader: Loader) -> OpenLoader:
        """The loader, open, at its first stage; errors of its data point at its form."""
        return self.stages(loader)[0]

    def stages(self, loader: Loader) -> tuple[OpenLoader, ...]:
        """The loader at each of its stages; one without stages is one."""
        if not loader.stages:
            return (self._of_name(loader, loader.name, loader.fields),)
        return tuple(self._of_name(loader, f"{loader.name}/{stage.name}", stage.fields) for stage in loader.stages)

    def _of_name(self, loader: Loader, name: str, fields: Sequence[LoaderField]) -> OpenLoader:
        if name not in self._opened:
            try:
                self._opened[name] = opened = self._open(loader, name, fields)
                self._data |= self._told(loader, name, fields, opened)
            except SxError as fault:
                raise SxError(fault.diagnostic.at(loader.span)) from None
        return self._opened[name]

    def _open(self, loader: Loader, name: str, fields: Sequence[LoaderField]) -> OpenLoader:
        for field in fields:
            self._read(field)
        opened = open_loader(
            name,
            {field.name: field.source for field in fields},
            batch=loader.batch,
            order=loader.order,
            seed=loader.seed,
            index_file=loader.index_file,
            wrap=loader.wrap,
            microbatches=self.microbatches,
            opened=self._sources,
        )
        for field in fields:
            by_step = isinstance(field.source, ByStep)
            reader = opened.turns[field.name] if by_step else opened.readers[field.name]
            compiled = field.type.shape if by_step else field.type.shape[1:]
            if (compiled, field.type.dtype) != (reader.type.shape, reader.type.dtype):
                raise error(
                    "E-LOAD-007",
                    f"the records of {field.name} are not what the experiment was compiled for",
                    expected=f"{field.type} a {'step' if by_step else 'batch'}",
                    actual=f"{reader.type} a record",
                )
        return opened

    def _told(
        self, loader: Loader, name: str, fields: Sequence[LoaderField], opened: OpenLoader
    ) -> dict[str, dict[str, object]]:
        """What `data` has of one loader."""
        found: dict[str, dict[str, object]] = {}
        for field in fields:
            reader = (opened.turns if isinstance(field.source, ByStep) else opened.readers)[field.name]
            found[f"{name}/{field.name}"] = {"records": reader.count, **self._fingerprint(used_files(field.source))}
        if loader.order == "index-file":
            found[f"{name} order"] = self._fingerprint(shards(str(loader.index_file), None))
        return found

    def _fingerprint(self, files: Iterable[Path]) -> dict[str, object]:
        paths = tuple(files)
        if paths not in self._files:
            self._files[paths] = fingerprint(paths)
        known = self._files[paths]
        return {} if known is None else asdict(known)

    @property
    def data(self) -> dict[str, dict[str, object]]:
        """What the data are, by loader and field: records, and of their files the bytes and the digest; for checkpoints
        to compare.
        """
        return self._data

    def _read(self, field: LoaderField) -> None:
        """Open a field's source; an error of its data points at the form that makes it."""
        source = field.source.source if isinstance(field.source, ByStep) else field.source
        if source not in self._sources:
            try:
                self._sources[source] = open_source(source)
            except SxError as fault:
                raise SxError(fault.diagnostic.at(field.span)) from None

    def warnings(self, loader: Loader) -> list[Diagnostic]:
        """What is odd about an opened loader though it can be read."""
        return [found for found in (self.short(loader), _overlap(loader)) if found is not None]

    def short(self, loader: Loader) -> Diagnostic | None:
        """`W-LOAD-001` where the batches of an opened loader are all its records, fewer than it asks for."""
        count = self.open(loader).count
        if loader.order not in ("sequential", "shuffle") or loader.batch <= count:
            return None
        return warning(
            "W-LOAD-001",
            f"a batch of {loader.name} is to have {loader.batch} records, and there are {count}",
            loader.span,
            help=f"every batch is these {count}; `:order :random` draws {loader.batch} of them, some more than once",
        )

    @property
    def fitted(self) -> dict[str, object]:
        """What the data told, by loader and field, for the manifest."""
        return {name: found for name, opened in self._opened.items() if (found := opened.fitted)}


def _overlap(loader: Loader) -> Diagnostic | None:
    """`W-LOAD-002` where the next record of a stream begins inside this one, or beyond its end."""
    if loader.order != "streams":
        return None
    for field in loader.fields:
        window = _window(field.source)
        if window is not None and window.stride not in (window.n, max(1, window.n - 1)):
            apart = f"windows of {window.n} begin every {window.stride}"
            return warning(
                "W-LOAD-002",
                f"rows of {loader.name} do not go on where they ended: {apart}",
                field.span or loader.span,
                help=f":stride {window.n - 1 or 1} (targets one further on) or {window.n}",
            )
    return None


def _window(source: FieldSource) -> Window | None:
    """The outermost window of a source."""
    while isinstance(source, Combinator | ByStep):
        if isinstance(source, Window):
            return source
        source = source.source
    return None
