"""What the Rust client brings into an app: few packages, under licences that ask for no source of the app."""

import json
import subprocess

import pytest

from tests.rust.programs import WORKSPACE

pytestmark = pytest.mark.rust

# MPL-2.0, of UniFFI, asks for changes to its own files only.
FREE = {"Apache-2.0", "BSD-3-Clause", "MIT", "MPL-2.0", "Unicode-3.0", "Unlicense", "Zlib"}


def test_each_package_has_a_free_licence() -> None:
    """As cargo-deny would check it, which takes minutes to build."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    found = subprocess.run(command, cwd=WORKSPACE, capture_output=True, check=True, timeout=300).stdout
    packages = json.loads(found)["packages"]
    assert 10 < len(packages) < 80
    for package in packages:
        stated = package["license"].replace("/", " OR ").replace("(", "").replace(")", "")
        # One of those between OR suffices, and of these all between AND.
        ways = [set(way.replace(" WITH LLVM-exception", "").split(" AND ")) for way in stated.split(" OR ")]
        assert any(way <= FREE for way in ways), (package["name"], package["license"])
