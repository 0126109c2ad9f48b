"""`floe`: its verbs, and what an error means for the process's exit code.

In: the command line. Out: an exit code: 0 done, 1 something failed, 2 a file or an option is wrong, 3 the environment is
wrong, the others as in `framework.errors`, 128 plus the number of a signal. A verb's module is imported when it is used,
so that checking files loads no engine.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING

import click

from framework import __version__
from framework.adapters.telemetry.safe_output import error_text, guarded_streams
from framework.cli.shared.options import use_colour
from framework.cli.verbs import GROUPS, VERBS
from framework.diagnose.suggest import did_you_mean
from framework.errors import ConfigError, FloeError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class VerbGroup(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _, attribute = VERBS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], VERBS)
            ctx.fail(f"there is no command `{args[0]}`{f'; {hint}' if hint else ''}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs with their help, without importing any."""
        from click.shell_completion import CompletionItem

        verbs = [
            CompletionItem(name, help=reported) for name, (_, reported) in VERBS.items() if name.startswith(incomplete)
        ]
        return verbs or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, VERBS))
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), reported) for name, (_, reported) in verbs.items()])


def _show_version(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from framework.adapters.host.installed import commit

    click.echo(f"floe, version {__version__} ({commit() or 'commit unknown'})")
    context.exit()


@click.group(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show version and commit, and end.",
)
def floe() -> None:
    """Lands Kafka streams in Apache Iceberg tables, declaratively and exactly once."""


def show_error(error: FloeError) -> str:
    """An error as it is shown: every finding of a wrong file, or the sentence, the place and the remedy."""
    if isinstance(error, ConfigError) and error.diagnostics:
        from framework.diagnose.render import render

        files = list(dict.fromkeys(finding.span.file for finding in error.diagnostics if finding.span))
        return render(error.diagnostics, "text", files, colour=use_colour(sys.stderr.isatty()))
    return error_text(error)


def main(arguments: list[str] | None = None) -> None:
    """Runs one verb and ends the process with its exit code."""
    with _log_of(sys.argv[1:] if arguments is None else arguments):
        code = run_main(arguments)
    gc.freeze()  # the process ends, and Python would look through all that it holds for cycles once more
    sys.exit(code)


def _log_of(arguments: list[str]) -> AbstractContextManager[None]:
    """Where lines of a log are to be JSON, all of standard error is."""
    if arguments[:1] not in (["run"], ["coordinator"]):
        return nullcontext()
    from framework.cli.shared.json_errors import asks_for_json_log

    if not asks_for_json_log(arguments, os.environ):
        return nullcontext()
    from framework.adapters.telemetry.json_lines import only_json

    return only_json()


def run_main(arguments: list[str] | None = None) -> int:
    """Runs one verb and returns its exit code; what goes wrong is reported on standard error."""
    with guarded_streams():
        return _run_verb(arguments)


def _run_verb(arguments: list[str] | None) -> int:
    signal.signal(signal.SIGTERM, _end_by_signal)
    try:
        result = floe.main(args=arguments, prog_name="floe", standalone_mode=False)
    except FloeError as error:
        _name_the_place(arguments, error)
        click.echo(_logged(arguments, error) or show_error(error), err=True)
        _print_json(arguments, error)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        _print_json(arguments, error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader of our output went away; nothing is left to report it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return result if isinstance(result, int) else 0


def _name_the_place(arguments: list[str] | None, error: FloeError) -> None:
    """The commands of a remedy are for the target and the file that were typed."""
    from framework.cli.shared.typed_place import typed_file, typed_place
    from framework.diagnose.whole_commands import whole_commands

    words = sys.argv[1:] if arguments is None else arguments
    error.remedy = whole_commands(error.remedy, typed_place(words), typed_file(words))


def _logged(arguments: list[str] | None, error: FloeError) -> str:
    """The error as a line of the log, where that is JSON; "" elsewhere."""
    from framework.cli.shared.json_errors import asks_for_json_log

    if not asks_for_json_log(sys.argv[1:] if arguments is None else arguments, os.environ):
        return ""
    from framework.adapters.telemetry.run_log import error_line

    return error_line(error)


def _print_json(arguments: list[str] | None, error: FloeError | click.ClickException) -> None:
    """The error on standard output too, where a program reads it."""
    from framework.cli.shared.json_errors import error_document

    if document := error_document(sys.argv[1:] if arguments is None else arguments, error):
        click.echo(document)


def _end_by_signal(number: int, frame: FrameType | None) -> None:
    """A verb that drains installs its own handler; all others end at once."""
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
