"""The reference page of all codes, as Markdown, made from what `floe explain` says."""

from __future__ import annotations

from framework.diagnose.codes.catalogue import CODES
from framework.diagnose.transcript import repair_lines, seen_lines

_FAMILIES = (
    ("C", "Files and options", "Exit code 2. Nothing was run."),
    ("E", "The environment", "Exit code 3. Nothing was read and nothing was written."),
    ("P", "Plans", "Exit code 2. Nothing was started."),
    ("R", "Runs", "Exit code 1, or the code that the message names: 4 fenced, 5 disagreement, 6 blocked, 7 deadline."),
    ("D", "Records", "Why a record is a dead letter, or why a run stopped at it (`errors.policy: fail`)."),
    ("T", "Tables", "Why a table is not created or changed."),
)


def page() -> str:
    """All codes by family, with their examples and transcripts."""
    parts = [
        "# Codes",
        "",
        "<!-- Made from framework/diagnose/codes_*.py by `floe explain --format markdown`; change those files. -->",
        "",
        "`floe explain CODE` shows the same in a terminal. Codes are stable: none is ever reused for something else.",
    ]
    for letter, title, about in _FAMILIES:
        parts += ["", f"## {title} (FLOE-{letter})", "", about]
        for entry in (entry for code, entry in sorted(CODES.items()) if code[5] == letter):
            parts += ["", f"### {entry.code}: {entry.title}", "", entry.text]
            for word, example in (("Wrong", entry.wrong), ("Right", entry.right)):
                if example:
                    language = "sh" if entry.about == "command" else "yaml"
                    text = f"floe {example}" if entry.about == "command" else example
                    parts += ["", f"{word}:", "", f"```{language}", *text.rstrip("\n").split("\n"), "```"]
            if entry.transcript:
                parts += ["", "What you see:", "", "```text", *seen_lines(entry), "```"]
                parts += ["", "How to repair it:", "", "```text", *repair_lines(entry), "```"]
    return "\n".join(parts) + "\n"
