"""Every block of numbers in docs/ that the library can compute, and the tool that writes them.

A page holds ``<!-- generated: NAME -->`` before a fenced block or a table. ``test_numbers`` compares each
with what is computed here; ``python -m tests.docs.generated`` writes them anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from math import exp, inf, log
from pathlib import Path

import numpy as np

from ldpbeam import answer_counts, summaries
from ldpbeam.admission import ReportColumns
from ldpbeam.audit.checks.faults import FAULTS, MEASURED
from ldpbeam.channels.calibration import Calibration
from ldpbeam.collection.collection import Collection
from ldpbeam.collection.file import load_collection, parse_collection
from ldpbeam.collection.values import Index
from ldpbeam.errors import Reason
from ldpbeam.hashing import FAMILIES
from ldpbeam.hashing.strings import ALPHABETS, Strings
from ldpbeam.histogram import estimate_epoch, make_consistent
from ldpbeam.planning.spread import mean_error
from ldpbeam.planning.strings import smallest_found
from ldpbeam.privacy.counters import CountersGuarantee, bounded_sum_epsilon
from ldpbeam.privacy.guarantee import Guarantee
from ldpbeam.privacy.loss import SymbolLosses
from ldpbeam.promise.poisoning import leverage
from ldpbeam.protocols import PROTOCOLS, FrequencyProtocol, Parameters, protocol
from ldpbeam.protocols.attributes.allocate import allocate
from ldpbeam.protocols.contract import MeanProtocol
from ldpbeam.protocols.laplace_mean import LaplaceMean
from ldpbeam.protocols.local_hash import LOLOHA
from ldpbeam.protocols.one_bit_mean import OneBit
from ldpbeam.protocols.part_estimator import PartEstimator, part_estimators
from ldpbeam.protocols.prefixes import of_strings
from ldpbeam.shuffling.randomiser import many_epochs, one_epoch
from ldpbeam.shuffling.shuffle import central_epsilon
from ldpbeam.simulators.fleet import Fleet
from ldpbeam.simulators.population.specs import population
from ldpbeam.simulators.random_words import RandomWords
from ldpbeam.support import Support
from ldpbeam.tables import CUMULATIVE, DESCRIPTIONS, estimates_schema
from ldpbeam.transforms import RejectedRow, arrow_schema
from ldpbeam.transforms.sinks.estimates import epoch_file_name
from ldpbeam.wire import report_pb2
from tests.conftest import REPOSITORY
from tests.docs import wire
from tests.narrow import present
from tests.reference.script import ScriptedRandomness
from tests.reference.settings import Levels
from tests.reference.stretches import moves

EXAMPLE = REPOSITORY / "examples" / "minutes_in_app.yaml"
MARK = re.compile(
    r"<!-- generated: ([a-z-]+) -->\n+(?:```text\n(?P<text>.*?)\n```|(?P<table>(?:\|[^\n]*\n)+))",
    re.DOTALL,
)

LEVELS: Levels = {"epsilon_longitudinal": 2.0, "epsilon_first": 1.0}


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).rstrip("\n")


# --- docs/tour.md: one value from a device to a published frequency

VALUE, EPOCH, OTHERS = 5, 5, 199_999
SEED_WORD, PERMANENT_WORD, INSTANT_WORD, REPORT_ID = (
    0x243F6A8885A308D3,
    0x13198A2E03707344,
    0xE3707344A4093822,
    0x299F31D0082EFA98,
)


@cache
def example() -> Collection:
    return load_collection(EXAMPLE)


def loloha() -> LOLOHA:
    built = example().protocol
    assert isinstance(built, LOLOHA)
    return built


def base(number: int, g: int, digits: int) -> list[int]:
    return [number // g**i % g for i in range(digits)]


def spaced(numbers: list[int]) -> str:
    return " ".join(map(str, numbers))


def _device() -> tuple[int, int, int, int, bytes]:
    """seed, hash, memoised symbol, reported symbol, payload."""
    kind = loloha()
    words = ScriptedRandomness([SEED_WORD, PERMANENT_WORD, INSTANT_WORD])
    response, memo = kind.device.privatize(VALUE, kind.device.new_memo(words), words)
    assert words.exhausted()
    hashed = kind.family.hash(response.seed, VALUE)
    return response.seed, hashed, memo.answers[hashed], response.symbol, kind.device.encode(response)


def flow_device() -> str:
    kind = loloha()
    seed, hashed, answer, symbol, payload = _device()
    g, m = kind.g, kind.family.digits  # type: ignore[attr-defined]
    points = kind.family.points  # type: ignore[attr-defined]
    digits, coefficients = base(VALUE, g, m), base(seed, g, m)
    products = " + ".join(f"{s}·{v}" for s, v in zip(coefficients, digits, strict=True) if v)
    assert kind.rounds.permanent is not None
    kept = kind.rounds.permanent.keep > PERMANENT_WORD
    lie = kind.rounds.last.keep <= INSTANT_WORD
    others = [y for y in range(g) if y != answer]
    number = (INSTANT_WORD - kind.rounds.last.keep) // kind.rounds.last.each
    assert lie
    assert others[number] == symbol
    return "\n".join(
        [
            f"value            {VALUE}, base-{g} digits from the lowest: {spaced(digits)}",
            f"seed word        0x{SEED_WORD:016x}",
            f"seed             1 + word mod {points - 1} = {seed}, digits {spaced(coefficients)}",
            f"hash             ({products}) mod {g} = {hashed}",
            f"permanent word   0x{PERMANENT_WORD:016x}, {'below' if kept else 'not below'} keep",
            f"memo             {{{hashed}: {answer}}}, kept for life",
            f"second word      0x{INSTANT_WORD:016x}, not below keep",
            f"symbol           (word − keep) div each = {number}, so of the other symbols "
            f"({', '.join(map(str, others))}) the one at index {number}: {symbol}",
            f"payload          ({seed} − 1)·{g} + {symbol} = {(seed - 1) * g + symbol}, "
            f"bytes {payload.hex(' ')}",
        ]
    )


def flow_report() -> str:
    payload = _device()[4]
    digest = example().digest
    message = report_pb2.Report(digest=digest, epoch=EPOCH, report_id=REPORT_ID, payload=payload)
    raw = message.SerializeToString()
    parts = [
        ("frame", bytes([len(raw)]), f"length of the message that follows: {len(raw)} bytes"),
        ("digest", raw[:9], f"tag 1, fixed64: {example().digest_hex}"),
        ("epoch", raw[9:11], f"tag 2, zigzag varint: {EPOCH}"),
        ("report_id", raw[11:20], f"tag 3, fixed64, little-endian: {REPORT_ID:016x}"),
        ("payload", raw[20:], f"tag 4, {len(payload)} bytes: {payload.hex(' ')}"),
    ]
    assert b"".join(part for _, part, _ in parts[1:]) == raw
    return "\n".join(f"{name:<10} {part.hex(' '):<26}  {what}" for name, part, what in parts)


@cache
def _fleet() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True values, report ids and payloads of the other devices."""
    random_words = RandomWords(2)
    people = population(
        "zipf:1.1", domain=present(example().domain), devices=OTHERS, epochs=1, random_words=random_words
    )
    (values,) = people.values()
    reports = Fleet(example(), OTHERS, random_words.seed).report(Index(values), EPOCH)
    return values, reports.report_ids, reports.payloads


