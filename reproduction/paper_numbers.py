"""Numbers as the papers print them, copied from their tables; nothing here is computed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Printed:
    """A number as it stands in a table."""

    text: str

    @property
    def value(self) -> float:
        return float(self.text)

    @property
    def unit(self) -> float:
        """A unit of the last printed digit."""
        mantissa, _, exponent = self.text.partition("e")
        return float(10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])))

    def agrees(self, measured: float) -> bool:
        """Whether a number gives what is printed when it is rounded there, or cut off: tables do both."""
        off = (measured - self.value) / self.unit
        return abs(off) <= 0.5 + 1e-9 or 0 <= off < 1


def _lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


ALLOMFREE_TABLE_1_COLUMNS = (
    ("l_grr", 2),
    ("l_grr", 32),
    ("l_grr", 1024),
    ("l_osue", 2),
    ("l_sue", 2),
    ("l_soue", 2),
    ("l_oue", 2),
)
"""Protocol and k of each column; the variance of unary encoding does not depend on k."""

ALLOMFREE_TABLE_1 = [
    (float(row[0]), float(row[1]), float(row[2]), [Printed(text) for text in row[3:]])
    for row in _lines(
        """
0.6 0.5 0.30 0.001103 0.980969 26706 0.004411 0.004436 0.005306 0.005549
0.6 1.0 0.60 0.000270 0.125036 3153 0.001078 0.001103 0.001234 0.001347
0.6 2.0 1.20 0.000062 0.006327 117 0.000247 0.000270 0.000264 0.000310
0.6 4.0 2.40 0.000011 0.000078 0.25903 0.000044 0.000062 0.000045 0.000057
0.5 0.5 0.25 0.001592 2.088372 60218 0.006367 0.006392 0.007336 0.007611
0.5 1.0 0.50 0.000392 0.268074 7198 0.001567 0.001592 0.001740 0.001872
0.5 2.0 1.00 0.000092 0.013926 281 0.000368 0.000392 0.000389 0.000447
0.5 4.0 2.00 0.000018 0.000188 0.74088 0.000072 0.000092 0.000073 0.000092
0.4 0.5 0.20 0.002492 4.530779 135874 0.009967 0.009992 0.011012 0.011324
0.4 1.0 0.40 0.000617 0.586823 16443 0.002467 0.002492 0.002658 0.002812
0.4 2.0 0.80 0.000148 0.031552 673 0.000593 0.000617 0.000617 0.000690
0.4 4.0 1.60 0.000032 0.000484 2.12772 0.000127 0.000148 0.000128 0.000156
0.3 0.5 0.15 0.004436 10 329836 0.017744 0.017769 0.018863 0.019214
0.3 1.0 0.30 0.001103 1.398568 40412 0.004411 0.004436 0.004620 0.004799
0.3 1.0 0.60 0.000270 0.078202 1737 0.001078 0.001103 0.001106 0.001198
0.3 2.0 1.20 0.000062 0.001389 6 0.000247 0.000270 0.000248 0.000291
0.2 0.5 0.10 0.009992 30 972656 0.039967 0.039992 0.041148 0.041536
0.2 1.0 0.20 0.002492 4.080052 120651 0.009967 0.009992 0.010190 0.010394
0.2 2.0 0.40 0.000617 0.237925 5443 0.002467 0.002492 0.002498 0.002610
0.2 4.0 0.80 0.000148 0.004939 24 0.000593 0.000617 0.000595 0.000659
0.1 0.5 0.05 0.039992 154 4941829 0.159967 0.159992 0.161191 0.161608
0.1 1.0 0.10 0.009992 20 620584 0.039967 0.039992 0.040201 0.040424
0.1 2.0 0.20 0.002492 1.255550 29356 0.009967 0.009992 0.010000 0.010130
0.1 4.0 0.40 0.000617 0.030494 156 0.002467 0.002492 0.002469 0.002560
"""
    )
]
"""Rows of Table 1 (n = 10,000): α, ε∞ and ε1 as printed, and the printed variances."""

ALLOMFREE_TABLE_1_MISLABELLED = {(0.3, 1.0, 0.60): (2.0, 0.60), (0.3, 2.0, 1.20): (4.0, 1.20)}
"""Rows whose printed levels are not those of their numbers: α, ε∞, ε1 as printed, and the right (ε∞, ε1)."""

ALLOMFREE_TABLE_2_COLUMNS = (("grr", 2), ("grr", 32), ("grr", 1024), ("oue", 2), ("sue", 2))

ALLOMFREE_TABLE_2 = [
    (float(row[0]), [Printed(text) for text in row[1:]])
    for row in _lines(
        """
