"""`floe templates lock` and `floe templates update`: the only commands that fetch templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

from framework.adapters.project.files import raise_findings, read_text, real_world, template_cache
from framework.adapters.project.template_fetch import fetch, store, tags_of
from framework.config.document import read_source
from framework.config.templates.lock import (
    LOCK_FILE,
    Library,
    folder_problem,
    library_of,
    lock_text,
    name_problem,
    newer,
    read_lock,
    tag_problem,
    text_hash,
    url_problem,
)
from framework.diagnose.counted import counted
from framework.diagnose.shown import argument
from framework.diagnose.suggest import listed
from framework.errors import ConfigError

LOCK = click.option(
    "--lock",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path(LOCK_FILE),
    show_default=True,
    help="The lock, beside the pipeline files or in a folder above them.",
)


def _must(problem_of: Callable[[str], str | None]) -> Callable[..., str | None]:
    def callback(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        if value is not None and (problem := problem_of(value)):
            raise click.BadParameter(problem, context, parameter)
        return value

    return callback


@click.command("lock")
@click.argument("name", required=False, callback=_must(name_problem))
@click.argument("url", required=False, callback=_must(url_problem))
@click.option("--tag", callback=_must(tag_problem), help="The version to lock: a tag of the repository.")
@click.option(
    "--folder",
    callback=_must(folder_problem),
    help="Where the templates are in the repository; by default `templates` where there is one, else its root.",
)
@LOCK
def lock(name: str | None, url: str | None, tag: str | None, folder: str | None, file: Path) -> int:
    """Fetch the libraries that the lock names; with NAME, URL and --tag, add one.

    Without arguments it changes nothing in the lock, and refuses what is not what was locked: run it where files are checked
    or submitted. A second version of a library lies beside the first: `acme:landing@1`, `acme:landing@2`.

    \b
    floe templates lock acme https://git.example.com/acme/templates.git --tag v1.2.0
    floe templates lock
    """
    if name is None:
        return _restore(file)
    if url is None or tag is None:
        raise click.UsageError("a library has NAME, URL and --tag")
    libraries = _read(file) if file.exists() else ()
    found = fetch(url, tag, folder)
    new = library_of(name, url, tag, found.commit, found.folder, found.texts)
    old = next((each for each in libraries if (each.name, each.tag) == (name, tag)), None)
    if old is not None and old.url == url and old.commit != new.commit:
        raise _moved(old, new.commit, file)
    store(new, found.texts, template_cache())
    _write(file, [*(each for each in libraries if each is not old), new])
    click.echo(f"{new.shown}: {counted(len(new.files), 'file')} of commit {new.commit[:12]}, locked in {file}")
    beside = [each for each in libraries if each.name == name and each.tag != tag]
    if beside:
        names = listed([f"{name}:TEMPLATE@{each.tag.removeprefix('v')}" for each in (*beside, new)])
        click.echo(
            f"it lies beside {listed([each.shown for each in beside], 'and')}; pipelines say which they mean: {names}"
        )
    return 0


@click.command("update")
@click.argument("names", nargs=-1, metavar="[NAME[@VERSION]]...")
@click.option("--major", is_flag=True, help="Also take a version with another first number.")
@LOCK
def update(names: tuple[str, ...], major: bool, file: Path) -> int:
    """Lock the newest version of libraries, of all or of those that are named, and say which files changed.

    Takes tags such as v1.2.0 with the same first number; a tag that is no version is fetched again. What it would change in
    pipelines, `floe diff --template` shows.

    \b
    floe templates update
    floe templates update acme@1 --major
    """
    libraries = list(_read(file))
    for chosen in _chosen(libraries, names, file):
        tags = tags_of(chosen.url)
        tag = newer(chosen.tag, list(tags), major)
        if tag == chosen.tag and tags.get(tag) == chosen.commit:
            click.echo(f"{chosen.shown}: no newer version")
            continue
        found = fetch(chosen.url, tag, chosen.folder)
        new = library_of(chosen.name, chosen.url, tag, found.commit, found.folder, found.texts)
        store(new, found.texts, template_cache())
        libraries = [
            each for each in libraries if each is not chosen and (each.name, each.tag) != (new.name, new.tag)
        ] + [new]
        click.echo(f"{chosen.shown} -> {new.shown}")
        for line in _changed(chosen, new):
            click.echo(f"  {line}")
    _write(file, libraries)
    return 0


def _restore(file: Path) -> int:
    for library in _read(file):
        if _is_here(library):
            click.echo(f"{library.shown}: here")
            continue
        found = fetch(library.url, library.tag, library.folder)
        now = library_of(library.name, library.url, library.tag, found.commit, found.folder, found.texts)
        if now != library:
            raise _moved(library, found.commit, file)
        store(library, found.texts, template_cache())
        click.echo(f"{library.shown}: fetched")
    return 0


def _is_here(library: Library) -> bool:
    root = template_cache() / library.content
    try:
        return all(text_hash(read_text(root / path)) == digest for path, digest in library.files)
    except (OSError, UnicodeDecodeError):
        return False


def _read(file: Path) -> tuple[Library, ...]:
    source, problem = read_source(file, real_world(offline=True))
    if source is None:
        if problem and not problem.absent:
            raise_findings("the lock cannot be read", (problem.diagnostic,))
        remedy = "add a library: `floe templates lock NAME URL --tag TAG`"
        raise ConfigError("there is no lock of templates", code="FLOE-C615", place=str(file), remedy=remedy)
    libraries, findings = read_lock(source)
    if findings:
        raise_findings("the lock cannot be used", findings)
    return libraries


def _write(file: Path, libraries: Sequence[Library]) -> None:
    text = lock_text(libraries)
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def _chosen(libraries: Sequence[Library], names: Sequence[str], file: Path) -> list[Library]:
    if not names:
        return list(libraries)
    chosen = []
    for name in names:
        library, _, version = name.partition("@")
        fitting = [each for each in libraries if each.name == library and (not version or each.is_version(version))]
        if not fitting:
            known = ", ".join(each.shown for each in libraries)
            message = f"the lock has no library `{name}`"
            raise ConfigError(message, code="FLOE-C605", place=str(file), remedy=f"it has {known or 'none'}")
        chosen += fitting
    return list(dict.fromkeys(chosen))


def _changed(old: Library, new: Library) -> Iterator[str]:
    before, after = dict(old.files), dict(new.files)
    for path in sorted({*before, *after}):
        if before.get(path) != after.get(path):
            yield f"{'+' if path not in before else '-' if path not in after else '~'} {path}"


def _moved(library: Library, commit: str, file: Path) -> ConfigError:
    message = f"the tag {library.tag} of `{library.name}` is not what was locked: commit {commit}, not {library.commit}"
    remedy = f"ask the owners why; `floe templates update {argument(library.shown)}` takes it as it is now"
    return ConfigError(message, code="FLOE-C616", place=str(file), remedy=remedy)
