"""Domains: what a raw text means and what a person reads, and every rule about them."""

from __future__ import annotations

import pytest

from ldpbeam.collection.domain import MAX_DOMAIN, Domain
from ldpbeam.errors import CollectionError


@pytest.mark.parametrize(
    "arguments,said",
    [
        ((1,), "2 to 16777216 values, not 1"),
        ((0,), "not 0"),
        ((MAX_DOMAIN + 1,), f"not {MAX_DOMAIN + 1}"),
        ((3, ("a", "b")), "2 labels for a domain of size 3"),
        ((2, ("a", "b", "c")), "3 labels for a domain of size 2"),
        ((3, ("a", "b", "a")), "label 'a' appears more than once"),
        ((3, None, 0.0), "must end above 0"),
        ((3, None, -1.0), "must end above 0"),
        ((3, None, float("nan")), "must end above 0"),
        ((3, None, float("inf")), "must end above 0"),
    ],
)
def test_unsound_domains_are_refused_with_a_remedy(arguments: tuple, said: str) -> None:
    """Each rule has its text, the domain code, and something to do."""
    with pytest.raises(CollectionError) as caught:
        Domain(*arguments)
    assert said in str(caught.value)
    assert caught.value.code == "E-COLLECTION-DOMAIN"
    assert caught.value.remedy.endswith(".")


def test_plain_sizes_take_indices() -> None:
    """A size takes its indices as text and nothing else; a refused text is never repeated."""
    domain = Domain(12)
    assert [domain.index_of_text(str(i)) for i in range(12)] == list(range(12))
    assert domain.label(7) == "7"
    assert domain.index_of_text("1.0") == 1
    for raw in ("12", "-1", "secret", "1.5", ""):
        with pytest.raises(ValueError) as caught:
            domain.index_of_text(raw)
        if raw == "12":
            assert "12 " not in str(caught.value)


def test_labels_are_looked_up() -> None:
    """Labels map both ways; an unknown one is refused without being repeated in the text."""
    domain = Domain(3, ("never", "daily", "Ärger"))
    assert [domain.index_of_text(name) for name in ("never", "daily", "Ärger")] == [0, 1, 2]
    assert domain.label(2) == "Ärger"
    for raw in ("Daily", "secret", ""):
        with pytest.raises(ValueError, match="3 labels") as caught:
            domain.index_of_text(raw)
        assert "secret" not in str(caught.value)


def test_a_label_that_is_not_listed_is_other() -> None:
    domain = Domain(3, ("never", "daily", "else"), other=2)
    assert [domain.index_of_text(name) for name in ("never", "else", "secret", "")] == [0, 2, 2, 2]
    for wrong in (3, -1):
        with pytest.raises(CollectionError, match="none of the labels"):
            Domain(3, ("never", "daily", "else"), other=wrong)
    with pytest.raises(CollectionError, match="none of the labels"):
        Domain(3, other=0)


def test_ranges_cut_into_equal_buckets_and_clamp() -> None:
    """Bucket bounds are half open; numbers beyond the range go into the first or last bucket."""
    domain = Domain(4, None, 100.0)
    expected = {"0": 0, "24.999": 0, "25": 1, "99.9": 3, "100": 3, "1e9": 3, "-5": 0, "50": 2}
    assert {raw: domain.index_of_text(raw) for raw in expected} == expected
    assert domain.label(1) == "[25, 50)"
    for raw in ("nan", "inf", "-inf", "x"):
        with pytest.raises(ValueError):
            domain.index_of_text(raw)


def test_equality_and_hash_are_by_content() -> None:
    """Two readings of the same file are the same domain."""
    assert Domain(2, ("a", "b")) == Domain(2, ("a", "b"))
    assert hash(Domain(2, ("a", "b"))) == hash(Domain(2, ("a", "b")))
    assert Domain(2, ("a", "b")) != Domain(2, ("b", "a")) != Domain(2)