0.5 0.000392 0.007520 0.243240 0.001567 0.001592
1.0 0.000092 0.001108 0.034707 0.000368 0.000392
2.0 0.000018 0.000092 0.002522 0.000072 0.000092
4.0 0.000002 0.000003 0.000037 0.000008 0.000018
"""
    )
]
"""Rows of Table 2 (n = 10,000): ε and the printed variances."""

_GAINS = {
    0.3: """
0.5 13.51 20.63 19.03 27.73 3.03 5.43 7.84 9.48
1.0 12.36 17.75 12.77 20.44 1.01 11.57 9.21 14.08
1.5 19.95 25.86 8.47 18.01 4.13 11.55 5.82 12.92
2.0 17.18 33.24 4.11 17.16 13.22 23.44 10.06 20.41
2.5 20.70 35.40 11.93 22.54 10.41 22.25 12.77 23.15
3.0 28.69 42.98 8.35 28.22 13.07 21.56 17.07 26.21
3.5 36.19 54.02 18.97 32.02 14.78 29.10 22.02 30.96
4.0 41.24 57.16 19.81 34.25 20.38 29.64 24.99 35.60
""",
    0.6: """
0.5 17.82 38.84 10.42 27.46 6.41 24.79 5.65 21.61
1.0 14.99 38.97 9.83 25.14 2.97 23.32 9.79 25.46
1.5 15.88 41.05 12.90 28.59 16.00 30.52 11.88 28.05
2.0 27.52 54.69 12.95 33.78 14.81 35.65 18.45 32.31
2.5 39.59 60.96 23.28 38.50 17.71 35.34 24.89 39.11
3.0 40.64 65.32 28.59 47.95 27.26 40.97 36.12 44.48
3.5 44.39 68.73 34.85 50.00 33.69 50.94 40.01 48.18
4.0 42.24 71.13 45.26 58.33 41.83 59.47 45.85 54.44
""",
}

ALLOMFREE_GAINS: dict[tuple[float, str, float, str], float] = {
    (alpha, data, float(row[0]), over): float(row[1 + 2 * i + j])
    for alpha, text in _GAINS.items()
    for row in _lines(text)
    for i, data in enumerate(("nursery", "adult", "msfimu", "census_income"))
    for j, over in enumerate(("l_sue", "l_oue"))
}
"""Tables 3 (α = 0.3) and 4 (α = 0.6): per cent by which ALLOMFREE lowers the MSE of another protocol."""

LOLOHA_FIG_1 = {
    0.4: (2, 2, 2, 2, 3, 3, 4, 5, 6, 8),
    0.5: (2, 2, 2, 3, 3, 4, 5, 7, 9, 11),
    0.6: (2, 2, 3, 3, 4, 5, 7, 9, 12, 17),
}
"""Optimal g by Eq. (6) at ε∞ = 0.5, 1, …, 5: its values, which the figure draws as points."""

LOLOHA_TABLE_2 = {
    (data, d): [float(row[column]) for row in _rows]
    for _rows in [
        _lines(
            """
0.5 0 0 0.0048 0 100 100 100 100
1.0 0 0 0.0044 0 100 100 100 100
1.5 0 0 0.0048 0 100 100 100 100
2.0 0 0 0.0039 0 100 100 100 100
2.5 0 0 0.0024 0 100 100 100 100
3.0 0 0 0.0024 0 100 100 100 100
3.5 0 0 0.0024 0 100 100 100 100
4.0 0 0 0.0019 0 100 100 100 100
4.5 0 0 0.0010 0 100 100 100 100
5.0 0 0 0.0010 0 100 99.99 100 100
"""
        )
    ]
    for column, (data, d) in enumerate(
        [(data, d) for d in ("1", "b") for data in ("syn", "adult", "db_mt", "db_de")], 1
    )
}
"""Per cent of devices all of whose changes of bucket showed, at ε∞ = 0.5, 1, …, 5."""

LOLOHA_DISTINCT = {"syn": 29.5, "adult": 34.6, "db_mt": 52.0, "db_de": 48.4}
"""Slope of the lines of RAPPOR, L-OSUE and L-GRR in Fig. 4: mean number of distinct values of a device."""

CONSISTENCY_PROTOCOLS = ("l_grr", "l_sue", "l_oue", "l_osue", "ololoha", "biloloha")

CONSISTENCY_TABLE_2: dict[str, dict[str, list[Printed]]] = {
    data: {row[0]: [Printed(text) for text in row[1:]] for row in _lines(text)}
    for data, text in {
        "geolife": """
