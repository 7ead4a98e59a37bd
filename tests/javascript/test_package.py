"""The npm package: what it holds, and that a project can install it and compile against its types."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.waiting import PATIENCE

pytestmark = pytest.mark.javascript

CLIENT = REPOSITORY / "clients" / "js"
PROGRAM = """\
import { Device as Web, IndexedDbStore, Sender } from "ldpbeam";
import { Device, FileStore, MemoryStore, type Value } from "ldpbeam/node";

const value: Value = "green";
const device: Device = await Device.open({}, new MemoryStore());
const message: Uint8Array | null = await device.report(value);
export { FileStore, IndexedDbStore, Sender, Web, message };
"""
WRONG = 'import { Device } from "ldpbeam/node";\nconst one: number = Device.open;\n'
SETTINGS = {
    "compilerOptions": {
        "module": "NodeNext",
        "moduleResolution": "NodeNext",
        "target": "ES2022",
        "lib": ["ES2022", "DOM"],
        "types": [],
        "strict": True,
        "noEmit": True,
    },
}


def npm(*arguments: object, folder: Path) -> str:
    command = ["npm", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, packed in a copy of the folder."""
    top = tmp_path_factory.mktemp("npm")
    shutil.copy(REPOSITORY / "LICENSE", top)
    ignored = shutil.ignore_patterns("node_modules", "build")
    shutil.copytree(CLIENT, top / "clients" / "js", ignore=ignored)
    (top / "clients" / "js" / "node_modules").symlink_to(CLIENT / "node_modules")
    npm("pack", "--pack-destination", top, folder=top / "clients" / "js")
    assert not (top / "clients" / "js" / "LICENSE").exists()
    (made,) = top.glob("*.tgz")
    return made


@pytest.fixture(scope="module")
def project(packed: Path) -> Path:
    """A project that has installed it, and nothing else."""
    folder = packed.parent / "project"
    folder.mkdir()
    (folder / "package.json").write_text('{"name": "one", "private": true, "type": "module"}')
    npm("install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts", packed, folder=folder)
    return folder


def compiled(project: Path, source: str) -> str:
    """What the compiler says of a program of the project."""
    (project / "one.ts").write_text(source)
    (project / "tsconfig.json").write_text(json.dumps(SETTINGS | {"files": ["one.ts"]}))
    compiler = CLIENT / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run(
        ["node", str(compiler), "-p", "."], cwd=project, capture_output=True, text=True, check=False
    )
    return done.stdout


def test_it_holds_programs_types_readme_and_licence_and_no_tests(project: Path) -> None:
    installed = project / "node_modules" / "ldpbeam"
    names = {path.relative_to(installed).as_posix() for path in installed.rglob("*") if path.is_file()}
    assert {"README.md", "LICENSE", "package.json", "build/src/index.js", "build/src/node.d.ts"} <= names
    assert (installed / "LICENSE").read_bytes() == (REPOSITORY / "LICENSE").read_bytes()
    assert [name for name in names if "test" in name] == []
    assert len([name for name in names if name.endswith(".d.ts")]) == len(list((CLIENT / "src").glob("*.ts")))


def test_a_project_compiles_against_its_types(project: Path) -> None:
    assert compiled(project, PROGRAM) == ""
    assert "TS2322" in compiled(project, WRONG)
