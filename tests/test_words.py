"""Plain words: what a person reads says "is not a" rather than "is no", and no option's help is long."""

import ast
import re
from collections.abc import Iterator

import pytest
from commandline import ROOT

STUMBLES = re.compile(
    r"(?<!here) (?:is|are) no |it is no\b|\bforet(?:ell|old)|\bforese[en]|\blook(?:s|ing)? on\b|\bsift|\bwhatever it\b"
    r"|\bunless given\b|\bthereby\b",
    re.IGNORECASE,
)
LONGEST_HELP = 25
"""Words."""

SOURCES = [*sorted((ROOT / "arena").rglob("*.py")), *sorted((ROOT / "bots").glob("*.py"))]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every string but docstrings without an example; what an f-string inserts is left out."""
    silent = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    notes = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    silent |= {id(note) for note in notes if "Example" not in spoken(note)}  # helps of commands have examples
    for node in ast.walk(tree):
        if id(node) not in silent and (text := spoken(node)):
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
    "text", ["x is no net", "foretold from 3 games", "look on while", "sift less", "There is no x"]
)
def test_the_patterns_find_what_they_are_for(text: str) -> None:
    assert bool(STUMBLES.search(text)) is (not text.startswith("There"))