none 9.1e4 0.0265 0.0294 0.0248 0.0277 0.0316
base_pos 8.51e4 0.013 0.0155 0.0128 0.0141 0.0159
base_cut 8.51e4 0.0016 0.0028 0.0015 0.0018 0.0028
norm 9.1e4 0.0264 0.0293 0.0248 0.0277 0.0316
norm_mul 2.5e-05 2.2e-05 2.2e-05 2.19e-05 2.2e-05 2.2e-05
norm_cut 4.93e-04 2.52e-04 2.57e-04 2.46e-04 2.52e-04 2.55e-04
norm_sub 1.84e-04 6.73e-05 7.31e-05 6.68e-05 6.75e-05 6.83e-05
mle_apx 4.87e-05 9.85e-05 6.17e-05 5.98e-05 0.0001 0.0001
power 0.999 0.999 0.999 0.999 0.999 0.999
power_ns 2.17e-05 2.17e-05 2.17e-05 2.17e-05 2.17e-05 2.17e-05
""",
        "adult": """
none 0.0138 0.0035 0.0035 0.0034 0.0035 0.0035
base_pos 0.0082 0.0034 0.0034 0.0034 0.0034 0.0034
base_cut 0.0034 0.0036 0.0036 0.0036 0.0036 0.0036
norm 0.0138 0.0035 0.0035 0.0034 0.0035 0.0035
norm_mul 7.27e-04 0.0026 0.0026 0.0027 0.0026 0.0026
norm_cut 0.0047 0.0034 0.0034 0.0034 0.0034 0.0034
norm_sub 0.0030 0.0034 0.0034 0.0034 0.0034 0.0033
mle_apx 0.0031 0.0099 0.0144 0.0144 0.0072 0.0072
power 0.968 0.968 0.968 0.968 0.968 0.968
power_ns 1.59e-04 1.59e-04 1.59e-04 1.59e-04 1.59e-04 1.59e-04
""",
        "loan": """
none 0.0037 2.35e-04 2.38e-04 2.35e-04 2.36e-04 2.38e-04
base_pos 0.002 2.31e-04 2.33e-04 2.31e-04 2.32e-04 2.33e-04
base_cut 0.0015 0.0012 0.0012 0.0012 0.0012 0.0012
norm 0.0037 2.35e-04 2.38e-04 2.38e-04 2.36e-04 2.38e-04
norm_mul 9.64e-04 1.65e-04 1.65e-04 1.66e-04 1.63e-04 1.62e-04
norm_cut 9.15e-04 2.26e-04 2.27e-04 2.26e-04 2.25e-04 2.27e-04
norm_sub 6.82e-04 2.29e-04 2.3e-04 2.29e-04 2.29e-04 2.3e-04
mle_apx 8.65e-04 0.0015 0.0022 0.0022 9.93e-04 6.4e-04
power 0.981 0.981 0.981 0.981 0.981 0.981
power_ns 0.0018 0.0018 0.0018 0.0018 0.0018 0.0018
""",
        "bfive": """
none 2.43e-05 1.83e-05 2.38e-05 1.81e-05 1.97e-05 2.18e-05
base_pos 2.17e-05 1.65e-05 2.12e-05 1.58e-05 1.69e-05 1.86e-05
base_cut 0.032 0.032 0.032 0.032 0.032 0.032
norm 2.43e-05 1.62e-05 2.05e-05 1.54e-05 1.72e-05 1.9e-05
norm_mul 2.13e-05 1.54e-05 1.9e-05 1.42e-05 1.56e-05 1.68e-05
norm_cut 2.14e-05 1.61e-05 1.98e-05 1.51e-05 1.66e-05 1.84e-05
norm_sub 2.12e-05 1.54e-05 1.94e-05 1.43e-05 1.53e-05 1.69e-05
mle_apx 6.88e-04 8.33e-04 0.001 0.001 7.59e-04 3.31e-04
power 0.747 0.747 0.747 0.747 0.747 0.747
power_ns 0.012 0.012 0.012 0.012 0.012 0.012
""",
    }.items()
}
"""MSE at ε∞ = 2.5, ε1 = 1 by data set, method and protocol (in the order of CONSISTENCY_PROTOCOLS)."""