@cache
def _support() -> Support:
    kind = loloha()
    _, ids, payloads = _fleet()
    ours = np.frombuffer(_device()[4], np.uint8).reshape(1, -1)
    total = Support.zero(kind.counter.counts_length)
    for part in (
        ReportColumns(example().digest, EPOCH, np.array([REPORT_ID], np.uint64), ours),
        ReportColumns(example().digest, EPOCH, ids, payloads),
    ):
        kind.counter.add(part.payloads, total.counts)
        total.reports += len(part)
    return total


def flow_support() -> str:
    kind, support = loloha(), _support()
    cell = int.from_bytes(_device()[4], "little")
    counts = kind.counter.support_counts(support.counts)
    values = _fleet()[0]
    return "\n".join(
        [
            f"n                {support.reports} reports",
            f"table            {kind.counter.counts_length} cells; cell {cell} holds {support.counts[cell]}",
            f"C({VALUE})             {counts[VALUE]}",
            f"expected         {support.reports * float(kind.estimator.support.other):.1f} if nobody held "
            f"{VALUE}, {support.reports * float(kind.estimator.support.own):.1f} if everybody did",
            f"truth            {int((values == VALUE).sum()) + 1} devices held {VALUE} "
            "(known only because this is a simulation)",
        ]
    )


