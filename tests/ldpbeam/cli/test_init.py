"""``ldpbeam init`` writes a first collection: by options or three questions, never over a file."""

from __future__ import annotations

import shlex
from pathlib import Path
from unittest import mock

import pytest

import ldpbeam
from ldpbeam.cli.main import main
from ldpbeam.collection.domain import MAX_DOMAIN
from ldpbeam.protocols.estimator import Result
from tests.ldpbeam.cli.calling import call
from tests.narrow import present


def written(path: Path, *arguments: object) -> ldpbeam.Collection:
    done = call("init", path, *arguments)
    assert done.exit_code == 0, done.exception or done.output
    return ldpbeam.load_collection(path)


def refusal(*arguments: object) -> str:
    done = call("init", *arguments)
    assert done.exit_code != 0
    return done.output if isinstance(done.exception, SystemExit) else str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("--values 1", "--values: '1' is none of these: two or more labels with commas"),
        ("--devices", "option '--devices' requires an argument"),
    ],
)
def test_an_error_of_click_is_one_line_like_all_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: str, line: str
) -> None:
    monkeypatch.setattr("sys.argv", ["ldpbeam", "init", *arguments.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    (printed,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert printed.startswith(f"ldpbeam: {line}")
    assert printed.endswith("--help. [E-USAGE-OPTION]")


# --- what is written


def test_labels_become_a_collection_that_plan_recommends(tmp_path: Path) -> None:
    collection = written(
        tmp_path / "colours.yaml", "--values", "red, green,none of these", "--devices", 20_000
    )
    domain = present(collection.domain)
    assert (domain.labels, domain.other) == (("red", "green", "none of these"), 2)
    assert collection.name == "colours"
    labels = tmp_path / "labels.txt"
    labels.write_text("red\ngreen\nnone of these\n")
    needs = ["--devices", 20_000, "--epochs", 30, "--epsilon-longitudinal", 2]
    planned = tmp_path / "planned.yaml"
    call("plan", "--domain", labels, *needs, "--name", "colours", "--output", planned)
    assert planned.read_text() == (tmp_path / "colours.yaml").read_text()
    assert "atoms" not in call("init", tmp_path / "b.yaml", "--domain", labels, "--devices", 99).output
    (tmp_path / "minutes.yaml").write_text(
        "name: m\ndomain: {range: {max: 240, buckets: 60}}\nprotocol: grr\nepsilon: 1\nepoch: {length: 1d}"
    )
    done = call("init", tmp_path / "a.yaml", "--domain", tmp_path / "minutes.yaml", "--devices", 20_000)
    assert "plan --ordered" in done.output and "atoms: {every: 60}" in done.output
    again = written(tmp_path / "again.yaml", "--domain", labels, "--devices", 20_000, "--name", "colours")
    assert again.digest == collection.digest


def test_a_number_of_values_and_a_counter(tmp_path: Path) -> None:
    forty = written(tmp_path / "forty.yaml", "--values", " 40 ", "--devices", 300_000)
    assert present(forty.domain).size == 40
    assert forty.protocol.NAME == "loloha"
    counter = written(
        tmp_path / "c.yaml", "--values", "0..86_400", "--devices", 9000, "--epsilon-longitudinal", 1
    )
    assert present(counter.domain).size == 86_401
    assert counter.protocol.estimator.result is Result.MEAN
    assert counter.parameters.epsilon_longitudinal == 1.0


# --- what is refused


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("red", "'red' is none of these"),
        ("0..0", "'0..0' is none of these"),
        (f"0..{MAX_DOMAIN}", "is none of these"),
        ("a,,b", "the label '' is empty"),
        ("a,b,a", "the label 'a' is repeated"),
    ],
)
def test_values_that_cannot_be_meant_are_refused(tmp_path: Path, values: str, said: str) -> None:
    assert said in refusal(tmp_path / "x.yaml", "--values", values, "--devices", 900)
    assert list(tmp_path.iterdir()) == []


def test_without_a_terminal_what_is_missing_is_named(tmp_path: Path) -> None:
    for given, missing in ((("--values", 40), "--devices"), (("--devices", 900), "--values")):
        said = refusal(tmp_path / "x.yaml", *given)
        assert said.startswith(f"{missing} is missing, and there is no terminal to ask in.")
        assert said.endswith("[E-USAGE-OPTION]")
    said = refusal(tmp_path / "x.yaml", "--values", 4, "--domain", tmp_path / "l.txt", "--devices", 9)
    assert said.startswith("--values, --domain and --from each say it")


@pytest.mark.parametrize("kind", ["file", "link"])
def test_nothing_is_overwritten(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "x.yaml", tmp_path / "other"
    if kind == "file":
        path.write_text("mine")
    else:
        path.symlink_to(other)  # which leads nowhere yet
    assert "x.yaml exists" in refusal(path, "--values", 4, "--devices", 900)
    assert "x.yaml exists" in refusal(path)  # before anything is asked
    assert not other.exists()
    assert kind == "link" or path.read_text() == "mine"


def test_a_file_that_appears_while_it_asks_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ldpbeam.planning import collection_text

    path, before = tmp_path / "x.yaml", collection_text.collection_text

    def slow(*arguments: object) -> str:
        path.write_text("another's")
        return before(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(collection_text, "collection_text", slow)
    assert "x.yaml exists" in refusal(path, "--values", 4, "--devices", 900)
    assert path.read_text() == "another's"


def test_a_collection_that_would_not_be_sound_is_not_written(tmp_path: Path) -> None:
    assert "E-COLLECTION-VALUE" in refusal(
        tmp_path / "x.yaml", "--values", 4, "--devices", 900, "--name", "a b"
    )
    assert list(tmp_path.iterdir()) == []


# --- what is done next, and the questions


def test_the_next_commands_run_as_they_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = call("init", "my first.yaml", "--values", 4, "--devices", 900, "--name", "first").stdout
    following = [line.strip() for line in printed.splitlines() if line.startswith("  ldpbeam ")]
    assert len(following) == 2
    for line in following:
        done = call(*shlex.split(line)[1:])
        assert done.exit_code == 0, done.exception
    assert (tmp_path / "simulated" / "reports").is_dir()
    assert "with 900 devices" in call(*shlex.split(following[0])[1:]).stdout


@pytest.mark.parametrize("command", ["init", "plan"])
@pytest.mark.cases(1)
def test_epochs_begin_at_the_next_midnight_or_where_one_says(tmp_path: Path, command: str) -> None:
    def epochs(name: str, *more: object) -> tuple[int, int, int | None]:
        path = tmp_path / name
        target = [path] if command == "init" else ["--output", path]
        needs = ["--values", 4, "--devices", 900, "--epsilon-longitudinal", 2]
        done = call(command, *target, *needs, *more)
        assert done.exit_code == 0, done.exception
        found = ldpbeam.load_collection(path).epochs
        return found.length, found.origin, found.count

    with mock.patch("ldpbeam.cli.shared.options.time.time", return_value=1.5 * 86_400):
        assert epochs("default.yaml", "--epochs", 30) == (86_400, 2 * 86_400, 30)
        asked = ("--start", "1970-01-01", "--epoch", "2h", "--epochs", 3)
        assert epochs("first.yaml", *asked) == (7200, 0, 3)
