"""`.ci/run` itself: what fails it, what a slow machine leaves out, and that it says so.

The suites take an hour; here `make` is a script that ends each of them at once, as the test wants it.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.environment import ENVIRONMENT
from tests.waiting import PATIENCE, poll

MAKE = """#!/bin/sh
echo "making: $*" >>made
echo "$1 $(nice) $SCHEDULES_COUNT $COLLECTOR_POINTS" >>found
case " $FAILING " in *" $1 "*) echo "FAILED a::test (call): wrong"; exit 2;; esac
case " $HANGING " in *" $1 "*) sleep 1000; exit 2;; esac
case " $WRONG_AND_HANGING " in *" $1 "*) echo "FAILED a::test (call): wrong"; sleep 1000; exit 2;; esac
echo "$1" >>ended
echo "======= 1 passed in 0.01s ======="
"""

FIRST = ".venv java chromium compiler"
"""What several suites need, and would install side by side."""
# What a slow machine makes after the checks, one after the other.
IN_TURN = [
    *["prism", "examples", "schedules", "crash-collector", "crash-devices"],
    *["js", "pubsub", "browser", "docs", "notebooks", "flink"],
]
INTEGRATION = {"js", "prism", "examples", "browser", "docs", "notebooks", "pubsub", "flink"}
CRASHES = set(IN_TURN) - INTEGRATION


@dataclass(frozen=True)
class Asked:
    """A run: how slow the machine says it is, and what else is set for it."""

    slow: int | str = 1
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """How a run of `.ci/run` has ended.

    Attributes:
        code: the exit code.
        out: what was printed.
        made: what was asked of make.
        ended: the suites that came to their end.
        found: for each suite, its niceness, and how many schedules and kills it was told to have.
    """

    code: int
    out: str
    made: list[str]
    ended: list[str]
    found: dict[str, list[int]]


ALL = {"check", "flink-next", "newest"} | INTEGRATION | CRASHES
LANES = ("check", "pubsub", "crash-devices", "flink")  # one suite of each
RUNS = {
    # Those that are to run into their limit last longest and come first.
    "a failure hangs": Asked(2, {"WRONG_AND_HANGING": IN_TURN[0], "CI_SECONDS": "2"}),
    "js hangs": Asked(2, {"HANGING": "js", "CI_SECONDS": "2"}),
    "flink hangs": Asked(1, {"HANGING": "flink", "CI_SECONDS": "2"}),
    "became slow": Asked("$(cat slow; echo 4 >slow)", {"HANGING": "flink", "CI_SECONDS": "2"}),
    "all": Asked(),
    "all, slow": Asked(2),
    **{f"{target} fails": Asked(1, {"FAILING": target}) for target in sorted(ALL)},
    **{f"{target} fails, slow": Asked(9, {"FAILING": target}) for target in LANES},
}


def run(folder: Path, asked: Asked) -> Ended:
    (folder / ".ci").mkdir()
    shutil.copy(REPOSITORY / ".ci" / "run", folder / ".ci" / "run")
    for name, text in {"make": MAKE, "python": f"#!/bin/sh\necho {asked.slow}\n"}.items():
        script = folder / ".venv" / "bin" / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(text)
        script.chmod(0o755)
    (folder / "slow").write_text("1")
    path = os.pathsep.join([str(folder / ".venv" / "bin"), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", ".ci/run"],
        cwd=folder,
        env={**ENVIRONMENT, "PATH": path, **asked.settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    made = [line.removeprefix("making: ") for line in (folder / "made").read_text().splitlines()]
    ended = folder / "ended"
    found = [line.split() for line in (folder / "found").read_text().splitlines()]
    return Ended(
        done.returncode,
        done.stdout,
        made,
        ended.read_text().split() if ended.exists() else [],
        {suite: [int(word) for word in words] for suite, *words in found},
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Future[Ended]]]:
    """All runs, side by side: each of them waits for seconds and computes next to nothing."""
    started: dict[str, Future[Ended]] = {}
    with ThreadPoolExecutor(12) as pool:
        for name, asked in RUNS.items():
            folder = tmp_path_factory.mktemp("run")
            started[name] = pool.submit(run, folder, asked)
            if "WRONG_AND_HANGING" in asked.settings:  # this one must have failed before its limit
                poll(partial(failed, started[name], folder))
        yield started


def failed(running: Future[Ended], folder: Path) -> bool:
    """Whether the first suite after the checks is being made, which says at once that a test has failed."""
    made = folder / "made"
    return running.done() or (made.exists() and f"making: {IN_TURN[0]}\n" in made.read_text())


Runs = Mapping[str, Future[Ended]]


def test_all_is_made_and_the_closing_line_of_the_checks_is_last(runs: Runs) -> None:
    found = runs["all"].result()
    assert found.code == 0, found.out
    made = {each.partition(" LATER=")[0] for each in found.made}
    assert made == {FIRST, "check THOROUGH_WITHIN=22", *ALL - {"check"}}
    assert len(found.made) == len(made)
    assert found.out.splitlines()[-1] == "======= 1 passed in 0.01s ======="
    assert "LEFT OUT" not in found.out
    assert "made:" not in found.out
    closing = found.out.partition("The time of each target")[2]
    assert set(re.findall(r"^time of make (\S+): \d+ s; CPU \d+ s", closing, re.MULTILINE)) == ALL


def test_what_the_checks_leave_out_is_run_whole_by_another_suite(runs: Runs) -> None:
    """By a target that has the same file in its recipe, and all of its tests."""
    made = runs["all"].result().made
    (check,) = [each for each in made if each.startswith("check")]
    later = check.partition(" LATER=")[2].split()
    assert len(later) == 5
    makefiles = "".join(
        (REPOSITORY / f"{name}.mk").read_text("utf-8") for name in ("crash", "collector", "schedules")
    )
    recipes = {
        target: recipe
        for target, recipe in re.findall(r"^([a-z-]+): [^\n]*\n((?:\t[^\n]*\n)+)", makefiles, re.MULTILINE)
        if target in set(made) & CRASHES
    }
    assert set(recipes) == CRASHES
    for place in later:
        file, _, test = place.partition("::")
        text = (REPOSITORY / file).read_text("utf-8") if test else ""
        assert (REPOSITORY / file).exists()
        whole = [
            recipe
            for recipe in recipes.values()
            if re.search(rf"\s{re.escape(file)}\s", recipe) and "--thorough" in recipe
        ]
        assert whole, f"no other suite runs {file}"
        if test:
            assert f"def {test}(" in text
            assert "-k never_lost" in whole[0] and "never_lost" in test
        else:
            assert " -k " not in whole[0]


def test_the_checks_take_the_time_that_the_suites_leave(runs: Runs) -> None:
    niceness = {suite: words[0] for suite, words in runs["all"].result().found.items()}
    checks = niceness.pop("check")
    del niceness[FIRST.split(maxsplit=1)[0]]
    assert set(niceness) == ALL - {"check"}
    assert max(niceness.values()) < checks


def test_a_slow_machine_has_fewer_schedules_and_kills(runs: Runs) -> None:
    for suite in ("schedules", "crash-collector"):
        few, many = runs["all, slow"].result().found[suite][1:], runs["all"].result().found[suite][1:]
        assert len(few) == len(many) == 2
        assert all(0 < less < more for less, more in zip(few, many, strict=True))


def test_a_slow_machine_makes_all_but_the_next_flink_and_python(runs: Runs) -> None:
    found = runs["all, slow"].result()
    assert found.code == 0, found.out
    assert set(found.made) == {FIRST, "check THOROUGH_WITHIN=0"} | INTEGRATION | CRASHES
    assert "A slow machine" in found.out


@pytest.mark.parametrize("target", sorted(ALL))
def test_each_suite_can_fail_it(runs: Runs, target: str) -> None:
    found = runs[f"{target} fails"].result()
    assert found.code != 0, found.out
    assert "FAILED a::test" in found.out


def test_what_the_checks_leave_to_the_devices_crashes_runs_whatever_flink_does(runs: Runs) -> None:
    found = runs["flink fails"].result()
    assert {"crash-devices", "check", "schedules", "crash-collector"} <= set(found.ended)


@pytest.mark.parametrize("target", LANES)
def test_each_lane_can_fail_it_on_a_slow_machine(runs: Runs, target: str) -> None:
    found = runs[f"{target} fails, slow"].result()
    assert found.code != 0, found.out
    assert "FAILED a::test" in found.out


def test_what_a_slow_machine_has_not_ended_in_time_is_left_out_and_named(runs: Runs) -> None:
    """What hangs, and all that was to come after it; nothing that had ended, however slow this machine is."""
    found = runs["js hangs"].result()
    assert found.code == 0, found.out
    left = [line.split()[3] for line in found.out.splitlines() if line.startswith("LEFT OUT: make ")]
    ended = [target for target in found.ended if target in IN_TURN]
    assert "js" in left
    assert ended + left == IN_TURN


def test_what_another_machine_has_not_ended_in_time_fails_it(runs: Runs) -> None:
    found = runs["flink hangs"].result()
    assert found.code != 0, found.out
    assert "LEFT OUT: make flink had not ended" in found.out
    assert "LEFT OUT: make flink-next had not ended" in found.out


def test_a_failure_in_what_was_left_out_counts(runs: Runs) -> None:
    found = runs["a failure hangs"].result()
    assert found.code != 0, found.out


def test_a_machine_that_became_slow_is_one(runs: Runs) -> None:
    """It is measured again when a suite is late; here the second time of two gives another answer."""
    found = runs["became slow"].result()
    assert found.code == 0, found.out
    assert "LEFT OUT: make flink had not ended" in found.out
    assert "A slow machine: no" not in found.out
