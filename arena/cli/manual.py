"""The help of a command as a manual has it: paragraphs that fit any width, and the examples below, a line each."""

from __future__ import annotations

from inspect import cleandoc

import typer


def manual(docstring: str) -> str:
    """Help for Typer of a command's docstring, whose paragraphs that begin with ``Example:`` or ``Examples:`` list
    commands between dots; the lines of a paragraph are joined, as Typer would break where the source does."""
    paragraphs, examples = [], []
    for paragraph in cleandoc(docstring).split("\n\n"):
        text = " ".join(paragraph.split())
        if text.startswith(("Example:", "Examples:")):
            examples += [example.strip() for example in text.partition(":")[2].split(" · ")]
        else:
            paragraphs.append(text)
    if not examples:
        return "\n\n".join(paragraphs)
    listed = [f"Example{'s' * (len(examples) > 1)}:", *(f"  {example}" for example in examples)]
    if len(paragraphs) == 1:
        listed.insert(0, "")  # Typer takes the indentation of its second paragraph away, unless that begins so
    return "\n\n".join([*paragraphs, "\n".join(listed)])


def add_manuals(app: typer.Typer) -> None:
    """Give every command of an application, and of those in it, its help in this form."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.help = manual(command.callback.__doc__ or "")
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_manuals(group.typer_instance)