def flow_histogram() -> str:
    epoch = make_consistent(example(), estimate_epoch(example(), EPOCH, _support()))
    (histogram,) = epoch.attributes
    found, after = histogram.estimates, histogram.consistent
    assert found is not None
    assert after is not None
    own, other = (float(x) for x in (loloha().estimator.support.own, loloha().estimator.support.other))
    truth = (int((_fleet()[0] == VALUE).sum()) + 1) / epoch.reports
    return "\n".join(
        [
            f"estimate         ({histogram.support[VALUE]}/{epoch.reports} − {other:.6f}) / "
            f"({own:.6f} − {other:.6f}) = {found.frequency[VALUE]:.6f}",
            f"std_error        {found.std_error[VALUE]:.6f}",
            f"interval         {found.low[VALUE]:.6f} to {found.high[VALUE]:.6f}",
            f"truth            {truth:.6f}",
            f"all values       sum {found.frequency.sum():.6f}, "
            f"{int((found.frequency < 0).sum())} of {after.size} negative",
            f"consistent       {after[VALUE]:.6f}; all values sum to {after.sum():.6f}, "
            f"{int((after < 0).sum())} negative, {int((after == 0).sum())} zero",
            f"file             {epoch_file_name(example(), EPOCH, 0)}",
        ]
    )


# --- docs/protocols.md


def built(name: str, k: int, **more: object) -> FrequencyProtocol[object]:
    """A protocol at the page's levels; where the number of buckets is asked for, with d = 4."""
    takes = PROTOCOLS[name].PARAMETERS
    given: dict[str, object] = {level: value for level, value in LEVELS.items() if level in takes}
    if "epsilon" in takes:
        given["epsilon"] = LEVELS["epsilon_first"]
    if "d" in takes:
        given["d"] = 4
    kind = protocol(name, k, Parameters(**{**given, **more}))  # type: ignore[arg-type]
    assert isinstance(kind, FrequencyProtocol)
    return kind


def cap(guarantee: Guarantee) -> str:
    if guarantee.cap_over_inputs is None:
        return "none: ε per report"
    return f"{guarantee.cap_over_inputs:g} ({guarantee.memoised_inputs} {guarantee.inputs.value}s × ε∞)"


def comparison() -> str:
    def error(kind: FrequencyProtocol[object]) -> str:
        """Of all reports, also those that did not sample the value."""
        return f"{float(kind.estimator.support.floor) / float(kind.estimator.support.sampled):.3f}"

    rows = []
    for name, kind_class in PROTOCOLS.items():
        if not issubclass(kind_class, FrequencyProtocol):
            continue
        kind = built(name, 360)
        facts = kind.resolved_parameters()
        chosen = "".join(f", {key} = {facts[key]}" for key in ("g", "d") if key in facts)
        first = f"{kind.guarantee.first_report:.3g}"
        bits = str(kind.device.payload_bits)
        few = error(built(name, 10))
        rows.append([f"`{name}`{chosen}", bits, few, error(kind), first, cap(kind.guarantee)])
    head = ["protocol", "bits", "n·V*, k = 10", "n·V*", "first report", "cap over inputs"]
    return table(head, rows)


