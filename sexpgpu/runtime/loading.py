"""Opening an experiment's loaders: its data against its types, each file once."""

from __future__ import annotations

from attrs import define, field

from sexpgpu.data.loader import OpenLoader, open_loader
from sexpgpu.data.readers import Reader
from sexpgpu.data.source import Source
from sexpgpu.diag import SxError, error
from sexpgpu.experiment import Loader


@define
class Loaders:
    """The loaders opened so far, by name; sources that several share are read once."""

    _opened: dict[str, OpenLoader] = field(factory=dict, init=False)
    _sources: dict[Source, Reader] = field(factory=dict, init=False)

    def open(self, loader: Loader) -> OpenLoader:
        """The loader, open; errors of its data point at its form."""
        if loader.name not in self._opened:
            try:
                self._opened[loader.name] = self._open(loader)
            except SxError as fault:
                raise SxError(fault.diagnostic.at(loader.span)) from None
        return self._opened[loader.name]

    def _open(self, loader: Loader) -> OpenLoader:
        opened = open_loader(
            loader.name,
            {field.name: field.source for field in loader.fields},
            batch=loader.batch,
            order=loader.order,
            seed=loader.seed,
            index_file=loader.index_file,
            wrap=loader.wrap,
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

    @property
    def fitted(self) -> dict[str, object]:
        """What the data told, by loader and field, for the manifest."""
        return {name: found for name, opened in self._opened.items() if (found := opened.fitted)}
