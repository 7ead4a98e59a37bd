"""Errors of the operating system, and what a person reads in their place."""

from __future__ import annotations

import errno
import os

import pytest

from ldpbeam.errors import LdpError, disk_errors

NAMES = {
    "the file that the error names": ("named", {}, "named"),
    "that one, before the default": ("named", {"default": "folder"}, "named"),
    "the default where the error names none": (None, {"default": "folder"}, "folder"),
    "what the caller says, in any case": ("named", {"where": "said", "default": "folder"}, "said"),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_disk_that_takes_no_more_is_an_error_with_a_place(case: str) -> None:
    named, given, place = NAMES[case]
    with pytest.raises(LdpError) as caught, disk_errors(**given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), named)
    assert (caught.value.code, caught.value.where) == ("E-DISK-FULL", place)


def test_other_errors_of_the_system_stay_what_they_are() -> None:
    with pytest.raises(OSError, match="Interrupted"), disk_errors("somewhere"):
        raise OSError(errno.EINTR, "Interrupted")
