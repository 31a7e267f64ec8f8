"""Plain words: pages, helps, errors and docstrings say "is not a" rather than "is no", and no help is long."""

import ast
import re
from collections.abc import Iterator

import pytest
from commandline import ROOT

STUMBLES = re.compile(
    r"(?<!here) (?:is|are) no (?!longer|more|use)|it is no\b|\bforet(?:ell|old)|\bforese[en]|\bsift"
    r"|\blook(?:s|ing)? on\b|\bwhatever it\b|\bunless given\b|\bthereby\b|\bso many\b"
    r"|\badds? up to\b|\bheed|\bcomes? out\b|\bcame out\b|\bcomes? to an end\b|\bask(?:s|ed)? (?:a|the) net\b"
    r"|\bbegins? anew\b|\bas it looks\b|\bexplains itself\b",
    re.IGNORECASE,
)
LONGEST_HELP = 25
"""Words."""

SOURCES = [
    path
    for folder in ("arena", "bots", "trainers", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path.parent.name != "search" and path.name != "kernels.py"  # a changed line compiles them again
]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "trainers/README.md", "benchmarks/README.md")),
    ROOT / "bots" / "checkpoints" / "README.md",
    ROOT / "arena.toml",
    *sorted((ROOT / "docs").glob("*.md")),
]


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every string, docstrings included; what an f-string inserts is left out."""
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) not in parts and (text := spoken(node)):
            yield node.lineno, text  # type: ignore[attr-defined]


def spoken(node: ast.AST | None) -> str:
    """The text of a literal, else nothing."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def helps(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every help of an option or argument, and of every setting."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            named = [each.value for each in node.keywords if each.arg == "help"]
            is_setting = isinstance(node.func, ast.Name) and node.func.id == "setting"
            for told in named or (node.args[1:2] if is_setting else []):
                yield node.lineno, spoken(told)


def test_what_a_person_reads_is_plain() -> None:
    found, seen = [], 0
    for path in SOURCES:
        source, place = path.read_text("utf-8"), path.relative_to(ROOT)
        if not re.search(r"help=|setting\(", source) and not STUMBLES.search(source):
            continue
        tree = ast.parse(source)
        if STUMBLES.search(source):  # maybe in a comment only
            found += [f"{place}:{line}: {text!r}" for line, text in literals(tree) if STUMBLES.search(text)]
        told = list(helps(tree))
        long = [(line, text) for line, text in told if len(text.split()) > LONGEST_HELP]
        found += [f"{place}:{line}: a help of over {LONGEST_HELP} words: {text!r}" for line, text in long]
        seen += len(told)
    for page in PAGES:
        lines = enumerate(page.read_text("utf-8").splitlines(), 1)
        found += [f"{page.relative_to(ROOT)}:{line}: {text!r}" for line, text in lines if STUMBLES.search(text)]
    assert not found, "\n".join(found)
    assert seen > 200  # or helps are written in another way now


@pytest.mark.parametrize(
    "text", ["x is no net", "foretold from 3 games", "look on while", "sift less", "so many games", "There is no x"]
)
def test_the_patterns_find_what_they_are_for(text: str) -> None:
    assert bool(STUMBLES.search(text)) is (not text.startswith("There"))
