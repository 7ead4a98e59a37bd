"""Every transcript is played on a real runner, with real reports and the real sinks, and compared exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transcripts.playing import complaints, play, read_transcript

HERE = Path(__file__).parent
TRANSCRIPTS = sorted(HERE.glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
@pytest.mark.cases(1, 28)
def test_a_job_does_what_its_transcript_says(path: Path, tmp_path: Path) -> None:
    """Results, books, files and support counts."""
    transcript = read_transcript(path)
    assert complaints(transcript, play(transcript, tmp_path)) == []