def variants() -> str:
    rows = []
    for label, more in (
        ("linear, optimal", {}),
        ("linear, g: 2", {"g": 2}),
        ("affine, optimal", {"hash_family": "affine"}),
        ("affine, g: 2", {"hash_family": "affine", "g": 2}),
    ):
        kind = built("loloha", 360, **more)
        seeds = kind.family.points - 1 if "linear" in label else None  # type: ignore[attr-defined]
        rows.append(
            [
                label,
                str(kind.resolved_parameters()["g"]),
                str(kind.device.payload_bits),
                "2^128" if seeds is None else str(seeds),
                f"{float(kind.estimator.support.floor):.3f}",
                cap(kind.guarantee),
            ]
        )
    head = ["hash_family, g", "g", "bits", "functions", "n·V*", "cap over inputs"]
    return table(head, rows)


# --- docs/privacy.md


def leverages() -> str:
    """Of equal protocols one row; of laplace_mean also what no report counted as extreme can do."""
    labels: dict[tuple[str, ...], list[str]] = {}
    for name, kind_class in PROTOCOLS.items():
        mean = issubclass(kind_class, MeanProtocol)
        for family in FAMILIES if "hash_family" in kind_class.OPTIONAL else ("",):
            takes = {"epsilon": 1.0, "d": 4, **LEVELS}
            given: dict[str, object] = {n: v for n, v in takes.items() if n in kind_class.PARAMETERS}
            given |= {"hash_family": family} if family else {}
            found = leverage(protocol(name, 1001 if mean else 100, Parameters(**given)))  # type: ignore[arg-type]
            three = (found.one_value, found.one_value_down, found.ten_values)
            figures = tuple("–" if one is None else f"{one:.1f}" for one in three)
            labels.setdefault(figures, []).append(f"`{name}`" + (f" {family}" if family else ""))
    laplace = protocol("laplace_mean", 1001, Parameters(epsilon=1.0))
    assert isinstance(laplace, LaplaceMean)
    most, least = ((noise - 1) / laplace.estimator.maximum for noise in present(laplace.counter.rare_noise))
    labels[f"{1 + most:.1f}", f"{least:.1f}", "–"] = ["`laplace_mean`, not counted under `extremes`"]
    rows = [[", ".join(names), *figures] for figures, names in labels.items()]
    return table(["protocol", "one value, up", "one value, down", "ten values, up"], rows)


def moved_shares() -> str:
    rows = []
    for reports in (10**3, 10**4, 10**5, 10**6):
        found = moves(64, 4, 1.0, reports)
        rows.append([f"{reports:,}", f"{found.share_of_all:.1f}", f"{found.share:.1f}"])
    return table(["reports n", "a share, all functions alike", "a share, one function"], rows)


TIMES = (1, 2, 4, 6, 10)


def losses_of(name: str, k: int, **more: object) -> SymbolLosses:
    losses = built(name, k, **more).losses
    assert isinstance(losses, SymbolLosses)
    return losses


def several_reports() -> str:
    losses = losses_of("loloha", 360, g=2)
    anything = [losses.any_changes(t) for t in TIMES]
    rows = [
        ["one input that never changes", *(f"{losses.constant(t):.2f}" for t in TIMES)],
        ["two sequences, one the other renamed", *(f"{losses.same_changes(t):.2f}" for t in TIMES)],
        ["any two sequences", *("–" if loss is None else f"{loss:.2f}" for loss in anything)],
    ]
    return table(["reports t", *map(str, TIMES)], rows)


def any_two_sequences() -> str:
    """Loss of the first few reports, where the levels, the symbols and the values differ."""
    rows = []
    for name, k, levels, more in (
        ("loloha", 360, (2.0, 1.0), {"g": 2}),
        ("loloha", 360, (2.0, 1.0), {"g": 3}),
        ("loloha", 360, (0.5, 0.45), {"g": 3}),
        ("l_osue", 24, (2.0, 1.0), {}),
        ("l_osue", 360, (2.0, 1.0), {}),
    ):
        given = {"epsilon_longitudinal": levels[0], "epsilon_first": levels[1]}
        kind = protocol(name, k, Parameters(**given, **more))  # type: ignore[arg-type]
        losses, cap = kind.losses, kind.guarantee.cap_over_inputs
        assert losses is not None and cap is not None
        found = [losses.any_changes(t) or 0.0 for t in (1, 2, 3, 4)]
        label = f"`{name}`, " + ", ".join(f"{key} = {value}" for key, value in {"k": k, **more}.items())
        shown = " / ".join(f"{level:g}" for level in levels)
        rows.append([label, shown, *(f"{loss:.2f}" for loss in found), f"{cap:.4g}"])
    return table(["protocol", "ε∞ / ε1", "t = 1", "2", "3", "4", "cap over inputs"], rows)


