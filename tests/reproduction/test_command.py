"""What ``python -m reproduction`` takes: each option has its effect, and --list computes nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner

from reproduction.__main__ import reproduce

OPTIONS: dict[str, tuple[list[str], Callable[[Any, Any, Path, int], object], object]] = {
    "--quick": (["--quick"], lambda names, settings, folder, jobs: settings.quick, True),
    "--runs": (["--runs", "7"], lambda names, settings, folder, jobs: settings.runs, 7),
    "--data": (["--data", "mine"], lambda names, settings, folder, jobs: settings.data, Path("mine")),
    "--seed": (["--seed", "0"], lambda names, settings, folder, jobs: settings.seed, 0),
    "--jobs": (["--jobs", "77"], lambda names, settings, folder, jobs: jobs, 77),
    "--output": (["--output", "mine"], lambda names, settings, folder, jobs: folder, Path("mine")),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_changes_what_is_computed(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    added, look, wanted = OPTIONS[option]
    asked: list[Any] = []

    def none(names: Any, settings: Any, folder: Path, *, jobs: int, progress: Any) -> list[Any]:
        asked.append(look(names, settings, folder, jobs))
        return []

    with mock.patch("reproduction.runner.run", none):
        for line in (["loloha:fig3", "-q"], ["loloha:fig3", "-q", *added]):
            assert CliRunner().invoke(reproduce, line).exit_code == 0
    assert asked[0] != asked[1] == wanted
