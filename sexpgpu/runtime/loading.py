"""Opening an experiment's loaders: its data against its types, each file once."""

from __future__ import annotations

from attrs import define
from attrs import field as attribute

from sexpgpu.data.loader import OpenLoader, open_loader
from sexpgpu.data.readers import Reader, open_source
from sexpgpu.data.source import Source
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

    def open(self, loader: Loader) -> OpenLoader:
        """The loader, open; errors of its data point at its form."""
        if loader.name not in self._opened:
            try:
                self._opened[loader.name] = self._open(loader)
            except SxError as fault:
                raise SxError(fault.diagnostic.at(loader.span)) from None
        return self._opened[loader.name]

    def _open(self, loader: Loader) -> OpenLoader:
        for field in loader.fields:
            self._read(field)
        opened = open_loader(
            loader.name,
            {field.name: field.source for field in loader.fields},
            batch=loader.batch,
            order=loader.order,
            seed=loader.seed,
            index_file=loader.index_file,
            wrap=loader.wrap,
            microbatches=self.microbatches,
            opened=self._sources,
        )
        for name, reader in opened.readers.items():
            compiled = next(field.type for field in loader.fields if field.name == name)
            if (compiled.shape[1:], compiled.dtype) != (reader.type.shape, reader.type.dtype):
                raise error(
                    "E-LOAD-007",
                    f"the records of {name} are not what the experiment was compiled for",
                    expected=f"{compiled} a batch",
                    actual=f"{reader.type} a record",
                )
        return opened

    def _read(self, field: LoaderField) -> None:
        """Open a field's source; an error of its data points at the form that makes it."""
        if field.source not in self._sources:
            try:
                self._sources[field.source] = open_source(field.source)
            except SxError as fault:
                raise SxError(fault.diagnostic.at(field.span)) from None

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
