"""`.ci/run` itself: what fails it, what a slow machine leaves out, and that it says so.

The suites take an hour; here `make` is a script that ends each of them at once, as the test wants it.
"""

import os
import shutil
import subprocess
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.waiting import PATIENCE

MAKE = """#!/bin/sh
echo "making: $*" >>made
case " $FAILING " in *" $1 "*) echo "FAILED a::test (call): wrong"; exit 2;; esac
case " $HANGING " in *" $1 "*) sleep 1000; exit 2;; esac
case " $WRONG_AND_HANGING " in *" $1 "*) echo "FAILED a::test (call): wrong"; sleep 1000; exit 2;; esac
echo "$1" >>ended
echo "======= 1 passed in 0.01s ======="
"""

# What a slow machine makes after the checks, one after the other.
IN_TURN = [
    *["prism", "examples", "schedules", "crash-collector", "crash-devices"],
    *["js", "pubsub", "browser", "flink"],
]
INTEGRATION = {"js", "prism", "examples", "browser", "pubsub", "flink"}
CRASHES = set(IN_TURN) - INTEGRATION


def run(folder: Path, slow: int | str = 1, **settings: str) -> tuple[int, str, list[str]]:
    """The exit code, what was printed, and what was asked of make."""
    (folder / ".ci").mkdir()
    shutil.copy(REPOSITORY / ".ci" / "run", folder / ".ci" / "run")
    for name, text in {"make": MAKE, "python": f"#!/bin/sh\necho {slow}\n"}.items():
        script = folder / ".venv" / "bin" / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(text)
        script.chmod(0o755)
    path = os.pathsep.join([str(folder / ".venv" / "bin"), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", ".ci/run"],
        cwd=folder,
        env={**os.environ, "PATH": path, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    made = [line.removeprefix("making: ") for line in (folder / "made").read_text().splitlines()]
    return done.returncode, done.stdout, made


def test_all_is_made_and_the_closing_line_of_the_checks_is_last(tmp_path: Path) -> None:
    code, out, made = run(tmp_path)
    assert code == 0, out
    assert (
        set(made) == {".venv java chromium", "check THOROUGH_WITHIN=25", "flink-next"} | INTEGRATION | CRASHES
    )
    assert len(made) == len(set(made))
    assert out.splitlines()[-1] == "======= 1 passed in 0.01s ======="
    assert "LEFT OUT" not in out
    assert "made:" not in out


def test_a_slow_machine_makes_all_but_the_next_flink(tmp_path: Path) -> None:
    code, out, made = run(tmp_path, slow=2)
    assert code == 0, out
    assert set(made) == {".venv java chromium", "check THOROUGH_WITHIN=0"} | INTEGRATION | CRASHES
    assert "A slow machine" in out


def test_each_suite_can_fail_it(tmp_path: Path) -> None:
    for target in sorted({"check", "flink-next"} | INTEGRATION | CRASHES):
        (folder := tmp_path / target).mkdir()
        code, out, _ = run(folder, FAILING=target)
        assert code != 0, (target, out)
        assert "FAILED a::test" in out


def test_each_lane_can_fail_it_on_a_slow_machine(tmp_path: Path) -> None:
    for target in ("check", "pubsub", "crash-devices", "flink"):  # one of each lane
        (folder := tmp_path / target).mkdir()
        code, out, _ = run(folder, slow=9, FAILING=target)
        assert code != 0, (target, out)
        assert "FAILED a::test" in out


def test_what_a_slow_machine_has_not_ended_in_time_is_left_out_and_named(tmp_path: Path) -> None:
    """What hangs, and all that was to come after it; nothing that had ended, however slow this machine is."""
    code, out, _ = run(tmp_path, slow=2, HANGING="js", CI_SECONDS="5")
    assert code == 0, out
    left = [line.split()[3] for line in out.splitlines() if line.startswith("LEFT OUT: make ")]
    ended = [target for target in (tmp_path / "ended").read_text().split() if target in IN_TURN]
    assert "js" in left
    assert ended + left == IN_TURN


def test_what_another_machine_has_not_ended_in_time_fails_it(tmp_path: Path) -> None:
    code, out, _ = run(tmp_path, slow=1, HANGING="flink", CI_SECONDS="2")
    assert code != 0, out
    assert "LEFT OUT: make flink had not ended" in out
    assert "LEFT OUT: make flink-next had not ended" in out


def test_a_failure_in_what_was_left_out_counts(tmp_path: Path) -> None:
    code, out, _ = run(tmp_path, slow=2, WRONG_AND_HANGING=IN_TURN[0], CI_SECONDS="2")
    assert code != 0, out


def test_a_machine_that_became_slow_is_one(tmp_path: Path) -> None:
    """It is measured again when a suite is late; here the second time of two gives another answer."""
    (tmp_path / "slow").write_text("1")
    code, out, _ = run(tmp_path, slow="$(cat slow; echo 4 >slow)", HANGING="flink", CI_SECONDS="2")
    assert code == 0, out
    assert "LEFT OUT: make flink had not ended" in out
    assert "A slow machine: no" not in out
