"""Wheel and sdist, built, checked, and each tried in an environment of its own, far from the checkout.

``make package`` runs it; both files stay in ``dist/``. It ends at the first fault.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.conftest import REPOSITORY

TRIAL = (
    "ldpbeam init first.yaml --values red,green,blue --devices 2000",
    "ldpbeam check first.yaml --devices 2000",
    "ldpbeam simulate --collection first.yaml --population zipf:1 --devices 2000 --epochs 2 --output made",
    "ldpbeam run --collection first.yaml --input made/reports --output results",
    "ldpbeam report results",
    "ldpbeam docs planning",
)
"""What somebody does first, with nothing of a checkout at hand."""
DEVICE = """
import ldpbeam, sys
device = ldpbeam.Device.open(ldpbeam.load_collection("first.yaml"), "state")
assert len(device.report("green", 0)) > 8
assert "numpy" not in sys.modules
"""


def run(*command: object, folder: Path, path: Path | None = None) -> str:
    """Run a command where nothing leads to the checkout, and give what it prints."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    if path is not None:
        kept["PATH"] = f"{path}{os.pathsep}{kept['PATH']}"
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env=kept, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(
            f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def sources(target: Path) -> None:
    """Copy what git tracks or would take, links as links, so that a build leaves nothing in the checkout."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=REPOSITORY, capture_output=True, check=True).stdout.decode()
    for name in filter(None, names.split("\0")):
        if (REPOSITORY / name).is_symlink() or (REPOSITORY / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, target / name, follow_symlinks=False)


def build(tools: Path, folder: Path, dist: Path) -> tuple[Path, Path]:
    """The wheel, made from the sdist, and the sdist; both as an index and an installer want them."""
    sources(folder / "source")
    made = folder / "made"
    run(tools, "-m", "build", "--no-isolation", "--outdir", made, folder / "source", folder=folder)
    (wheel,), (sdist,) = made.glob("*.whl"), made.glob("*.tar.gz")
    run(tools, "-m", "twine", "check", "--strict", wheel, sdist, folder=folder)
    run(tools.with_name("check-wheel-contents"), wheel, folder=folder / "source")
    dist.mkdir(exist_ok=True)
    return Path(shutil.copy2(wheel, dist)), Path(shutil.copy2(sdist, dist))


def same_files(tools: Path, wheel: Path, sdist: Path, folder: Path) -> None:
    """Install the sdist without what it needs: its files must be those of the wheel, which was tried."""
    uv = Path(sys.executable).with_name("uv")
    how = ("--quiet", "--no-deps", "--no-build-isolation", "--python", tools, "--target", folder)
    run(uv, "pip", "install", *how, sdist, folder=folder.parent)
    with zipfile.ZipFile(wheel) as archive:
        wanted = {name: archive.read(name) for name in held(wheel)}
    files = (path for path in (folder / "ldpbeam").rglob("*") if path.is_file() and path.suffix != ".pyc")
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    differing = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    if differing:
        raise SystemExit(f"wheel and sdist install different files: {differing}")


def environment(folder: Path, *installed: object) -> Path:
    """The programs of a new environment, into which uv installs by these arguments, one after the other."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, folder=folder.parent)
    uv = Path(sys.executable).with_name("uv")
    python = folder / "bin" / "python"
    for one in installed:
        arguments = one if isinstance(one, tuple) else (one,)
        run(uv, "pip", "install", "--quiet", "--system-certs", "--python", python, *arguments, folder=folder)
    return folder / "bin"


def held(wheel: Path) -> set[str]:
    """Files of the package that a wheel holds."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def try_out(programs: Path, folder: Path) -> None:
    """Do what somebody does first."""
    folder.mkdir()
    for line in TRIAL:
        run("bash", "-c", line, folder=folder, path=programs)
    listed = json.loads(run("ldpbeam", "docs", "--json", folder=folder, path=programs))
    pages = {path.stem for path in (REPOSITORY / "docs").glob("*.md")}
    if {one["name"] for one in listed} != pages:
        raise SystemExit(f"the installed pages are not those of docs/: {listed}")
    run(programs / "python", "-c", DEVICE, folder=folder)


def main(tools: Path) -> None:
    """Build, check, install and try."""
    locked = ("--require-hashes", "-r", REPOSITORY / "requirements" / "user.txt")
    with tempfile.TemporaryDirectory(prefix="ldpbeam-package-") as name:
        folder = Path(name)
        wheel, sdist = build(tools, folder, REPOSITORY / "dist")
        programs = environment(folder / "whole", locked, ("--no-deps", wheel))
        try_out(programs, folder / "try")
        sys.stdout.write(f"{wheel.name}: installed and tried outside the checkout\n")
        same_files(tools, wheel, sdist, folder / "of-sdist")
        sys.stdout.write(f"{sdist.name}: installs the same {len(held(wheel))} files\n")
        # A device's: what the metadata asks for and nothing else.
        alone = environment(folder / "device", ("-c", locked[-1], wheel))
        run(alone / "python", "-c", DEVICE, folder=folder / "try")
        run(alone / "ldpbeam", "--version", folder=folder)
        sys.stdout.write(f"{wheel.name}: a device reports, without any extra\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
