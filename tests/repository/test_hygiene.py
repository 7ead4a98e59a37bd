"""What is installed has exact versions and hashes, and no committed text names a machine or a registry."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

LOCKS = sorted((REPOSITORY / "requirements").glob("*.txt"))
PIN = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][0-9A-Za-z.!]*"
    r"( ; [a-z_]+ (<|>=|==|!=) '[\w.]+'( and [a-z_]+ (==|!=) '\w+')*)?"  # which versions of Python need it
    r"( --hash=sha256:[0-9a-f]{64})+"
)
# Written in pieces, so that this file passes its own test. A path only where it starts one.
MACHINE_SPECIFIC = re.compile(
    r"(?<![\w.~-])/(?:wo[r]k|roo[t]|op[t]/wheels)/|pypi[.]org|files\.python[h]osted"
    r"|(?<!/rust-lang/)crates[.]io"  # a Cargo.lock has the public index, wherever its packages came from
    r"|registry\.npm[j]s|proxy\.go[l]ang|repo1?\.maven[.]|deb\.debian[.]"
)


def pins(lock: Path) -> dict[str, str]:
    """Of a lock: each package, and its version, marker and hashes as the lock has them."""
    joined = lock.read_text("utf-8").replace("\\\n", " ")
    lines = (" ".join(line.split()) for line in joined.splitlines())
    return {distribution(line): line for line in lines if line and not line.startswith("#")}


def distribution(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_lock_has_versions_and_hashes_alone(lock: Path) -> None:
    assert pins(lock)
    assert [line for line in pins(lock).values() if not PIN.fullmatch(line)] == []


def test_the_lock_has_hashes_and_covers_every_direct_dependency() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = sum((extras[name] for name in ("pipeline", "page", "gcp", "dev")), project["dependencies"])
    locked = set(pins(REPOSITORY / "requirements" / "all.txt"))
    assert {distribution(requirement) for requirement in wanted} - locked == {"ldpbeam"}


def test_generated_code_runs_on_the_oldest_protobuf_that_is_allowed() -> None:
    def release(version: str) -> list[int]:
        return [int(part) for part in version.split(".")]

    (floor,) = re.findall(r'"protobuf>=([\d.]+)', (REPOSITORY / "pyproject.toml").read_text())
    for path in sorted((REPOSITORY / "ldpbeam" / "wire").glob("*_pb2.py")):
        (needs,) = re.findall(r"# Protobuf Python Version: ([\d.]+)", path.read_text())
        assert release(needs) <= release(floor), f"{path.name}: run `make proto`"


def test_no_committed_text_names_a_machine_or_a_registry() -> None:
    if not (REPOSITORY / ".git").exists():  # a release archive: nothing is to be committed
        pytest.skip("not a git checkout")
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(listing, cwd=REPOSITORY, capture_output=True, check=True).stdout.decode()
    paths = {path for name in output.split("\0") if name and (path := REPOSITORY / name).is_file()}
    texts = ((path, path.read_bytes().decode("utf-8", "replace")) for path in sorted(paths))
    assert [f"{path}: {hit[0]}" for path, text in texts for hit in MACHINE_SPECIFIC.finditer(text)] == []
