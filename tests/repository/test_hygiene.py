"""What must not be in the repository, looked for in every file that is or would be committed."""

import ast
import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PACKAGES = ("ldpbeam", "transforms", "pipelines", "simulators")
COMMAND_LINE = ("ldpbeam/cli/*",)  # as in ruff's exclusions
JIT = "ldpbeam/kernels/jit.py"
COMPILERS = {"njit", "jit", "vectorize", "guvectorize", "cfunc", "stencil", "jitclass"}

# Written in pieces, so that this file passes its own test.
MACHINE_PATHS = ("/work" + "/", "/root" + "/", "/opt" + "/wheels")
REGISTRY_HOSTS = (
    "pypi" + ".org",
    "files.python" + "hosted.org",
    "crates" + ".io",
    "registry.npm" + "js.org",
    "proxy.go" + "lang.org",
    "repo1.maven" + ".org",
    "repo.maven.apache" + ".org",
    "deb.debian" + ".org",
)
# A path only where it starts one: docs/work/ and https://site/work/ are no machine's.
MACHINE_SPECIFIC = re.compile(
    rf"(?<![\w.~-])(?:{'|'.join(MACHINE_PATHS)})|{'|'.join(map(re.escape, REGISTRY_HOSTS))}"
)
HASH = "--hash=sha256:" + "0" * 64
PIN = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][0-9A-Za-z.!]*"
    r"( ; [a-z_]+ (<|>=|==|!=) '[\w.]+'( and [a-z_]+ (==|!=) '\w+')*)?"  # which versions of Python need it
    r"( --hash=sha256:[0-9a-f]{64})+"
)


def committed_files() -> list[Path]:
    """What git tracks or would take: a new file is checked before its first commit."""
    if not (REPOSITORY / ".git").exists():  # a release archive: nothing is to be committed
        pytest.skip("not a git checkout")
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(listing, cwd=REPOSITORY, capture_output=True, check=True).stdout
    paths = (REPOSITORY / name for name in output.decode().split("\0") if name)
    return sorted({path for path in paths if path.is_file()})


def machine_specific(text: str) -> list[str]:
    return [
        f"{number}: {line.strip()[:100]}"
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE_SPECIFIC.search(line)
    ]


def pins(text: str) -> dict[str, str]:
    """Of a lock: each package, and its version, marker and hashes as the lock has them."""
    joined = text.replace("\\\n", " ")
    lines = (" ".join(line.split()) for line in joined.splitlines())
    return {distribution(line): line for line in lines if line and not line.startswith("#")}


def not_pins(text: str) -> list[str]:
    """Lines of a lock that hold an address, or a package without its exact version or without a hash."""
    unsure = [line for line in pins(text).values() if not PIN.fullmatch(line)]
    return unsure + [line for line in text.splitlines() if "://" in line and line not in unsure]


def hashes(pin: str) -> set[str]:
    """Its version and its hashes; a part of a lock may need no marker."""
    name, *words = pin.split()
    return {name, *(word for word in words if word.startswith("--hash="))}


def prints(source: str) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"print", "pprint"}
    ]


