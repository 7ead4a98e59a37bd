"""Commands in one fresh interpreter, whose tables a test has added to before anything else was imported."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.conftest import REPOSITORY

_RUN = """
import contextlib, io, json, sys
from ldpbeam.cli.main import main

def template():
    from ldpbeam.pipelines.deploy.dataflow import generated
    print(*generated().values())

done = {}
for name, arguments in json.loads(sys.stdin.read()).items():
    sys.argv = ["ldpbeam", *arguments]
    code, out, err = 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main() if arguments else template()
        except SystemExit as end:
            code = end.code or 0
    done[name] = code, out.getvalue(), err.getvalue()
print(json.dumps(done))
"""

TEMPLATE: tuple[str, ...] = ()
"""Instead of a command: print the template of Dataflow."""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def run_commands(start: str, commands: Mapping[str, Sequence[object]]) -> dict[str, Ended]:
    """Run ``start``, then one command after the other; importing Beam costs more than most of them do."""
    asked = json.dumps({name: [str(argument) for argument in given] for name, given in commands.items()})
    done = subprocess.run(
        [sys.executable, "-c", f"{start}\n{_RUN}"],
        input=asked,
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return {name: Ended(*ended) for name, ended in found.items()}
