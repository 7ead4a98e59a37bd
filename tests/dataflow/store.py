"""Objects in memory, ``mem://bucket/name``: like a cloud's, without folders, copies and renaming."""

from __future__ import annotations

import io
from typing import Any, ClassVar

from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem


class _Upload(io.BytesIO):
    """An object is there once it is closed."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def close(self) -> None:
        if not self.closed:
            ObjectStore.objects[self._path] = self.getvalue()
        super().close()


class ObjectStore(FileSystem):
    """Found by Beam because it is a subclass."""

    objects: ClassVar[dict[str, bytes]] = {}

    @classmethod
    def scheme(cls) -> str:
        return "mem"

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *(p.strip("/") for p in paths)])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def mkdirs(self, path: str) -> None:
        raise AssertionError("there are no folders")

    def has_dirs(self) -> bool:
        return False

    def _list(self, dir_or_prefix: str) -> Any:
        for path, content in sorted(self.objects.items()):
            if path.startswith(dir_or_prefix):
                yield FileMetadata(path, len(content))

    def create(self, path: str, mime_type: str = "", compression_type: str = "") -> Any:
        return _Upload(path)

    def open(self, path: str, mime_type: str = "", compression_type: str = "") -> Any:
        return io.BytesIO(self.objects[path])

    def copy(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        raise AssertionError("nothing is copied")

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        raise AssertionError("renaming an object copies it")

    def exists(self, path: str) -> bool:
        return path in self.objects

    def size(self, path: str) -> int:
        return len(self.objects[path])

    def last_updated(self, path: str) -> float:
        return 0.0

    def checksum(self, path: str) -> str:
        return ""

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, self.size(path))

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            if self.objects.pop(path, None) is None:
                raise BeamIOError("absent", {path: KeyError(path)})