def own_compilers(source: str) -> list[str]:
    """Uses of numba's compilers: by import, by attribute, under whatever alias."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "numba":
            found += [alias.name for alias in node.names if alias.name in COMPILERS]
        elif isinstance(node, ast.Attribute) and node.attr in COMPILERS:
            found.append(ast.unparse(node))
    return found


def unsafe_options(source: str) -> list[str]:
    """fastmath or cache switched on, as a keyword or in a dictionary of options."""
    found = []
    for node in ast.walk(ast.parse(source)):
        pairs: list[tuple[str, ast.expr]] = []
        if isinstance(node, ast.Call):
            pairs = [(word.arg or "", word.value) for word in node.keywords]
        elif isinstance(node, ast.Dict):
            keys = (key.value if isinstance(key, ast.Constant) else "" for key in node.keys)
            pairs = list(zip(map(str, keys), node.values, strict=True))
        found += [
            f"{name}={ast.unparse(value)}"
            for name, value in pairs
            if name in {"fastmath", "cache"} and ast.unparse(value) not in {"False", "None"}
        ]
    return found


def sources() -> list[tuple[str, str]]:
    named = ((path.relative_to(REPOSITORY).as_posix(), path) for path in committed_files())
    return [
        (name, path.read_text())
        for name, path in named
        if name.startswith(tuple(f"{package}/" for package in PACKAGES))
        and name.endswith(".py")
        and not name.endswith("_pb2.py")
    ]


def distribution(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def test_no_committed_text_names_a_machine_or_a_registry() -> None:
    found = []
    for path in committed_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # pictures and other binaries
            continue
        found += [f"{path.relative_to(REPOSITORY)}:{line}" for line in machine_specific(text)]
    assert found == []


def test_the_lock_has_hashes_and_covers_every_direct_dependency() -> None:
    text = (REPOSITORY / "requirements" / "all.txt").read_text()
    assert not_pins(text) == []
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = sum((extras[name] for name in ("pipeline", "page", "gcp", "dev")), project["dependencies"])
    assert {distribution(requirement) for requirement in wanted} - set(pins(text)) == {"ldpbeam"}


@pytest.mark.parametrize(
    "lock", sorted((REPOSITORY / "requirements").glob("*.txt")), ids=lambda lock: lock.stem
)
def test_every_lock_has_versions_and_hashes_alone(lock: Path) -> None:
    text = lock.read_text()
    assert pins(text)
    assert not_pins(text) == []


@pytest.mark.parametrize("name", ["user", "gcp", "installer"])
def test_a_smaller_lock_is_a_part_of_the_whole(name: str) -> None:
    whole = pins((REPOSITORY / "requirements" / "all.txt").read_text())
    part = pins((REPOSITORY / "requirements" / f"{name}.txt").read_text())
    assert part
    assert {package: hashes(line) for package, line in part.items()} == {
        package: hashes(whole[package]) for package in part
    }


def test_generated_code_runs_on_the_oldest_protobuf_that_is_allowed() -> None:
    project = (REPOSITORY / "pyproject.toml").read_text()
    floor = re.search(r'"protobuf>=([\d.]+)', project)
    assert floor
    for path in sorted((REPOSITORY / "ldpbeam" / "wire").glob("*_pb2.py")):
        needs = re.search(r"# Protobuf Python Version: ([\d.]+)", path.read_text())
        assert needs, path.name
        assert release(needs[1]) <= release(floor[1]), f"{path.name}: run `make proto`"


@pytest.mark.thorough
def test_only_the_command_line_prints() -> None:
    speaking = {name for name, text in sources() if prints(text)}
    allowed = {name for name in speaking if any(fnmatch(name, rule) for rule in COMMAND_LINE)}
    assert speaking - allowed == set()


@pytest.mark.thorough
def test_kernels_are_compiled_in_one_place() -> None:
    elsewhere = {n: own_compilers(text) for n, text in sources() if n != JIT and own_compilers(text)}
    assert elsewhere == {}
    assert own_compilers((REPOSITORY / JIT).read_text())


@pytest.mark.thorough
def test_no_kernel_is_compiled_unsafely() -> None:
    assert {n: unsafe_options(text) for n, text in sources() if unsafe_options(text)} == {}


def test_make_browser_has_every_test_of_a_browser() -> None:
    makefile = (REPOSITORY / "Makefile").read_text("utf-8")
    (names,) = re.findall(r"^\t@\$\(PYTEST\) -m browser (.*)$", makefile, re.MULTILINE)
    folders = {REPOSITORY / name for name in names.split()}
    mark = re.compile(r"^(pytestmark = .*|@pytest\.)mark\.browser\b", re.MULTILINE)
    paths = (REPOSITORY / "tests").rglob("test_*.py")
    marked = [path for path in paths if mark.search(path.read_text("utf-8"))]
    assert len(marked) > 5
    assert [path for path in marked if not folders & {*path.parents}] == []


def test_ci_runs_the_checks_and_every_suite() -> None:
    lines = (REPOSITORY / ".ci" / "run").read_text().splitlines()
    assert "set -euo pipefail" in lines
    made = {word for line in lines if line.strip().startswith(("timed ", "beside ")) for word in line.split()}
    suites = {"js", "examples", "schedules", "pubsub", "flink", "flink-next", "prism", "browser"}
    assert {"check", "crash-devices", "crash-collector"} | suites <= made
    joined = {word for line in lines if line.strip().startswith("joined ") for word in line.split()}
    assert joined >= {line.split()[1] for line in lines if line.strip().startswith("beside ")}


def test_make_check_leaves_no_test_of_the_default_suite_out() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    (check,) = re.findall(r"^check: (.*) ##", makefile, re.MULTILINE)
    assert {"format-check", "lint", "types", "proto-check", "package", "test-all"} <= set(check.split())
    (recipe,) = re.findall(r"^test-all: .*\n\t(.*)", makefile, re.MULTILINE)
    assert "--thorough" in recipe
    assert not set(recipe.split()) & {"-k", "-m", "--ignore", "--deselect"}


# --- the checkers can fail


@pytest.mark.parametrize("bad", [*(f"see {p}x" for p in MACHINE_PATHS), *REGISTRY_HOSTS])
def test_a_machine_specific_line_is_seen(bad: str) -> None:
    assert machine_specific(f"fine\n{bad}\n") == [f"2: {bad}"]


@pytest.mark.parametrize("good", ["docs/work/x", "https://example.com/work/x", "a/root/b"])
def test_a_path_inside_another_is_not(good: str) -> None:
    assert machine_specific(good) == []


@pytest.mark.parametrize(
    "bad",
    [
        "--find-links " + MACHINE_PATHS[2],
        "a @ https://example.com/a.whl",
        "# from https://example.com",
        "numpy>=2 " + HASH,
        "a==1.0",
        "a==1.0 --hash=sha256:00",
    ],
)
def test_a_line_that_is_no_pin_is_seen(bad: str) -> None:
    assert not_pins(f"# header\n\nnumpy==2.4.6 \\\n    {HASH} \\\n    {HASH}\n{bad}\n") == [bad]


def test_a_part_of_a_lock_with_another_hash_is_seen() -> None:
    other = HASH.replace("0", "1", 1)
    assert hashes(f"a==1.0 ; python_version < '3.12' {HASH}") == hashes(f"a==1.0 {HASH}")
    assert hashes(f"a==1.0 {HASH}") != hashes(f"a==1.0 {other}")
    assert hashes(f"a==1.0 {HASH}") != hashes(f"a==1.1 {HASH}")


def test_a_print_is_seen_and_one_in_a_docstring_is_not() -> None:
    assert prints('def f():\n    """>>> print(1)"""\n    print(1)') == [3]


@pytest.mark.parametrize(
    "bad",
    [
        "import numba\n@numba.njit\ndef f(): ...",
        "import numba as nb\nf = nb.jit(nogil=True)(g)",
        "from numba import njit as quick",
        "from numba.experimental import jitclass",
    ],
)
def test_a_compiler_used_directly_is_seen(bad: str) -> None:
    assert len(own_compilers(bad)) == 1


@pytest.mark.parametrize(
    "bad",
    ["kernel(fastmath=True)", "njit(cache=True)", "O = {'cache': True}", "k(fastmath={'nnan'})"],
)
def test_an_unsafe_option_is_seen(bad: str) -> None:
    assert len(unsafe_options(bad)) == 1
    assert unsafe_options("njit(cache=False, nogil=True)") == []