def few_reports() -> str:
    """N·V* of one epoch of T, where all that a device sends in its life is to stay within ε."""

    def error(name: str, **levels: object) -> float:
        support = built(name, 360, **levels).estimator.support
        return float(support.floor / support.sampled)

    rows = []
    for epsilon in (2.0, 4.0):
        memo = error("loloha", epsilon_longitudinal=epsilon / 2, epsilon_first=epsilon / 4, g=2)
        for of in (32, 365):
            few = [error("oue", epsilon=epsilon / m) * of / m for m in (1, 2, of)]
            cells = [f"{one:.3g}" if one < 1000 else f"{one:,.0f}" for one in [*few, memo]]
            rows.append([f"{epsilon:g}", str(of), *cells])
    head = ["ε for life", "T", "1 of T", "2 of T", "T of T", "`loloha`, g = 2, cap ε (renamed values only)"]
    return table(head, rows)


def shuffled() -> str:
    """Central ε at 1e-9 for fleets of several sizes."""
    rows = []
    for label, name, k, more in (
        ("`grr`, k = 10", "grr", 10, {}),
        ("`olh`, g = 3", "olh", 360, {"g": 3}),
        ("`l_grr`, k = 10", "l_grr", 10, {}),
        ("`l_osue`, k = 3", "l_osue", 3, {}),
        ("`l_osue`, k = 360", "l_osue", 360, {}),
        ("`loloha`, g = 3, 728 functions", "loloha", 360, {"g": 3}),
    ):
        kind = built(name, k, **more)
        once, often = one_epoch(kind), many_epochs(kind)
        cells = ["–" if once is None else f"{central_epsilon(once, n):.3g}" for n in (10**4, 10**5, 10**6)]
        cells.append("–" if often is None else f"{central_epsilon(often, 10**5, 30):.3g}")
        rows.append([label, *cells])
    head = ["protocol, ε or ε1 = 1", "one epoch, n = 10⁴", "10⁵", "10⁶", "30 epochs, any changes, 10⁵"]
    return table(head, rows)


# --- docs/outputs.md


def reasons() -> str:
    return table(["reason", "meaning"], [[f"`{r.value}`", r.explanation] for r in Reason])


def _columns(schema: object, meaning: dict[str, str]) -> str:
    fields = list(schema)  # type: ignore[call-overload]
    assert [f.name for f in fields] == list(meaning)
    rows = [[f"`{f.name}`", f"`{f.type}`", "yes" if f.nullable else "no", meaning[f.name]] for f in fields]
    return table(["column", "type", "may be null", "meaning"], rows)


def estimates_columns() -> str:
    of_all = {name: text for name, text in DESCRIPTIONS.items() if name not in CUMULATIVE}
    return _columns(estimates_schema(example()), of_all)


def cumulative_columns() -> str:
    runs = {"protocol": "olh", "hash_family": "interval", "epsilon": 1.0}
    collection = parse_collection(json.dumps({**_RUNS, **runs}))
    only = [field for field in estimates_schema(collection) if field.name in CUMULATIVE]
    return _columns(only, {name: DESCRIPTIONS[name] for name in CUMULATIVE})


_RUNS = {"name": "any", "domain": {"size": 2, "ordered": True}, "epoch": {"length": "1d"}}


def summaries_columns() -> str:
    own = [field for field in summaries.summaries_schema() if field.name in summaries.DESCRIPTIONS]
    return _columns(own, summaries.DESCRIPTIONS)


