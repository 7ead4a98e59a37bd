"""``ldpbeam run`` is killed and run again: no reader is misled, and the result is as if nothing happened.

The default tests kill at one point per label; ``make nightly`` at 240 in three scenes: an
empty output directory, one with an older run's results, one with leftovers of a killed run.
"""

import os
import subprocess
import sys
import time
from functools import partial

import pytest

from tests.crash.child import (
    HOOKS,
    PLANTS,
    Hook,
    Point,
    Points,
    StaleHookError,
    final,
    install,
    labels,
    whole,
)
from tests.crash.harness import (
    CHILD,
    EMPTY,
    LEFT,
    OVER,
    SCENES,
    TALLY,
    Case,
    Scene,
    Site,
    Trial,
    at_once,
    choose,
    differences,
    durability_complaints,
    reader_complaints,
    spread,
    tree,
    try_again_and_again,
    try_all,
    try_one,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc and forks")

POINTS = 240
SHARES = {EMPTY: 0.6, OVER: 0.25, LEFT: 0.15}
LABELS = labels("run")


def chosen(site: Site, scene: Scene) -> list[Trial]:
    """The trials of a full run in a scene."""
    pairs = choose(site.points(scene), round(POINTS * SHARES[scene]))
    return [Trial(scene, point, moment) for point, moment in pairs]


def at(site: Site, scene: Scene, does: str, part: str, moment: str, plant: str | None = None) -> Trial:
    """The middle one of the points that do something to a file whose path begins so."""
    found = [p for p in site.points(scene) if p.does == does and final(p.path).startswith(part)]
    assert found, f"nothing does {does} to {part}; the points of a run: child.py list run ..."
    return Trial(scene, found[len(found) // 2], moment, plant)


# --- a sample, by default


@pytest.mark.thorough
def test_a_sample_of_points(site: Site) -> None:
    """One point of every label; of the writing ones, half of a file of estimates and of the record."""
    halves = {"write": "estimates/", "manifest": "run.json"}
    trials = []
    for i, label in enumerate(LABELS):
        points = [p for p in site.points(EMPTY) if p.label == label]
        assert points, f"no point of a run is called {label!r}: have its functions other names now?"
        if label in halves:
            trials.append(at(site, EMPTY, "write", halves[label], "half"))
        else:
            trials.append(Trial(EMPTY, points[len(points) // 2], ("before", "after")[i % 2]))
    assert try_all(site, trials) == []


@pytest.mark.thorough
def test_bytes_are_on_disk_before_names_are(site: Site) -> None:
    """A killed process does not lose what it wrote, a machine does: the order of calls tells."""
    points = site.points(EMPTY)
    assert durability_complaints(points) == []
    renamed = {final(p.path).removesuffix(".tmp") for p in points if p.does == "rename"}
    files = {name for name, content in site.reference.items() if content is not None}
    assert files <= renamed, "these came into being without a point; which function writes them?"


@pytest.mark.thorough
def test_a_file_written_under_its_final_name_is_noticed(site: Site) -> None:
    """The suite can fail: without a temporary name, half a file looks like a whole one."""
    found = try_one(site, at(site, EMPTY, "write", "estimates/", "half", "straight_to_the_final_name"))
    assert any("killed: estimates/" in line and "not readable" in line for line in found), found


# --- the full run, by make crash


@pytest.mark.slow
def test_there_are_200_points_over_all_labels(site: Site) -> None:
    trials = [trial for scene in SCENES for trial in chosen(site, scene)]
    assert len(trials) >= min(POINTS, 200)
    assert {trial.point.label for trial in trials} == set(LABELS)


@pytest.mark.slow
@pytest.mark.parametrize("label", LABELS)
def test_killed_at(site: Site, label: str, pytestconfig: pytest.Config) -> None:
    """All chosen points of a label, in every scene."""
    trials = [trial for scene in SCENES for trial in chosen(site, scene) if trial.point.label == label]
    begin = time.perf_counter()
    found = try_all(site, trials)
    tally = pytestconfig.stash.setdefault(TALLY, {})
    tally[label] = len(trials), time.perf_counter() - begin
    assert trials
    assert found == []


@pytest.mark.slow
def test_killed_three_times_in_a_row(site: Site) -> None:
    """What one killed run leaves is no obstacle to the next, wherever each of them was."""
    last = len(site.points(EMPTY)) - 1
    numbers = spread(range(last), 10)
    chains = [
        [(a, "after"), (b, "half" if i % 2 else "before"), (last - a, "before")]
        for i, (a, b) in enumerate(zip(numbers, numbers[3:] + numbers[:3], strict=True))
    ]
    # Half of something that is no write never comes: then the chain's second run dies before it.
    writes = {p.number for p in site.points(EMPTY) if "half" in p.moments}
    chains = [[(n, m if m != "half" or n in writes else "before") for n, m in chain] for chain in chains]
    assert at_once(site, [partial(try_again_and_again, site, chain) for chain in chains]) == []


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_watching_changes_nothing(site: Site, scene: Scene) -> None:
    """A run with hooks, not killed, gives the same; its points are the same every time."""
    output = site.fresh()
    scene.prepare(site, output)
    ended = site.server.run(site.case.command(output), output, watch=True)
    assert ended.how == site.case.exit_code
    assert ended.points == site.points(scene)
    assert differences(site.case, tree(output), site.reference) == []
    assert durability_complaints(ended.points) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "scene", "does", "part", "moment", "noticed"),
    [
        ("straight_to_the_final_name", EMPTY, "write", "rejects/", "half", "killed: rejects/"),
        # So far it does not come: the files are not where they are looked for before a record is written.
        ("straight_to_the_final_name", EMPTY, "write", "run.json", "half", "run again: run.json: missing"),
        ("temporaries_stay", EMPTY, "fsync", "estimates/", "before", "0.tmp: left over"),
        ("record_stays", OVER, "rename", "old-", "after", "killed: run.json is there, but"),
        ("record_first", EMPTY, "rename", "estimates/", "after", "killed: run.json: another"),
        ("old_results_stay", OVER, "write", "estimates/", "half", "run again: estimates/"),
    ],
)
def test_planted_faults_are_noticed(
    site: Site, plant: str, scene: Scene, does: str, part: str, moment: str, noticed: str
) -> None:
    trial = at(site, scene, does, part, moment, plant)
    if plant in ("record_stays", "old_results_stay"):  # the points are no longer the same ones
        output = site.fresh()
        scene.prepare(site, output)
        ended = site.server.run(site.case.command(output), output, watch=True, plant=plant)
        same = [p for p in ended.points if (p.does, p.path) == (does, trial.point.path)]
        trial = Trial(scene, same[0], moment, plant)
    found = try_one(site, trial)
    assert any(noticed in line for line in found), found


@pytest.mark.slow
def test_a_process_of_its_own_dies_at_the_same_points(site: Site) -> None:
    """Without the fork server: the launcher as a person calls it."""
    output = site.fresh()
    trial = at(site, EMPTY, "write", "estimates/", "half")
    environment = {**os.environ, "PYTHONHASHSEED": "0"}

    def launch(*arguments: str) -> tuple[int, list[str]]:
        command = [sys.executable, str(CHILD), *arguments, *site.case.command(output)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        return done.returncode, done.stderr.splitlines()

    code, told = launch("kill", f"{trial.point.number}:half")
    assert code == -9
    assert trial.point.path in told[-1]
    assert reader_complaints(site.case, tree(output), [site.reference]) == []
    code, told = launch("list")
    assert code == site.case.exit_code
    numbers = [int(line.split()[0]) for line in told if line.split()[0].isdigit()]
    assert len(numbers) >= 150
    assert numbers == list(range(len(numbers))), "\n".join(told)
    assert differences(site.case, tree(output), site.reference) == []


# --- the tools themselves


CASE = Case(("run",), 0)
RECORD = b'{\n "schema": "x",\n "timings": {\n  "total_seconds": %d\n },\n "files": []\n}\n'
DONE = {"estimates": None, "estimates/a.json": b'{"a": 1}', "rejects": None, "run.json": RECORD % 1}
OLDER = {
    **DONE,
    "estimates/a.json": b'{"a": 0}',
    "estimates/b.json": b"{}",
    "run.json": RECORD[:-3] % 1 + b"5}",
}


def test_a_reader_is_content_with_less_than_everything() -> None:
    for found in ({}, {"estimates": None}, {**DONE, "run.json": RECORD % 2}, DONE, OLDER):
        assert reader_complaints(CASE, found, [OLDER, DONE]) == []
    begun = {
        "estimates": None,
        "estimates/a.json.0a1b.tmp": b"{",
        "outcome.json": b"{}",
        "run.json.ff.tmp": b"",
    }
    assert reader_complaints(CASE, begun, [DONE]) == []
    mixed = {"estimates": None, "estimates/a.json": b'{"a": 1}', "estimates/b.json": b"{}"}
    assert reader_complaints(CASE, mixed, [OLDER, DONE]) == []


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ({"estimates": None, "estimates/a.json": b'{"a"'}, "estimates/a.json: 4 bytes of 8"),
        ({"estimates": None, "estimates/a.json": b'{"a": 0}'}, "estimates/a.json: another content"),
        ({"estimates/c.json": b"{}"}, "estimates/c.json: no run leaves such a file"),
        ({"x.0a.tmp": b"{}"}, "x.0a.tmp: no run leaves such a file"),
        ({"outcome.json": b"{"}, "outcome.json: not whole"),
        ({**DONE, "run.json": b"{"}, "run.json: not whole"),
        ({**DONE, "run.json": b"{}"}, "run.json: another"),
        ({"run.json": RECORD % 1}, "run.json is there, but estimates is missing or another"),
    ],
)
def test_a_reader_complains(found: dict[str, bytes | None], complaint: str) -> None:
    assert complaint in reader_complaints(CASE, found, [DONE])


def test_an_older_record_vouches_for_older_files() -> None:
    found = {**OLDER, "estimates/a.json": DONE["estimates/a.json"]}
    expected = ["run.json is there, but estimates/a.json is missing or another"]
    assert reader_complaints(CASE, found, [OLDER, DONE]) == expected


def test_differences_are_byte_for_byte_but_for_the_timings() -> None:
    assert differences(CASE, {**DONE, "run.json": RECORD % 7}, DONE) == []
    assert differences(CASE, {**DONE, "run.json": RECORD.replace(b"[]", b"[1]") % 1}, DONE)
    assert differences(CASE, {**DONE, "a.0f.tmp": b""}, DONE) == ["a.0f.tmp: left over"]
    assert differences(CASE, {k: v for k, v in DONE.items() if k != "rejects"}, DONE) == ["rejects: missing"]


@pytest.mark.parametrize(
    ("skipped", "complaint"),
    [
        (1, "e/a: renamed before it was forced to disk"),
        (3, "e/a: its folder is not forced to disk"),
        (7, "run.json: its folder is never forced to disk"),
        (None, None),
    ],
)
def test_a_missing_fsync_is_noticed(skipped: int | None, complaint: str | None) -> None:
    calls = [
        ("write", "write", "e/a.tmp"), ("fsync", "fsync", "e/a.tmp"), ("rename", "rename", "e/a"),
        ("sync-folder", "fsync", "e"), ("manifest", "write", "run.json.tmp"),
        ("manifest", "fsync", "run.json.tmp"), ("manifest", "rename", "run.json"),
        ("sync-folder", "fsync", "."),
    ]  # fmt: skip
    points = [Point(i, *call, ("before", "after")) for i, call in enumerate(calls) if i != skipped]
    assert durability_complaints(points)[:1] == ([complaint] if complaint else [])


def test_choosing_takes_from_every_label() -> None:
    points = [Point(i, "many", "x", "", ("before", "after")) for i in range(90)]
    points += [Point(90 + i, "few", "x", "", ("before",)) for i in range(3)]
    picked = choose(points, 20)
    assert [sum(p.label == label for p, _ in picked) for label in ("many", "few")] == [17, 3]
    assert len(set(picked)) == 20
    assert picked[0][0].number == 0
    assert choose(points, 1000) == choose(points, 183)


def test_a_hook_without_a_function_says_so() -> None:
    hook = Hook("count", "ldpbeam.errors:LdpError.tally", "x", whole)
    with pytest.raises(StaleHookError, match=r"LdpError\.tally as 'count'; give it the new name"):
        install([hook], Points("."))


def test_tables_are_whole() -> None:
    assert set(HOOKS) == {"run"}
    assert sum(SHARES.values()) == pytest.approx(1)
    assert all(plant.__doc__ for plant in PLANTS.values())
