"""`floe`: the list of verbs, and what an error means for the process's exit code.

In: the command line. Out: an exit code: 0 done, 1 something failed, 2 a file or an option is wrong, 3 the environment is
wrong, the others as in `framework.errors`, 128 plus the number of a signal. A verb's module is imported when it is used,
so that checking files loads no engine.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from types import FrameType

import click

from framework.adapters.sinks import error_text, guarded_streams
from framework.diagnose.suggest import did_you_mean
from framework.errors import ConfigError, FloeError

# Every verb: its module and command object, and its one-line help, shown without importing it.
VERBS: dict[str, tuple[str, str]] = {
    "init": ("framework.cli.init:init", "Write a new pipeline file, from answers or from real records."),
    "validate": ("framework.cli.validate:validate", "Check pipeline files without a cluster."),
    "render": ("framework.cli.render:render_command", "Print a file with templates, target and variables filled in."),
    "explain": ("framework.cli.explain:explain", "Explain an error code, with a wrong and a right example."),
    "migrate": ("framework.cli.migrate:migrate_command", "Update files to the current version of their format."),
    "schema": ("framework.cli.schema:schema", "Print a JSON Schema for editors."),
    "docs": ("framework.cli.docs:docs", "Write the reference as Markdown pages."),
    "completion": ("framework.cli.completion:completion", "Print a shell's completion script."),
    "test": ("framework.cli.test_verb:test", "Run the tests inside pipeline files, without Kafka."),
    "templates": (
        "framework.cli.templates:templates",
        "List, describe and test shared templates; lock libraries of them.",
    ),
    "import-connector": (
        "framework.cli.import_connector:import_connector_command",
        "Turn an Iceberg sink of Kafka Connect into a pipeline file.",
    ),
    "plan": ("framework.cli.plan:plan", "Show what a run would do, before you run it."),
    "diff": ("framework.cli.diff:diff", "Show what differs from what was deployed."),
    "graph": ("framework.cli.graph:graph", "Draw topics, pipelines and tables as Mermaid, DOT or SVG."),
    "run": ("framework.cli.run:run", "Run pipelines."),
    "coordinator": ("framework.cli.coordinator:coordinator", "Run the commit coordinator alone."),
    "submit": ("framework.cli.submit:submit", "Run pipelines on a cluster through spark-submit."),
    "deploy": ("framework.cli.deploy:deploy", "Roll out a folder of pipelines, and show what runs."),
    "package": ("framework.cli.package:package", "Build the archive of Python packages that `submit` ships."),
    "doctor": ("framework.cli.doctor:doctor", "Check this machine and a target, line by line, with remedies."),
    "status": ("framework.cli.status:status", "Show what is read, announced and committed."),
    "log": ("framework.cli.log:log", "Print the control topic as a commit log."),
    "pause": ("framework.cli.pause:pause", "Pause the reading of pipelines or the commits of tables."),
    "resume": ("framework.cli.pause:resume", "Resume what was paused."),
    "stop": ("framework.cli.stop:stop", "Ask a pipeline's live run, wherever it is, to drain and end."),
    "maintain": ("framework.cli.maintain:maintain", "Keep tables healthy: expire snapshots, remove what nobody needs."),
    "clean": ("framework.cli.clean:clean", "Find files that no table and no announcement names, and remove them."),
    "offsets": ("framework.cli.offsets:offsets", "Show a pipeline's source offsets everywhere, or move them."),
    "rebase": ("framework.cli.rebase:rebase", "Let a pipeline go on from what its tables hold."),
    "discard": ("framework.cli.discard:discard", "Give up what waits for a table that can never take it."),
    "dlq": ("framework.cli.dlq:dlq", "Look at dead letters, and replay them."),
    "rollback": ("framework.cli.rollback:rollback", "Roll a table back to an older snapshot."),
    "replay": ("framework.cli.replay:replay", "Read source ranges again for one table."),
    "local": ("framework.cli.local:local", "Start and stop the embedded broker and catalog."),
    "demo": ("framework.cli.demo:demo", "Run the demonstration."),
}


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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in VERBS.items()])


@click.group(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="floe-pipelines", prog_name="floe")
def floe() -> None:
    """Lands Kafka streams in Apache Iceberg tables, declaratively and exactly once."""


def show_error(error: FloeError) -> str:
    """An error as it is shown: every finding of a wrong file, or the sentence, the place and the remedy."""
    if isinstance(error, ConfigError) and error.diagnostics:
        from framework.diagnose.render import render

        files = list(dict.fromkeys(finding.span.file for finding in error.diagnostics if finding.span))
        return render(error.diagnostics, "text", files, colour=use_colour(sys.stderr.isatty()))
    return error_text(error)


def use_colour(is_terminal: bool) -> bool:
    """Colour only for a terminal, and never under NO_COLOR."""
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def main(arguments: list[str] | None = None) -> None:
    """Runs one verb and ends the process with its exit code."""
    sys.exit(run_main(arguments))


def run_main(arguments: list[str] | None = None) -> int:
    """Runs one verb and returns its exit code; what goes wrong is told on standard error."""
    with guarded_streams():
        return _run_verb(arguments)


def _run_verb(arguments: list[str] | None) -> int:
    signal.signal(signal.SIGTERM, _end_by_signal)
    try:
        result = floe.main(args=arguments, prog_name="floe", standalone_mode=False)
    except FloeError as error:
        click.echo(show_error(error), err=True)
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
        # The reader of our output went away; nothing is left to tell it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return result if isinstance(result, int) else 0


def _print_json(arguments: list[str] | None, error: FloeError | click.ClickException) -> None:
    """The error on standard output too, where a program reads it."""
    from framework.cli.json_errors import error_document

    if document := error_document(sys.argv[1:] if arguments is None else arguments, error):
        click.echo(document)


def _end_by_signal(number: int, frame: FrameType | None) -> None:
    """A verb that drains installs its own handler; all others end at once."""
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
