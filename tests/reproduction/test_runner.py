"""Cells are kept one by one, runs go on where they ended, and a second run is the same."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from reproduction.__main__ import reproduce
from reproduction.paper import Settings, mean
from reproduction.results import write, write_page
from reproduction.runner import Outcome, run
from tests.conftest import REPOSITORY
from tests.waiting import poll, slowness

NAME = "loloha:table2:syn"


def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path, seed=3, runs=1, devices=40, epochs=2)


def only(outcomes: Iterator[Outcome]) -> Outcome:
    (found,) = outcomes
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.thorough
def test_a_second_run_computes_nothing_and_another_folder_has_the_same_bytes(tmp_path: Path) -> None:
    folders = tmp_path / "one", tmp_path / "two"
    for folder in folders:
        found, drawn = run([NAME, "loloha:fig4:syn"], settings(tmp_path), folder)
        assert (found.computed, found.kept) == (10, 0)
        for outcome in (found, drawn):
            write(folder, settings(tmp_path), outcome)
        write_page(folder)
    assert (folders[0] / "figures" / "loloha-fig4-syn.svg").is_file()
    assert contents(folders[0]) == contents(folders[1])
    again = only(run([NAME], settings(tmp_path), folders[0]))
    assert (again.computed, again.kept) == (0, 10)
    assert again.rows == found.rows


def test_an_interrupted_run_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    seen: list[int] = []

    class Stop(Exception):  # noqa: N818
        pass

    def progress(done: int, total: int) -> None:
        seen.append(done)
        if done == 5:
            raise Stop

    with pytest.raises(Stop):
        only(run([NAME], settings(tmp_path), tmp_path / "out", progress=progress))
    assert seen == [0, 1, 2, 3, 4, 5]
    cells = sorted((tmp_path / "out" / "cells").rglob("*.json"))
    assert len(cells) == 5
    cells[0].write_text(cells[0].read_text()[:-20])  # torn, as by a file system that lost its end
    rest = only(run([NAME], settings(tmp_path), tmp_path / "out"))
    assert (rest.computed, rest.kept) == (6, 4)
    assert rest.rows == only(run([NAME], settings(tmp_path), tmp_path / "fresh")).rows


def test_a_cell_belongs_to_its_seed_and_its_data(tmp_path: Path) -> None:
    header = "a,b\n"
    table = tmp_path / "db_de.csv"
    table.write_text(header + "1,2\n2,2\n3,1\n" * 5)
    all_of_it = Settings(data=tmp_path, seed=3, runs=1)
    first = only(run(["loloha:fig4:db_de"], all_of_it, tmp_path / "out"))
    assert first.computed == 1
    assert mean(first.rows, "inputs", method="RAPPOR, L-OSUE, L-GRR") == pytest.approx(5 / 3)
    other = Settings(data=tmp_path, seed=4, runs=1)
    assert only(run(["loloha:fig4:db_de"], other, tmp_path / "out")).computed == 1
    assert only(run(["loloha:fig4:db_de"], all_of_it, tmp_path / "out")).computed == 0
    table.write_text(header + "1,2\n2,2\n3,1\n" * 6)
    assert only(run(["loloha:fig4:db_de"], all_of_it, tmp_path / "out")).computed == 1


@pytest.mark.thorough
def test_processes_give_the_same_rows(tmp_path: Path) -> None:
    """Two of them, for the smallest experiment that draws anything."""
    small = Settings(data=tmp_path, seed=3, runs=2, devices=30, epochs=2)
    alone = only(run(["loloha:fig4:syn"], small, tmp_path / "one"))
    together = only(run(["loloha:fig4:syn"], small, tmp_path / "two", jobs=2))
    assert together.computed == 2
    assert together.rows == alone.rows


PROGRAM = """
import sys
from pathlib import Path
from reproduction.paper import Settings
from reproduction.runner import run

if __name__ == "__main__":
    list(run(["loloha:fig3:syn"], Settings(seed=3), Path(sys.argv[1]), jobs=2))
"""


def workers_of(pid: int) -> list[int]:
    """Processes of this parent that compute cells."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_a_run_that_is_killed(tmp_path: Path, name: signal.Signals) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = os.environ | {"PYTHONPATH": str(REPOSITORY)}  # the wheel has no reproduction
    with subprocess.Popen([sys.executable, str(program), str(tmp_path / "out")], env=found) as process:
        poll(lambda: len(list((tmp_path / "out").glob("cells/*/*"))) >= 2)
        workers = workers_of(process.pid)
        assert len(workers) == 2
        process.send_signal(name)
    poll(
        lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers),
        60 * slowness(),
        lambda: "a worker computes for nobody",
    )


def test_an_experiment_without_its_file_is_skipped_and_says_where_it_is_published(tmp_path: Path) -> None:
    found = only(run(["loloha:fig3:db_mt"], settings(tmp_path), tmp_path / "out"))
    assert found.rows == []
    assert "Montana" in found.skipped
    assert "f3d6ec1311e284ce" in found.skipped
    assert not (tmp_path / "out").exists()


def test_the_command_lists_runs_and_refuses(tmp_path: Path) -> None:
    listed = CliRunner().invoke(reproduce, ["--list", "loloha:fig3"])
    assert listed.exit_code == 0
    assert "loloha:fig3:adult" in listed.output
    assert "loloha:fig2" not in listed.output
    out = tmp_path / "out"
    done = CliRunner().invoke(reproduce, ["allomfree:table2", "--jobs", "1", "--output", str(out)])
    assert done.exit_code == 0
    assert "20 of 20 agree in every printed digit" in done.output
    page = (out / "index.md").read_text()
    assert "ALLOMFREE Table 2" in page
    assert "reproduced" in page
    assert [path.name for path in (out / "tables").iterdir()] == ["allomfree-table2.csv"]
    refused = CliRunner().invoke(reproduce, ["loloha:fig9"])
    assert "E-USAGE-OPTION" in str(refused.exception)
