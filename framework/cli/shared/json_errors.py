"""What a verb prints on standard output when it was asked for JSON or for annotations and ends with an error.

In: the command line and the error. Out: one JSON document, the same for every verb (`schemas/error.v1.schema.json`), or
GitHub's annotations; "" where neither was asked for. The sentence for people stays on standard error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise

import click

from framework.diagnose.diagnostic import Diagnostic
from framework.diagnose.render import as_dict, github
from framework.diagnose.secrets import redacted
from framework.errors import ConfigError, FloeError

_LOGGED = frozenset({"run", "coordinator"})
_GROUPS = frozenset({"dlq", "local", "offsets", "templates"})


def error_document(arguments: Sequence[str], error: FloeError | click.ClickException) -> str:
    """The document, or "" where the command line asks for neither JSON nor annotations."""
    if _asks_for(arguments, "github"):
        return "\n".join(map(github, findings_of(error)))
    if not asks_for_json(arguments):
        return ""
    return json.dumps(document_of(arguments, error), indent=2)


def document_of(arguments: Sequence[str], error: FloeError | click.ClickException) -> dict[str, object]:
    """The document of an error of a command line."""
    diagnostics = error.diagnostics if isinstance(error, ConfigError) else ()
    first = next((finding for finding in diagnostics if finding.is_error), None)
    if isinstance(error, FloeError):
        reported = {"message": error.message, "place": error.place, "remedy": error.remedy}
        # Many findings are reported under the code of the first; the error's own says only that there are some.
        code = first.code if first is not None else error.code
    else:
        reported, code = {"message": error.format_message(), "place": "", "remedy": _help_of(error)}, "FLOE-C002"
    return {
        "command": _command(arguments),
        "ok": False,
        "exit_code": error.exit_code,
        "error": {"code": code, **{key: redacted(text) for key, text in reported.items()}},
        "diagnostics": [as_dict(finding) for finding in diagnostics],
    }


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether `--json` or `--format json` is among the options."""
    return "--json" in _options(arguments) or _asks_for(arguments, "json")


def findings_of(error: FloeError | click.ClickException) -> tuple[Diagnostic, ...]:
    """What an error says, as findings."""
    if isinstance(error, ConfigError) and error.diagnostics:
        return error.diagnostics
    if isinstance(error, FloeError):
        place = f" ({error.place})" if error.place else ""
        return (Diagnostic(error.code, redacted(error.message) + place, None, remedy=redacted(error.remedy) or None),)
    return (Diagnostic("FLOE-C002", redacted(error.format_message()), None, remedy=_help_of(error)),)


def _help_of(error: click.ClickException) -> str:
    """Of the verb whose words are wrong, or of floe where the verb is."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"`{context.command_path if context is not None else 'floe'} --help` lists what it takes"


def _asks_for(arguments: Sequence[str], format_: str) -> bool:
    options = _options(arguments)
    return f"--format={format_}" in options or ("--format", format_) in pairwise(options)


def _options(arguments: Sequence[str]) -> list[str]:
    return list(arguments[: arguments.index("--")] if "--" in arguments else arguments)


def asks_for_json_log(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether the lines of a driver or a coordinator are to be JSON."""
    if not arguments or arguments[0] not in _LOGGED:
        return False
    if "--log-format=json" in arguments or ("--log-format", "json") in pairwise(arguments):
        return True
    is_said = any(word.startswith("--log-format") for word in arguments)
    return not is_said and environment.get("FLOE_LOG_FORMAT") == "json"


def _command(arguments: Sequence[str]) -> str:
    """`plan`, or `dlq list` for a verb of a group."""
    words = [word for word in arguments if not word.startswith("-")]
    if words[:1] and words[0] in _GROUPS:
        return " ".join(words[:2])
    return words[0] if words else ""
