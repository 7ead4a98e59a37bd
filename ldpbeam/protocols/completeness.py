"""Members that a class must have, checked when Python reads the class."""

from __future__ import annotations

from abc import ABC
from inspect import getattr_static


def require_complete(kind: type, constants: tuple[str, ...] = ()) -> None:
    """Refuse a class that lacks a member, unless it names ABC among its bases and leaves it to subclasses."""
    if ABC in kind.__bases__:
        return
    missing = [
        name for name in dir(kind) if getattr(getattr_static(kind, name), "__isabstractmethod__", False)
    ]
    missing += [name for name in constants if not hasattr(kind, name)]
    if missing:
        base = kind.__bases__[0]
        raise TypeError(
            f"class {kind.__name__} in {kind.__module__} lacks {', '.join(missing)}; "
            f"{base.__name__} in {base.__module__} says what each of them is"
        )
