"""What people read of texts that nobody listed, and back."""

from __future__ import annotations

from ldpbeam.hashing.strings import END, OTHER, Strings, text_of


def test_labels_tell_all_texts_apart_and_lead_back_to_them() -> None:
    odd = ["(other)", "(empty)", '"(other)"', '""(empty)""', '"', '"a"', "=1+1", " a", "other"]
    labels = [Strings.label(text.ljust(20, END)) for text in ["", OTHER, *odd]]
    assert labels[:4] == ["(empty)", "(other)", '"(other)"', '"(empty)"']
    assert labels[5:] == ['"""(empty)"""', *odd[4:]]
    assert len(set(labels)) == len(labels)
    assert [text_of(label) for label in labels] == ["", None, *odd]
