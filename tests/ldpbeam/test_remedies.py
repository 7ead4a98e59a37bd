"""What a message says helps: each situation is made, and its remedy carried out."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from ldpbeam.cli.main import cli
from ldpbeam.cli.shared.failures import outside_error
from ldpbeam.errors import LdpError

PLAIN = """\
name: a
domain: {labels: [x, y, z]}
protocol: grr
epsilon: 1.0
epoch: {length: 1h, count: 10}
min_reports: 1
"""
LEVELS = "l_oue\nepsilon_longitudinal: 1.0\nepsilon_first: 0.9"
RUN = "run --collection a.yaml --input sim/reports --output out"
SECOND = "sim/reports/epoch-000001.pb"


def call(line: str) -> str:
    """What a command prints, and its error as a person reads it."""
    ended = CliRunner().invoke(cli, line.split())
    error = ended.exception
    if error is not None and not isinstance(error, LdpError | SystemExit):
        error = outside_error(error) or error
    return f"{ended.output}{error or ''}"


def write(path: str, *changes: tuple[str, str]) -> None:
    content = PLAIN
    for old, new in changes:
        content = content.replace(old, new)
    Path(path).write_text(content)


def cut(pattern: str) -> None:
    """Damage the first file of a pattern; ``backup`` holds it as it was."""
    path = min(Path().glob(pattern))
    shutil.copy(path, "backup")
    path.write_bytes(path.read_bytes()[:-5])


def restore(pattern: str) -> None:
    shutil.copy("backup", min(Path().glob(pattern)))


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection, reports of three epochs, and the results of a run."""
    folder = tmp_path_factory.mktemp("done")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write("a.yaml")
        call(
            "simulate --collection a.yaml --population zipf:1.1 --devices 90 --epochs 3 --output sim --seed 1"
        )
        assert "270 = counted 270" in call(RUN)
    return folder


Step = Callable[[], object]
CASES: list[tuple[str, Step, str, Step, str, str]] = [
    # code, situation, command; remedy, command, what it prints then
    (
        "E-COLLECTION-FILE",
        lambda: Path("b.yaml").touch(),
        "check b.yaml",
        lambda: Path("b.yaml").unlink(),
        "init b.yaml --values 3 --devices 9000",
        "ldpbeam check b.yaml",
    ),
    (
        "E-COLLECTION-INFEASIBLE",
        lambda: write("b.yaml", ("grr\nepsilon: 1.0", LEVELS)),
        "check b.yaml",
        lambda: write("b.yaml", ("grr\nepsilon: 1.0", LEVELS.replace("oue", "osue"))),
        "check b.yaml",
        "a version 1",
    ),
    (
        "E-COLLECTION-VERSION",
        lambda: write("b.yaml", ("z]", "z, other]")),
        "check b.yaml --against a.yaml",
        lambda: write("b.yaml", ("z]", "z, other]"), ("name: a", "name: a\nversion: 2")),
        "check b.yaml --against a.yaml",
        "devices need the new collection",
    ),
    (
        "W-COLLECTION-LATENESS",
        lambda: None,
        "check a.yaml",
        lambda: write("a.yaml", ("min_", "allowed_lateness: 1h\nmin_")),
        "check a.yaml",
        "until 1h after the end",
    ),
    (
        "E-USAGE-RESULTS",
        lambda: cut("out/run.json"),
        "inspect out",
        lambda: call(RUN),
        "inspect out",
        "270 = counted 270",
    ),
    (
        "E-USAGE-RESULTS",
        lambda: cut("out/latest/*"),
        "export out",
        lambda: restore("out/latest/*"),
        "export out",
        '"a",1,',
    ),
    (
        "E-RUN-DAMAGED",
        lambda: cut("out/accounting/*"),
        "replay out/rejects",
        lambda: restore("out/accounting/*"),
        "replay out/rejects",
        "270 = counted 270",
    ),
    (
        "W-RUN-TRUNCATED",
        lambda: cut(SECOND),
        RUN,
        lambda: restore(SECOND),
        "replay out/rejects",
        "270 = counted 270",
    ),
    (
        "E-USAGE-INPUT",
        lambda: Path("sim/reports").rename("sim/_reports"),
        "run --collection a.yaml --input sim/_* --output new",
        lambda: None,
        "run --collection a.yaml --input sim/_reports --output new",
        "270 = counted 270",
    ),
    (
        "E-USAGE-STORE",
        lambda: None,
        "run --collection a.yaml --input file:///sim/reports --output new",
        lambda: None,
        RUN,
        "270 = counted 270",
    ),
    (
        "E-USAGE-OVERWRITE",
        lambda: write("b.yaml", ("name: a", "name: b")),
        RUN.replace("a.yaml", "b.yaml"),
        lambda: None,
        f"{RUN} --collection b.yaml",
        "270 = counted 270",
    ),
    (
        "E-USAGE-SUMS",
        lambda: write("b.yaml", ("z]", "z], ordered: true")),
        "export out --quantile 0.5",
        lambda: None,
        "export out --quantile 0.5 --collection b.yaml",
        '"a",1,',
    ),
    (
        "W-USAGE-ANEW",
        lambda: None,
        "export out --every 2 --drawn-anew 0.3",
        lambda: None,
        "export out --every 2 --drawn-anew 0..0.3",
        '"a",1,',
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[2]}")
def test_the_remedy_of_a_message_helps(
    case: tuple[str, Step, str, Step, str, str], done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, made, command, mended, then, said = case
    shutil.copytree(done, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    made()
    assert f"[{code}]" in call(command)
    mended()
    answer = call(then)
    assert said in answer
    assert f"[{code}]" not in answer
