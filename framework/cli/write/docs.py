"""`floe docs`: the reference as Markdown pages, alerts and a dashboard, from what this version itself knows."""

from __future__ import annotations

from pathlib import Path

import click

from framework.cli.write import commands_page
from framework.config.writing import reference_page
from framework.diagnose.codes import page as codes_page
from framework.metrics import dashboard, metrics_page, rules_files


def pages() -> dict[str, str]:
    """Every reference page, and what is made beside them, by its file name."""
    from framework.cli.main import floe  # the list of verbs imports this module's verb, not the other way round

    return {
        "commands.md": commands_page.page(floe),
        "codes.md": codes_page.page(),
        metrics_page.METRICS_FILE: metrics_page.page(),
        rules_files.RULES_FILE: rules_files.rules(),
        rules_files.RULE_TESTS_FILE: rules_files.rule_tests(),
        dashboard.DASHBOARD_FILE: dashboard.dashboard(),
        **{f"{name}-file.md": reference_page.page(name) for name in ("pipeline", "target", "template")},
    }


@click.command()
@click.option(
    "--output",
    "-o",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("docs/reference"),
    show_default=True,
    help="The folder to write to.",
)
@click.option("--check", is_flag=True, help="Write nothing; end with 1 if a page is not up to date.")
def docs(output: Path, check: bool) -> int:
    """Write the reference of files, commands, codes and metrics, with alert rules for Prometheus and a dashboard for Grafana."""
    stale = [name for name, text in pages().items() if _present(output / name) != text]
    for name in stale:
        click.echo(f"{output / name}: {'is not up to date' if check else 'written'}")
        if not check:
            output.mkdir(parents=True, exist_ok=True)
            (output / name).write_text(pages()[name], encoding="utf-8")
    if not stale:
        click.echo(f"{output}: {len(pages())} pages are up to date")
    return 1 if check and stale else 0


def _present(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
