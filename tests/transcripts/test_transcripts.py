"""Every transcript is played on a real runner, with real reports and the real sinks, and compared exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.transcripts.playing import (
    Played,
    Transcript,
    complaints,
    play,
    read_transcript,
    time_of,
    told_at,
    told_table,
)

HERE = Path(__file__).parent
RIGHT = sorted(HERE.glob("*.txt"))
WRONG = sorted(HERE.glob("wrong/*.txt"))


@pytest.mark.parametrize("path", RIGHT, ids=[p.stem for p in RIGHT])
@pytest.mark.cases(1, 28)
def test_a_job_does_what_its_transcript_says(path: Path, tmp_path: Path) -> None:
    """Results, books, files and support counts."""
    transcript = read_transcript(path)
    assert not transcript.must_fail
    played = play(transcript, tmp_path)
    assert complaints(transcript, played) == [], told_table(transcript, played)


@pytest.fixture(scope="module")
def play_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Transcript], Played]:
    """Transcripts that differ in what they expect only are played together."""
    done: dict[str, Played] = {}

    def one(transcript: Transcript) -> Played:
        asked = repr((transcript.sent, transcript.collections, transcript.settings))
        if asked not in done:
            done[asked] = play(transcript, tmp_path_factory.mktemp("wrong"))
        return done[asked]

    return one


@pytest.mark.parametrize("path", WRONG, ids=[p.stem for p in WRONG])
@pytest.mark.cases(4)
def test_a_wrong_transcript_is_found_wrong_for_its_reason(
    path: Path, play_once: Callable[[Transcript], Played]
) -> None:
    """The comparison sees what it is there to see, and complains of nothing else."""
    transcript = read_transcript(path)
    assert transcript.must_fail
    assert complaints(transcript, play_once(transcript)) == transcript.must_fail


@pytest.mark.parametrize("text", ["00:00", "01:30", "00:00:20", "3d 00:05", "-00:10", "-3650d 01:00"])
def test_times_are_written_as_they_are_read(text: str) -> None:
    assert told_at(time_of(text) + 1000) == text
