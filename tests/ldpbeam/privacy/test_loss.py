"""Losses over several reports: published figures, brute force over memo tables, and their laws."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from math import inf, log, prod

import pytest

from ldpbeam.channels.calibration import Calibration
from ldpbeam.channels.channel import BitChannel, SymbolChannel
from ldpbeam.channels.exact import log_above, log_above_power
from ldpbeam.collection.file import parse_collection
from ldpbeam.privacy.bit_loss import BitLosses
from ldpbeam.privacy.loss import CURVE_REPORTS, SeveralLosses, SymbolLosses, loss_record
from ldpbeam.protocols import Parameters, protocol
from ldpbeam.protocols.attributes.allocate import allocate
from tests.narrow import present
from tests.reference.settings import Levels
from tests.waiting import quickly

LEVELS: Levels = {"epsilon_longitudinal": 2.0, "epsilon_first": 1.0}
TIMES = (1, 2, 3, 4, 6, 8, 10)


def symbols(name: str, size: int, **more: object) -> SymbolLosses:
    losses = protocol(name, size, Parameters(**{**LEVELS, **more})).losses  # type: ignore[arg-type]
    assert isinstance(losses, SymbolLosses)
    return losses


def bits(name: str, size: int, **more: object) -> BitLosses:
    losses = protocol(name, size, Parameters(**{**LEVELS, **more})).losses  # type: ignore[arg-type]
    assert isinstance(losses, BitLosses)
    return losses


# --- known answers (docs/maths.md correction 5)


def test_bi_loloha_has_the_known_losses() -> None:
    losses = symbols("loloha", 360, g=2)
    same = [f"{losses.same_changes(t):.2f}" for t in TIMES]
    assert same == ["1.00", "2.00", "2.64", "3.28", "3.80", "3.95", "3.99"]
    anything = [f"{losses.any_changes(t):.2f}" for t in TIMES]
    assert anything == ["1.00", "2.00", "2.64", "3.36", "4.75", "6.16", "7.57"]


def test_the_known_loss_at_a_lower_level() -> None:
    losses = symbols("loloha", 360, g=2, epsilon_longitudinal=1.0, epsilon_first=0.5)
    assert f"{losses.any_changes(10):.2f}" == "5.51"
    assert losses.same_changes(10) < 2.0 < losses.any_changes(10)  # type: ignore[operator]


# --- brute force: every memo table, every sequence, every sequence of reports

Rows = list[list[Fraction]]
Table = dict[tuple[int, ...], dict[tuple[int, ...], Fraction]]


def symbol_rows(channel: SymbolChannel) -> Rows:
    n = range(channel.size)
    return [[channel.own if o == i else channel.other for o in n] for i in n]


def bit_rows(channel: BitChannel, vectors: Sequence[int], size: int) -> Rows:
    def bit(given: int, output: int) -> Fraction:
        one = channel.own if given else channel.other
        return one if output else 1 - one

    def row(vector: int) -> list[Fraction]:
        return [
            prod((bit(vector >> i & 1, o >> i & 1) for i in range(size)), start=Fraction(1))
            for o in range(1 << size)
        ]

    return [row(vector) for vector in vectors]


def table_of(first: Rows, second: Rows, reports: int) -> Table:
    """P(reports | inputs): the sum over memo tables of products."""
    outputs, answers = range(len(second[0])), range(len(second))
    memos = [
        (memo, prod((row[a] for row, a in zip(first, memo, strict=True)), start=Fraction(1)))
        for memo in product(answers, repeat=len(first))
    ]
    return {
        inputs: {
            sent: sum(
                (
                    weight * prod((second[memo[i]][y] for i, y in zip(inputs, sent, strict=True)))
                    for memo, weight in memos
                ),
                Fraction(0),
            )
            for sent in product(outputs, repeat=reports)
        }
        for inputs in product(range(len(first)), repeat=reports)
    }


def worst(table: Table, inputs: int, renamed: bool) -> Fraction:
    found = Fraction(1)
    for mine, row in table.items():
        others = list(table)
        if renamed:
            others = [tuple(p[i] for i in mine) for p in permutations(range(inputs))]
        for other in others:
            found = max(found, *(row[sent] / table[other][sent] for sent in row))
    return found


SYMBOL_CASES = [
    ("loloha", 360, 2, 4, {"g": 2}),
    ("loloha", 360, 3, 3, {"g": 3}),
    ("loloha", 2, 2, 3, {"g": 3}),
    ("l_grr", 3, 3, 3, {}),
    ("l_grr", 3, 3, 2, {"calibration": Calibration.PUBLISHED}),
    ("l_grr", 4, 4, 2, {}),
]


@pytest.mark.cases(1)
@pytest.mark.parametrize(("name", "size", "inputs", "reports", "more"), SYMBOL_CASES)
def test_symbol_losses_are_those_of_all_memos_sequences_and_reports(
    name: str, size: int, inputs: int, reports: int, more: dict[str, object]
) -> None:
    losses = symbols(name, size, **more)
    assert losses.inputs == inputs
    first = symbol_rows(losses.rounds.first)[:inputs]
    for t in range(1, reports + 1):
        table = table_of(first, symbol_rows(losses.rounds.last), t)
        assert {sum(row.values()) for row in table.values()} == {Fraction(1)}
        assert losses.any_changes(t) == log_above(worst(table, inputs, renamed=False))
        assert losses.same_changes(t) == log_above(worst(table, inputs, renamed=True))
        steady = {(i,) * t: table[(i,) * t] for i in range(inputs)}
        assert losses.constant_ratio(t) == worst(steady, inputs, renamed=False)


@pytest.mark.parametrize("name", ["l_sue", "l_osue", "l_oue", "l_soue", "rappor"])
@pytest.mark.cases(2)
def test_unary_losses_are_those_of_all_memos_sequences_and_reports(name: str) -> None:
    """Two values and two bits, and three values that never change."""
    for size, reports, check_same in ((2, 2, True), (3, 1, True), (3, 2, False)):
        losses = bits(name, size)
        assert losses.rounds.instant is not None
        first = bit_rows(losses.rounds.first, [1 << i for i in range(size)], size)
        second = bit_rows(losses.rounds.last, range(1 << size), size)
        if check_same:
            table = table_of(first, second, reports)
            assert losses.same_changes(reports) == log_above(worst(table, size, renamed=True))
        steady = {
            (i,): {
                sent: sum(p * prod(second[a][y] for y in sent) for a, p in enumerate(row))
                for sent in product(range(1 << size), repeat=reports)
            }
            for i, row in enumerate(first)
        }
        assert losses.constant_ratio(reports) == worst(steady, size, renamed=False)  # type: ignore[arg-type]


def worst_of_all_bit_reports(losses: BitLosses, size: int, reports: int) -> Fraction:
    """Every sequence of values, every memo, every sequence of bit vectors; integers over one denominator."""
    full = 1 << 64
    assert losses.rounds.instant is not None
    held, sent = losses.rounds.first, losses.rounds.last

    def vector(channel: BitChannel, given: int, output: int) -> int:
        weight = 1
        for bit in range(size):
            one = channel.one if given >> bit & 1 else channel.zero
            weight *= one if output >> bit & 1 else full - one
        return weight

    vectors = range(1 << size)
    first = [[vector(held, 1 << value, answer) for answer in vectors] for value in range(size)]
    second = [[vector(sent, answer, output) for output in vectors] for answer in vectors]

    @cache
    def about(value: int, told: tuple[int, ...]) -> int:
        return sum(first[value][a] * prod(second[a][y] for y in told) for a in vectors)

    # An input that was not used has weight full**size, as every sum over answers has.
    found = Fraction(1)
    for told in product(vectors, repeat=reports):
        weights = [
            prod(
                about(value, tuple(y for y, i in zip(told, inputs, strict=True) if i == value))
                for value in range(size)
            )
            for inputs in product(range(size), repeat=reports)
        ]
        found = max(found, Fraction(max(weights), min(weights)))
    return found


@pytest.mark.cases(6)
@pytest.mark.parametrize("name", ["l_sue", "l_osue", "l_oue", "l_soue", "rappor"])
@pytest.mark.parametrize(("size", "reports"), [(2, 2), (2, 3), (2, 4), (3, 2), (3, 3), (4, 2)])
def test_any_change_losses_of_unary_protocols_are_those_of_all_reports(
    name: str, size: int, reports: int
) -> None:
    for level in (1.0, 0.05):
        parameters = Parameters(epsilon_longitudinal=2 * level, epsilon_first=level)
        losses = protocol(name, size, parameters).losses
        assert isinstance(losses, BitLosses)
        assert losses.any_changes(reports) == log_above(worst_of_all_bit_reports(losses, size, reports))


@pytest.mark.parametrize(
    ("name", "size", "levels", "known"),
    [
        ("l_osue", 10, (2.0, 1.0), ["1.00", "5.45", "12.1", "21.7"]),
        ("l_osue", 360, (2.0, 1.0), ["1.00", "155", "453", "819"]),
        ("l_sue", 360, (2.0, 1.0), ["1.00", "119", "318", "552"]),
        ("rappor", 360, (2.0, 1.0), ["0.941", "105", "284", "501"]),
        ("l_osue", 360, (1.0, 0.5), ["0.500", "118", "317", "552"]),
    ],
)
def test_the_known_any_change_losses_of_unary_protocols(
    name: str, size: int, levels: tuple[float, float], known: list[str]
) -> None:
    """From an enumeration written apart from this one; they exceed every cap there is."""
    losses = bits(name, size, epsilon_longitudinal=levels[0], epsilon_first=levels[1])
    found = [losses.any_changes(t) or 0.0 for t in range(1, len(known) + 1)]
    for loss, text in zip(found, known, strict=True):
        digits = len(text.replace(".", "").lstrip("0"))
        assert f"{loss:#.{digits}g}".rstrip(".") == text
    # Measured 0.16 s on a loaded machine.
    assert quickly(lambda: losses.any_changes(6), 3, tries=1) is not None  # remembered afterwards
    assert losses.any_changes(7) is None


def test_a_power_of_logarithms_is_rounded_up() -> None:
    for ratio in (Fraction(3), Fraction(10**20 + 1, 10**20), Fraction(1, 7)):
        for times in (1, 2, 17):
            assert log_above_power([(ratio, times)]) == log_above(ratio**times)
    assert log_above_power([(Fraction(2), 3), (Fraction(3, 2), 2)]) == log_above(Fraction(18))
    assert log_above_power([]) == 0.0
    # Nobody can write 3 ** (10 ** 18) down.
    assert log_above_power([(Fraction(3), 10**18)]) == pytest.approx(10**18 * log(3), rel=1e-15)


@pytest.mark.parametrize(("size", "d"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 2)])
def test_d_bit_flip_pm_loses_everything_about_an_input_at_once(size: int, d: int) -> None:
    """Memo keys are the sampled buckets, and one for the others; what is memoised is sent as it is."""
    losses = bits("dbitflip_pm", size, d=d)
    keys = [1 << i for i in range(d)] + ([0] if d < size else [])
    first = bit_rows(losses.rounds.first, keys, d)
    for t in (1, 2):
        found = Fraction(1)
        for groups in product(range(len(keys)), repeat=t):
            if len(set(groups)) == t:  # one report per input tells all there is to it
                for p in permutations(range(len(keys))):
                    pairs = [(first[i], first[p[i]]) for i in groups]
                    told = (max(a / b for a, b in zip(*two, strict=True)) for two in pairs)
                    found = max(found, prod(told, start=Fraction(1)))
        assert losses.same_changes(t) == log_above(found if found > 1 else losses.constant_ratio(t))
    assert losses.any_changes(1) == losses.constant(1) == losses.constant(7)
    assert losses.any_changes(2) == losses.bound(2) == inf


# --- laws

MEMO = [
    symbols("loloha", 360, g=2),
    symbols("loloha", 360, g=7),
    symbols("l_grr", 5),
    symbols("l_grr", 8, calibration=Calibration.PUBLISHED),
    bits("l_sue", 40),
    bits("dbitflip_pm", 9, d=1),
    bits("dbitflip_pm", 9, d=4),
]


@pytest.mark.parametrize("losses", MEMO, ids=lambda x: f"{type(x).__name__}-{x.inputs}")
@pytest.mark.cases(4)
def test_losses_grow_from_the_first_report_towards_the_cap(losses: SymbolLosses | BitLosses) -> None:
    times = range(1, 13)
    same = [losses.same_changes(t) for t in times]
    assert same == sorted(same)
    assert same[0] == losses.constant(1)
    assert losses.constant(1) <= 1.0 or isinstance(losses, BitLosses)
    each = 2.0
    assert [losses.constant(t) for t in times] == sorted(losses.constant(t) for t in times)
    assert losses.constant(60) <= each + 1e-12
    assert same[-1] <= losses.inputs * each + 1e-12
    # Never less than one value that stays, never more than all that the inputs can lose.
    assert all(losses.constant(t) <= loss for t, loss in zip(times, same, strict=True))
    found = [loss for t in times if (loss := losses.any_changes(t)) is not None]
    assert found == sorted(found)
    for one, other in zip(same, found, strict=False):
        assert other >= one
    assert all(losses.bound(t) >= loss for t, loss in zip(times, found, strict=False))


@pytest.mark.parametrize(("g", "most"), [(2, 261.1), (3, 370.2)])
def test_the_bound_of_a_year_is_near_the_truth(g: int, most: float) -> None:
    """Each symbol is sent in its turn: by an input of its own, against one input for all of them."""
    losses = symbols("loloha", 360, g=g)
    first, last = losses.rounds.first, losses.rounds.last
    sent = [len(range(i, 365, g)) for i in range(g)]

    def about(own: int, made: Sequence[int]) -> Fraction:
        likely = (last.keep**n * last.each ** (sum(made) - n) for n in made)
        return sum(
            ((first.own if i == own else first.other) * one for i, one in enumerate(likely)), Fraction(0)
        )

    apart = prod(about(i, [n if i == j else 0 for j, n in enumerate(sent)]) for i in range(g))
    assert 0.97 * most < log_above(Fraction(apart) / about(0, sent)) <= losses.bound(365) <= most


@pytest.mark.parametrize("name", ["l_osue", "l_sue", "l_oue"])
def test_the_bound_of_bits_is_near_the_truth(name: str) -> None:
    """Two values in t and 365 - t reports against one value; each bit says 1 under one of the two."""
    losses, reports = bits(name, 2), 365

    def history(own: bool, ones: int, zeros: int) -> Fraction:
        held, up, down = losses.rounds.first, losses.rounds.last.own, losses.rounds.last.other
        one = held.own if own else held.other
        return one * up**ones * (1 - up) ** zeros + (1 - one) * down**ones * (1 - down) ** zeros

    told = Fraction(1)
    for t in range(reports + 1):
        rest = reports - t
        mine = history(True, t, 0) * history(False, 0, rest) / history(True, t, rest)
        with_it = history(False, t, 0) * history(True, 0, rest) / history(False, t, rest)
        against = history(False, 0, t) * history(True, rest, 0) / history(False, rest, t)
        told = max(told, mine * max(with_it, against))
    assert 0.95 * losses.bound(reports) < log_above(told) <= losses.bound(reports)
    # And with more inputs than two, as docs/maths.md writes it: a rarest memo for each bit of each input.
    wide = bits(name, 24)
    held, sent = wide.rounds.first, wide.rounds.last
    one, zero = log(sent.own / sent.other), log((1 - sent.other) / (1 - sent.own))
    rarest = [-log(min(p, 1 - p)) for p in (held.own, held.other)]
    settled = 24 * rarest[0] + 24 * 23 * rarest[1] + 24 * 3650 * one * zero / (one + zero)
    assert wide.bound(3650) == pytest.approx(settled, rel=1e-12)


@pytest.mark.thorough
def test_the_first_report_of_every_protocol_with_a_memo() -> None:
    for name in ("l_sue", "l_osue", "l_oue", "l_soue", "rappor", "dbitflip_pm"):
        built = protocol(name, 9, Parameters(**LEVELS, d=2))
        assert isinstance(built.losses, BitLosses)
        assert built.losses.constant_ratio(1) == built.guarantee.first_ratio
        assert built.losses.constant(200) == pytest.approx(built.guarantee.per_memoised_input, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "size", "more", "longest"),
    [
        ("loloha", 360, {"g": 2}, 64),
        ("loloha", 360, {"g": 3}, 13),
        ("loloha", 360, {"g": 7}, 7),
        ("l_grr", 5000, {}, 6),
    ],
)
@pytest.mark.cases(2)
def test_how_far_the_enumeration_goes(name: str, size: int, more: dict[str, object], longest: int) -> None:
    losses = symbols(name, size, **more)
    assert losses.any_changes(longest) is not None
    assert losses.any_changes(longest + 1) is None


# --- several attributes


def test_attributes_reported_together_add_up_and_a_sampled_one_is_the_worst() -> None:
    parameters = Parameters(**LEVELS)
    for allocation, together in (("split", True), ("sample", False)):
        losses = allocate(allocation, "l_grr", [2, 3], parameters).losses
        assert isinstance(losses, SeveralLosses)
        assert losses.together == together
        for t in (1, 2, 5):
            for method in ("same_changes", "any_changes"):
                parts = [getattr(part, method)(t) for part in losses.parts]
                expected = sum(parts) if together else max(parts)
                assert 0 <= getattr(losses, method)(t) - expected < 1e-13
    assert allocate("sample", "grr", [2, 3], Parameters(epsilon=1.0)).losses is None
    unary = present(allocate("split", "l_sue", [2, 3], parameters).losses)
    parts = [part.any_changes(6) or 0.0 for part in unary.parts]
    assert 0 <= (unary.any_changes(6) or 0.0) - sum(parts) < 1e-13
    assert unary.any_changes(7) is None


# --- the record


def record(protocol_lines: str, size: int = 360) -> dict[str, object]:
    text = f"name: a\ndomain: {{size: {size}}}\nepoch: {{length: 1h}}\n{protocol_lines}"
    found = parse_collection(text).as_record()["guarantee"]
    assert isinstance(found, dict)
    return found


TWO = "epsilon_longitudinal: 2.0\nepsilon_first: 1.0\n"


def test_the_record_has_the_curves() -> None:
    found = record(f"protocol: loloha\ng: 2\n{TWO}")
    losses = symbols("loloha", 360, g=2)
    times = range(1, CURVE_REPORTS + 1)
    assert found["loss_same_changes"] == [[t, losses.same_changes(t)] for t in times]
    assert found["loss_any_changes"] == [[t, losses.any_changes(t)] for t in times]
    unary = record(f"protocol: l_osue\n{TWO}")
    assert len(unary["loss_same_changes"]) == CURVE_REPORTS  # type: ignore[arg-type]
    assert [t for t, _ in unary["loss_any_changes"]] == [1, 2, 3, 4, 5, 6]  # type: ignore[attr-defined]
    assert unary["loss_two_reports"] == unary["loss_any_changes"][1][1] > 100  # type: ignore[index]
    assert found["loss_two_reports"] == losses.any_changes(2)
    assert found["loss_unbounded_from"] is None
    wide = record(f"protocol: l_grr\n{TWO}")
    assert len(wide["loss_any_changes"]) == 6  # type: ignore[arg-type]
    bare = record("protocol: dbitflip_pm\nd: 3\nepsilon_longitudinal: 2.0\n")
    assert (bare["loss_any_changes"], bare["loss_two_reports"], bare["loss_unbounded_from"]) == (
        None,
        None,
        2,
    )
    points = "protocol: one_bit_rrpm\nepsilon_longitudinal: 1.0\n"
    kept = record(points)
    assert (kept["loss_any_changes"], kept["loss_unbounded_from"], kept["loss_any"]) == (None, 2, None)
    assert any("prove that its value changed" in one for one in kept["not_hidden"])  # type: ignore[attr-defined]
    flipped = record(f"{points}gamma: 0.2\n")
    assert [f"{loss:.5f}" for _, loss in flipped["loss_any_changes"][1:3]] == ["1.13889", "1.66521"]  # type: ignore[index]
    assert flipped["loss_unbounded_from"] is None
    once = record("protocol: grr\nepsilon: 1.0\n")
    assert {name: once[name] for name in loss_record(None)} == loss_record(None)
    assert set(loss_record(None).values()) == {None}


def test_the_record_says_what_is_not_hidden() -> None:
    def shown(lines: str) -> str:
        sentences = record(lines)["not_hidden"]
        assert isinstance(sentences, list)
        return " ".join(sentences)

    everywhere = "Whether a device reports in an epoch is not protected"
    once = shown("protocol: oue\nepsilon: 1.0\n")
    assert once.startswith("Taking part.")
    assert once.count(".") == 2
    for lines, words in (
        (f"protocol: l_osue\n{TWO}", "answer of 360 bits"),
        (f"protocol: l_grr\n{TWO}", "Changes, over several reports"),
        (f"protocol: loloha\ng: 3\n{TWO}", "one of 728"),
        (f"protocol: loloha\nhash_family: affine\n{TWO}", "identifies a device for life"),
        ("protocol: dbitflip_pm\nd: 4\nepsilon_longitudinal: 2.0\n", "one set of 688,235,310"),
        ("protocol: dbitflip_pm\nd: 360\nepsilon_longitudinal: 2.0\n", "prove that its value changed"),
    ):
        assert words in shown(lines)
        assert everywhere in shown(lines)
    assert "set of" not in shown("protocol: dbitflip_pm\nd: 360\nepsilon_longitudinal: 2.0\n")
    drawn = allocate("sample", "l_sue", [2, 3], Parameters(**LEVELS)).not_hidden
    assert "Which of 2 attributes" in drawn[0]
    assert len(drawn) == len(set(drawn)) == 4