def counts_columns() -> str:
    own = [field for field in answer_counts.counts_schema() if field.name in answer_counts.DESCRIPTIONS]
    return _columns(own, answer_counts.DESCRIPTIONS)


def rejects_columns() -> str:
    return _columns(
        arrow_schema(RejectedRow),
        {
            "reason": "one of the reasons below",
            "explanation": "the same as a sentence",
            "source": "the file",
            "place": "byte offset of the record in the decompressed file, row of a Parquet table, "
            "or −1 for the file itself",
            "index": "the report concerned inside a batch, or −1 for the whole record",
            "count": "reports concerned",
            "digest": "as the record says, or empty",
            "epoch": "as the record says",
            "missing": "of a `truncated` record, how many of its bytes are missing, where the format tells",
        },
    )


# --- docs/attributes.md

VISITORS = (3, 3, 8, 12, 37, 11)


def allocations() -> str:
    rows = []
    for allocation, name in (
        ("allomfree", None),
        ("sample", "l_osue"),
        ("sample", "l_grr"),
        ("sample", "loloha"),
        ("split", "l_osue"),
        ("split", "l_grr"),
        ("split", "loloha"),
    ):
        kind = allocate(allocation, name, VISITORS, Parameters(**LEVELS))
        error = [
            float(s.floor) / float(s.sampled) for s in (present(p.support) for p in part_estimators(kind))
        ]
        label = f"`{allocation}`" + (f", `{name}`" if name else "")
        spread = f"{min(error):.3g} .. {max(error):.3g}"
        cap_over_values = f"{kind.guarantee.cap_over_inputs:g}"
        rows.append([label, spread, str(8 * kind.device.payload_size), cap_over_values])
    return table(["allocation", "n·V*", "payload, bits sent", "cap over inputs"], rows)


def switches() -> str:
    rows = []
    for forever, first in ((1.0, 0.5), (2.0, 1.0), (2.0, 1.2), (4.0, 2.4)):
        last = []
        for calibration in Calibration:
            levels = Levels(epsilon_longitudinal=forever, epsilon_first=first)
            parameters = Parameters(**levels, calibration=calibration)
            sizes = range(2, 60)
            kind = allocate("allomfree", None, sizes, parameters)
            wins = [k for k, part in zip(sizes, kind.parts, strict=True) if part.NAME == "l_grr"]
            last.append(str(max(wins)))
        rows.append([f"{forever:g}", f"{first:g}", f"{3 * exp(first) + 2:.2f}", *last])
    return table(["ε∞", "ε1", "3·e^ε1 + 2", *(f"`{c.value}`" for c in Calibration)], rows)


# --- docs/means.md


def one_bit(**more: object) -> OneBit:
    """A bit about 0 .. 86400, the seconds of a day."""
    name = "one_bit_mean" if "epsilon" in more else "one_bit_rrpm"
    kind = protocol(name, 86401, Parameters(**more))  # type: ignore[arg-type]
    assert isinstance(kind, OneBit)
    return kind


def perturbation() -> str:
    rows = []
    for gamma in (0.0, 0.1, 0.2):
        first = one_bit(epsilon_longitudinal=1.0, gamma=gamma).guarantee.first_report
        rows.append([f"{gamma:g}", f"{first:.3f}", f"{bounded_sum_epsilon(first):.3f}"])
    return table(["γ, at ε∞ = 1", "ε', first report", "ε'', any number of counters"], rows)


def together() -> str:
    rows = []
    for counters in (2, 3, 10):
        cells = [str(counters)]
        for gamma in (0.0, 0.2):
            levels = Parameters(epsilon_longitudinal=1.0, gamma=gamma)
            kind = allocate("together", "one_bit_rrpm", (86401,) * counters, levels)
            guarantee = kind.guarantee
            assert isinstance(guarantee, CountersGuarantee)
            r = guarantee.single.first_ratio
            worst = log(r) + (counters - 1) * log(1 + (r - 1) / (counters - 1))
            cells += [f"{found:.3f}" for found in (worst, guarantee.bounded_sum_epsilon, guarantee.unbounded)]
        rows.append(cells)
    heads = [f"{head}, γ = {gamma}" for gamma in (0, 0.2) for head in ("worst case", "ε''", "t·ε'")]
    return table(["t, at ε∞ = 1", *heads], rows)


