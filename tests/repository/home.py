"""The project's address, wherever one is needed: written from pyproject.toml, the one place that has it.

``python -m tests.repository.home`` writes the passages anew; ``test_home`` says that nothing would change.
"""

import re
import tomllib
from pathlib import Path

from tests.conftest import REPOSITORY

PAGES = ("SECURITY.md", "CONTRIBUTING.md", ".github/ISSUE_TEMPLATE/config.yml")
PASSAGE = re.compile(
    r"(?P<head>(?:<!--|#) home: (?P<name>[a-z]+)(?: -->)?\n).*?(?P<foot>(?:<!--|#) /home)", re.S
)


def home(folder: Path = REPOSITORY) -> str | None:
    """The address of the project, or None while it has none."""
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    return project.get("urls", {}).get("Homepage")


def passages(address: str | None) -> dict[str, str]:
    """What stands at each place that needs the address."""
    if address is None:
        none = "The project has no public home yet"
        return {
            "security": f"{none}. Write to the address of a maintainer's commits.",
            "contributing": f"{none}: send a change as a patch to the address of a maintainer's commits.",
            "template": f"  [] # {none}, so no link can lead to SECURITY.md.",
        }
    return {
        "security": f"Use the form for private reports at <{address}>.",
        "contributing": f"The project lives at <{address}>: open a pull request there.",
        "template": f"  - {{name: A vulnerability, url: {address}, about: Read SECURITY.md first.}}",
    }


def written(text: str, address: str | None) -> str:
    """A page with each passage as it belongs to the address."""
    texts = passages(address)
    return PASSAGE.sub(lambda found: f"{found['head']}{texts[found['name']]}\n{found['foot']}", text)


def main() -> None:
    """Write all passages anew."""
    for name in PAGES:
        page = REPOSITORY / name
        page.write_text(written(page.read_text("utf-8"), home()), "utf-8")


if __name__ == "__main__":
    main()
