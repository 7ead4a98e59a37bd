"""YAML 1.2 and JSON, node by node with lines; PyYAML, which knows YAML 1.1, does the parsing.

What a scalar stands for is decided here, by the core schema of YAML 1.2. It is a number only where no version
reads another one: 010 is 8 in YAML 1.1 and 10 in YAML 1.2, and neither is guessed.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

_SHOWN = 60
"""Most characters of a value that an error repeats."""

_TAG = "tag:yaml.org,2002:"
TEXT, INTEGER, NUMBER, TRUTH = (_TAG + kind for kind in ("str", "int", "float", "bool"))
"""Tags of scalars."""

_CORE = (
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
)
"""The core schema: tag, text, first characters. https://yaml.org/spec/1.2.2/#103-core-schema"""

_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_FRACTION = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_WITHOUT_END = re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE)
_ODD_BREAK = re.compile("[\x85\u2028\u2029]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class NotYamlError(Exception):
    """A text is no YAML: why, and the line from 1, or 0 where none is known."""

    def __init__(self, why: str, line: int) -> None:
        super().__init__(why)
        self.why, self.line = why, line


def compose(text: str) -> yaml.Node | None:
    """The root of a text in YAML 1.2 or JSON; None of an empty one."""
    import yaml

    text = text.removeprefix("\ufeff")
    if match := _ODD_BREAK.search(text):
        why = f"U+{ord(match[0]):04X} ends a line in one version of YAML, and not in another"
        raise NotYamlError(why, text.count("\n", 0, match.start()) + 1)
    try:
        return yaml.compose(_indented(text), Loader=_loader())
    except yaml.reader.ReaderError as error:
        why = f"U+{ord(text[error.position]):04X} may not stand in YAML as it is"
        raise NotYamlError(why, text.count("\n", 0, error.position) + 1) from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        # The last three: escapes and numbers that PyYAML does not check, and nesting without end.
        mark = getattr(error, "problem_mark", None)
        why = (
            getattr(error, "problem", None)
            or "it is nested too deeply, or has an escape or a number without a meaning"
        )
        raise NotYamlError(why, mark.line + 1 if mark else 0) from None


def _indented(text: str) -> str:
    """JSON without the tabs between its parts, which YAML refuses; a tab within a JSON text is an escape."""
    if "\t" not in text:
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text.replace("\t", " ")


@cache
def _loader() -> Any:
    import yaml

    class Core(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as PyYAML has it

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
                raise yaml.composer.ComposerError(None, None, "an alias stands for a value", mark)
            event = self.peek_event()  # type: ignore[no-untyped-call]
            if getattr(event, "tag", None) is not None:
                why = f"a tag ({event.tag[:_SHOWN]}) changes what a value means"
                raise yaml.composer.ComposerError(None, None, why, event.start_mark)
            return super().compose_node(parent, index)

        def compose_scalar_node(self, anchor: Any) -> Any:
            node = super().compose_scalar_node(anchor)
            # JSON writes a character beyond U+FFFF as two escapes.
            node.value = _PAIR.sub(lambda pair: _joined(pair[0]), node.value)
            return node

    for tag, text, first in _CORE:
        Core.add_implicit_resolver(_TAG + tag, re.compile(f"(?:{text})$", re.ASCII), list(first) or [""])
    Core.yaml_implicit_resolvers[""] = [(_TAG + "null", re.compile("$"))]
    return Core


def _joined(pair: str) -> str:
    return pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def is_text(node: yaml.Node) -> bool:
    """Whether a node is a text: in quotes, or nothing that YAML 1.2 takes for something else."""
    return node.tag == TEXT and isinstance(node.value, str)


def truth_of(node: yaml.Node) -> bool | None:
    """What ``true`` or ``false`` says; None for anything else."""
    if node.tag != TRUTH or not isinstance(node.value, str):
        return None
    return {"true": True, "false": False}.get(node.value.lower())


def integer_of(node: yaml.Node) -> int | None:
    """A decimal integer without leading zeros; None for anything else, and for one beyond 10**400."""
    plain = node.tag == INTEGER and isinstance(node.value, str) and len(node.value) <= 400
    return int(node.value) if plain and _DECIMAL.fullmatch(node.value) else None


def number_of(node: yaml.Node) -> float | None:
    """A decimal number without leading zeros, as JSON has it or as in ``.5``, ``1.``, ``+1`` and ``.inf``."""
    if node.tag not in (INTEGER, NUMBER) or not isinstance(node.value, str):
        return None
    if _FRACTION.fullmatch(node.value):
        return float(node.value)
    return math.inf if node.tag == NUMBER and _WITHOUT_END.fullmatch(node.value) else None


def is_mapping(node: yaml.Node) -> bool:
    import yaml

    return isinstance(node, yaml.MappingNode)


def is_list(node: yaml.Node) -> bool:
    import yaml

    return isinstance(node, yaml.SequenceNode)


def in_quotes(node: yaml.Node) -> bool:
    """Whether a scalar stands in quotes, or is a block of text."""
    import yaml

    return isinstance(node, yaml.ScalarNode) and bool(node.style)


def shown(node: yaml.Node) -> str:
    if not isinstance(node.value, str):
        return "a list" if is_list(node) else "a mapping"
    if not node.value and not in_quotes(node):
        return "nothing"
    text = node.value if len(node.value) <= _SHOWN else f"{node.value[: _SHOWN - 1]}…"
    return f"the text {json.dumps(text, ensure_ascii=False)}" if in_quotes(node) else text