def means() -> str:
    rows, names = [], ("one_bit_mean", "laplace_mean", "piecewise_mean")
    for level in (0.5, 1.0, 2.0, 4.0, 8.0):
        kinds = (protocol(name, 86401, Parameters(epsilon=level)) for name in names)
        errors = [mean_error(PartEstimator(kind), 300_000) for kind in kinds]
        rows.append([f"{level:g}", *(f"{found:.0f}" for found in errors)])
    return table(["ε or ε∞", "one bit", *(f"`{name}`" for name in names[1:])], rows)


# --- docs/audit.md: which faults are seen


def audit_faults() -> str:
    rows = [
        [
            fault.what,
            "none" if fault.check is None else f"`{fault.check.value}`",
            f"not with {MEASURED[-1]:,}" if fault.draws is None else f"{fault.draws:,}",
        ]
        for fault in FAULTS
    ]
    return table(["fault", "check", "draws"], rows)


# --- docs/strings.md: which strings are found


def smallest() -> str:
    """The smallest share that is found, by devices, level and length."""
    rows = []
    for epsilon in (2.0, 4.0):
        for most in (8, 16):
            strings = Strings.of(most, ALPHABETS["lower"])
            kind = of_strings("olh", strings, Parameters(epsilon=epsilon))
            found = [smallest_found(kind, 10.0**power)[0] for power in (4, 5, 6)]
            shares = ["none" if one == inf else f"{100 * one:.2g} %" for one in found]
            rows.append([f"{epsilon:g}", str(most), *shares])
    return table(["ε", "symbols", "10,000 devices", "100,000", "1,000,000"], rows)


BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "docs/audit.md": {"audit-faults": audit_faults},
    "docs/tour.md": {
        "device": flow_device,
        "report": flow_report,
        "support": flow_support,
        "histogram": flow_histogram,
    },
    "docs/wire.md": wire.BLOCKS,
    "docs/protocols.md": {
        "comparison": comparison,
        "variants": variants,
    },
    "docs/means.md": {"perturbation": perturbation, "together": together, "means": means},
    "docs/attributes.md": {"allocations": allocations, "switches": switches},
    "docs/poisoning.md": {"leverage": leverages, "shares": moved_shares},
    "docs/privacy.md": {
        "loss": several_reports,
        "any-two": any_two_sequences,
        "few-reports": few_reports,
        "shuffled": shuffled,
    },
    "docs/strings.md": {"smallest": smallest},
    "docs/outputs.md": {
        "estimates": estimates_columns,
        "cumulative": cumulative_columns,
        "counts": counts_columns,
        "summaries": summaries_columns,
        "rejects": rejects_columns,
        "reasons": reasons,
    },
}


def written(page: Path) -> dict[str, str]:
    """The generated blocks of a page by name, as they stand in it."""
    return {
        found[1]: (found["text"] or found["table"] or "").rstrip("\n")
        for found in MARK.finditer(page.read_text("utf-8"))
    }


def rewrite() -> None:
    for name, blocks in BLOCKS.items():
        page = REPOSITORY / name
        text = page.read_text("utf-8")
        for block, compute in blocks.items():
            mark = f"<!-- generated: {block} -->\n"
            before, found, after = text.partition(mark)
            assert found, f"{name} has no place for {block}"
            new = compute()
            body = f"\n{new}\n" if new.startswith("|") else f"\n```text\n{new}\n```\n"
            old = present(re.match(r"\n*(?:```text\n(?:.*?\n)??```\n|(?:\|[^\n]*\n)+)?", after, re.DOTALL))
            text = before + mark + body + "\n" + after[old.end() :].lstrip("\n")
        page.write_text(text, "utf-8")


if __name__ == "__main__":
    rewrite()
