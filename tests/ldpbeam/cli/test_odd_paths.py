"""Every command takes inputs and outputs by their paths, whatever signs are in them, and no other one's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ldpbeam.cli.main import cli

YAML = """\
name: odd
version: 1
domain: {labels: [red, green, blue, none of these], other: none of these}
protocol: loloha
epsilon_longitudinal: 4.0
epsilon_first: 2.0
epoch: {length: 1d, origin: 2026-01-01T00:00:00Z}
allowed_lateness: 1d
"""
DECOYS = {"a[1]": "a1", "b*": "bc", "c?": "cd", "we[i]rd *?{x} #~%41\né": "wei"}
"""Names, and what each would match if it were a pattern."""


def command(*given: object, ends: int = 0) -> str:
    """Output of a command that ends as expected."""
    done = CliRunner().invoke(cli, list(map(str, given)))
    assert done.exit_code == ends, (given, done.output, done.exception)
    return done.output


def accounting(output: Path) -> dict[str, int]:
    total: dict[str, int] = json.loads((output / "run.json").read_text())["accounting"]["total"]
    return total


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "relative"),
    [("a[1]", False), ("a[1]", True), *zip(list(DECOYS)[1:], [True, False, True], strict=True)],
)
def test_all_commands_take_the_path_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, relative: bool
) -> None:
    """Beside each folder lies another that it would match as a pattern: it is neither read nor changed."""
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(YAML)
    base = Path() if relative else tmp_path
    for part in ("in", "out", "live"):
        decoy = tmp_path / part / DECOYS[name]
        (decoy / "accounting").mkdir(parents=True)
        (decoy / "junk.pb").write_bytes(b"\x03abc")
        (decoy / "accounting" / "other-unknown.json").write_text("junk")
    sent, out, live = (base / part / name for part in ("in", "out", "live"))
    population = ("--collection", "c.yaml", "--population", "zipf:1", "--devices", 200, "--epochs", 2)
    command("simulate", *population, "--output", sent, "--truth", "--seed", 7)
    for given in (sent, sent / "reports", sent / "reports" / "*"):
        command("run", "--collection", "c.yaml", "--input", given, "--output", out)
        assert accounting(out)["counted"] == 400
    assert "400 counted" not in command("inspect", sent)
    assert "400" in command("inspect", out)
    command("inspect", sent / "reports")
    command("report", out, "--truth", sent / "truth.parquet", "--page", base / "out" / f"{name}.html")
    command("export", out, "--output", base / "out" / f"{name}.csv")
    assert (tmp_path / "out" / f"{name}.csv").is_file()
    command("compare", out, "--output", base / "out" / f"{name}.parquet")
    command("compare", out, out)
    command("explain", "c.yaml")
    command("replay", out / "rejects")
    # Its reports are of an epoch long ago: they are late, and booked once however often the stream starts.
    watched = ("--watch", sent / "reports", "--output", live, "--stop-when-idle", "1s", "--land-every", "1s")
    for _ in range(2):
        command("run", "--collection", "c.yaml", *watched, ends=5)
        assert (accounting(live)["read"], accounting(live)["late"]) == (400, 400)
    for part in ("in", "out", "live"):
        decoy = tmp_path / part / DECOYS[name]
        assert sorted(path.name for path in decoy.rglob("*")) == [
            "accounting",
            "junk.pb",
            "other-unknown.json",
        ]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["de[mo]", "d*"])
def test_a_demonstration_takes_its_folder_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    command("demo", "--output", name, "--quiet")
    assert accounting(tmp_path / name / "output")["counted"] > 0


@pytest.mark.thorough
def test_a_file_of_any_name_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is a pattern, hidden or unfinished by its name."""
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(YAML)
    population = ("--collection", "c.yaml", "--population", "zipf:1", "--devices", 50, "--epochs", 1)
    command("simulate", *population, "--output", "sim")
    (written,) = Path("sim/reports").iterdir()
    given: list[object] = []
    for name in ("[x].pb", "*.pb", "?", "**", ".x", "_x", "x.tmp", "x~", "#x#", "-x", "a b\nc", "{a,b}.pb"):
        path = Path("in", name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(written.read_bytes())
        given += ["--input", path]
    command("run", "--collection", "c.yaml", *given, "--output", "out")
    found = accounting(Path("out"))
    assert (found["read"], found["counted"], found["duplicate"]) == (600, 50, 550)
    record = json.loads(Path("out", "run.json").read_text())
    assert len(record["inputs"]) == 12, "each once: a name that was a pattern would bring others along"
