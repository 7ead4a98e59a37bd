"""Windows that fit into every calendar: an epoch ends where one of them ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ldpbeam.collection.epochs import Epochs
from ldpbeam.transforms.stages.epochs import common_windows

EPOCHS = st.builds(Epochs, st.integers(1, 10**6), st.integers(0, 4 * 10**9), st.integers(1, 10**4))


@given(st.lists(EPOCHS, min_size=1, max_size=5), st.data())
def test_every_epoch_ends_where_a_window_ends(calendars: list[Epochs], data: st.DataObject) -> None:
    """And longer windows would not do: each calendar and each difference of two is a multiple of the
    length."""
    windows = common_windows(calendars)
    length, offset = windows.size.micros // 10**6, windows.offset.micros // 10**6
    for epochs in calendars:
        epoch = data.draw(st.integers(0, epochs.count - 1))
        assert (epochs.start(epoch) - offset) % length == 0
        assert (epochs.end(epoch) - offset) % length == 0
    twice = 2 * length
    fits = all((e.length % twice, (e.origin - calendars[0].origin) % twice) == (0, 0) for e in calendars)
    assert not fits


@given(EPOCHS)
def test_of_one_collection_they_are_its_epochs(epochs: Epochs) -> None:
    windows = common_windows([epochs])
    assert windows.size == epochs.length
    assert windows.offset == epochs.origin % epochs.length
