"""Every transcript is played on a real runner, with real reports and the real sinks, and compared exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transcripts.playing import complaints, play, read_transcript

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
    assert complaints(transcript, played) == []


@pytest.mark.parametrize("path", WRONG, ids=[p.stem for p in WRONG])
@pytest.mark.cases(2)
def test_a_wrong_transcript_is_found_wrong_for_its_reason(path: Path, tmp_path: Path) -> None:
    """The comparison sees what it is there to see, and complains of nothing else."""
    transcript = read_transcript(path)
    assert transcript.must_fail
    assert complaints(transcript, play(transcript, tmp_path)) == transcript.must_fail
