"""Templates: a file with `#%` lines and quoted `{{ }}` to plain YAML text.

In: a source, the values that it may use, and a way to read included files. Out: the rendered text, and on demand its
`SourceMap`. Positions cost a second rendering with markers, so they are made only when there is something to point at;
where the marked text differs from the plain one (text that is captured and measured), no position is claimed.
"""

from __future__ import annotations

import posixpath
import re
import traceback
from collections.abc import Callable
from collections.abc import Mapping as Mapped
from dataclasses import dataclass
from functools import cached_property

from framework.config.filled.origin import RESERVED, SourceMap, marked, strip_markers
from framework.config.text import SourceText, start_of
from framework.diagnose.diagnostic import Diagnostic, Span
from framework.diagnose.suggest import did_you_mean, listed

ReadInclude = Callable[[str], str]
_STATEMENT = re.compile(r"^[ \t]*#%", re.MULTILINE)
_REFERENCE = re.compile(
    r"^[ \t]*#%-?[ \t]*(include|import|from|extends)[ \t]+(?:\"([^\"]*)\"|'([^']*)'|(.*))", re.MULTILINE
)


def is_template(text: str) -> bool:
    """Whether a text holds anything to render."""
    return "{{" in text or "{%" in text or _STATEMENT.search(text) is not None


@dataclass(frozen=True)
class Rendered:
    """A rendered text under its file's own name; `origin` leads back to what was written."""

    text: SourceText
    written: SourceText
    context: Mapped[str, object]
    read_include: ReadInclude

    @cached_property
    def origin(self) -> SourceMap | None:
        """The map back, or None when the template measures its own output, so that markers would change it."""
        from jinja2 import TemplateError

        from framework.config.templates.sandbox import TextInLoop, TooMuch

        sources: list[SourceText] = []
        try:
            text = _run(self.written, self.context, self.read_include, sources)
        except (TemplateError, RecursionError, TextInLoop, TooMuch):
            return None
        clean, origin = strip_markers(text, tuple(sources))
        return origin if clean == self.text.text else None


def render(
    source: SourceText, context: Mapped[str, object], read_include: ReadInclude
) -> tuple[Rendered | None, list[Diagnostic]]:
    """Renders a template.

    Args:
        context: `var` or `param` and its values.
        read_include: the text of a file, by its path; raises OSError.
    """
    findings = _before(source, read_include)
    if findings:
        return None, findings
    from jinja2 import TemplateError, TemplateNotFound, TemplateSyntaxError, UndefinedError

    from framework.config.templates.sandbox import TextInLoop, TooMuch, UnsafeValue

    try:
        text = _run(source, context, read_include, None)
    except TemplateSyntaxError as error:
        span = _line_span(source, error.name, error.lineno, read_include)
        return None, [_unreadable(str(error.message).rstrip("."), span)]
    except UndefinedError as error:
        return None, [_undefined(source, error, context, read_include)]
    except TemplateNotFound as error:
        span = _raised_at(source, error, read_include)
        return None, [
            Diagnostic(
                "FLOE-C605",
                f"the included file `{error.name}` cannot be read",
                span,
                remedy="check its path, relative to this file",
            )
        ]
    except UnsafeValue as error:
        span = _raised_at(source, error, read_include)
        shown = str(error.value)[:40]
        message = f"the value {shown!r} cannot stand in `{{{{ }}}}`: it is not plain text or a number"
        remedy = "use `${var.NAME}` for values; `{{ }}` takes text without quotes, backslashes and line ends"
        return None, [Diagnostic("FLOE-C608", message, span, remedy=remedy)]
    except TextInLoop as error:
        return None, [_not_a_list(error.text, _raised_at(source, error, read_include))]
    except RecursionError:
        return None, [
            Diagnostic(
                "FLOE-C604", "the template calls itself without end", start_of(source.file), remedy="end the recursion"
            )
        ]
    except TooMuch as error:
        return None, [
            Diagnostic(
                "FLOE-C610",
                f"the template does too much: {error}",
                _raised_at(source, error, read_include),
                remedy="make it smaller",
            )
        ]
    except (
        TemplateError,
        TypeError,
        ValueError,
        ArithmeticError,
        LookupError,
        AttributeError,
        SyntaxError,
    ) as error:
        # What an expression may raise by itself: `1 / 0`, `"a" + 1`, an unknown filter's argument.
        span = _raised_at(source, error, read_include)
        message = f"the template fails: {str(error).rstrip('.') or type(error).__name__}"
        return None, [Diagnostic("FLOE-C601", message, span, remedy="correct the expression")]
    return Rendered(SourceText(source.file, text), source, context, read_include), []


def _not_a_list(text: str, span: Span) -> Diagnostic:
    """A loop over a text; what to write is made of the text, where that shows parts."""
    parts = [part for part in re.split(r"[,;\s]+", text) if part]
    listed_parts = ", ".join(parts) if re.fullmatch(r"[\w.,;\s-]+", text) and parts else "a, b"
    message = f"the loop goes through a list, and {text!r} is text"
    remedy = f"give it a list: `[{listed_parts}]`"
    return Diagnostic("FLOE-C601", message, span, remedy=remedy)


def _unreadable(problem: str, span: Span) -> Diagnostic:
    """What Jinja says of a text that it cannot read, and what to do about the two usual mistakes."""
    from framework.config.templates.sandbox import FILTERS

    hint, remedy = None, "correct the `#%` line or the `{{ }}`"
    if opened := re.search(r"needs to be closed is '(\w+)'", problem):
        problem, remedy = f"a `{opened[1]}` is not closed", f"add a line `#% end{opened[1]}`"
    elif unknown := re.search(r"No filter named '([^']*)'", problem):
        problem, hint = f"there is no filter `{unknown[1]}`", did_you_mean(unknown[1], FILTERS)
        remedy = f"use {listed(sorted(FILTERS))}"
    return Diagnostic("FLOE-C601", f"the template cannot be read: {problem}", span, hint=hint, remedy=remedy)


def _run(
    source: SourceText, context: Mapped[str, object], read_include: ReadInclude, marked_sources: list[SourceText] | None
) -> str:
    from jinja2 import FunctionLoader

    from framework.config.templates.sandbox import MAX_OUTPUT, Sandbox, TooMuch

    def load(name: str) -> str | None:
        text = source.text if name == source.file else None
        if text is None:
            try:
                text = read_include(name)
            except (OSError, UnicodeDecodeError):
                return None
        if marked_sources is None:
            return text
        marked_sources.append(SourceText(name, text))
        return marked(text, len(marked_sources) - 1)

    sandbox = Sandbox(FunctionLoader(load), _join)
    parts: list[str] = []
    size = 0
    for part in sandbox.get_template(source.file).generate(context):
        parts.append(part)
        size += len(part)
        if size > MAX_OUTPUT and marked_sources is None:
            raise TooMuch(f"it produces more than {MAX_OUTPUT} characters")
    return "".join(parts)


def _join(name: str, parent: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(parent), name))


def _before(source: SourceText, read_include: ReadInclude) -> list[Diagnostic]:
    """What can be said before rendering: reserved characters, block tags, includes that leave the folder or go in a
    circle."""
    found = RESERVED.search(source.text)
    if found:
        return [
            Diagnostic(
                "FLOE-C601",
                "the file holds a private-use character that templates reserve",
                source.at_offset(found.start()),
                remedy="remove it",
            )
        ]
    return _check_includes(source, posixpath.dirname(source.file), (source.file,), read_include)


def _check_includes(
    source: SourceText, root: str, chain: tuple[str, ...], read_include: ReadInclude
) -> list[Diagnostic]:
    findings: list[Diagnostic] = []
    for match in _REFERENCE.finditer(source.text):
        word, name = match[1], match[2] if match[2] is not None else match[3]
        if name is None:
            span = source.at_offset(match.start(4), len(match[4].rstrip()))
            findings.append(
                Diagnostic(
                    "FLOE-C603",
                    f"`{word}` needs a literal file name in quotes",
                    span,
                    remedy="write out the name",
                )
            )
            continue
        span = source.at_offset(match.start(2) if match[2] is not None else match.start(3), len(name))
        path = _join(name, source.file)
        inside = (root in ("", ".") and not path.startswith(("../", "/"))) or (
            root not in ("", ".") and path.startswith(root.rstrip("/") + "/")
        )
        if posixpath.isabs(name) or not inside:
            findings.append(
                Diagnostic(
                    "FLOE-C603",
                    f"`{name}` is outside the folder of the first file",
                    span,
                    remedy="keep included files in that folder or below it",
                )
            )
        elif path in chain:
            circle = " -> ".join(posixpath.basename(part) for part in (*chain[chain.index(path) :], path))
            findings.append(
                Diagnostic(
                    "FLOE-C604",
                    f"templates include each other in a circle: {circle}",
                    span,
                    remedy="remove one of the includes",
                )
            )
        else:
            try:
                text = read_include(path)
            except (OSError, UnicodeDecodeError):
                findings.append(
                    Diagnostic(
                        "FLOE-C605",
                        f"the included file `{name}` cannot be read",
                        span,
                        remedy="check its path, relative to this file",
                    )
                )
                continue
            findings += _check_includes(SourceText(path, text), root, (*chain, path), read_include)
    return findings


def _undefined(
    source: SourceText, error: Exception, context: Mapped[str, object], read_include: ReadInclude
) -> Diagnostic:
    span = _raised_at(source, error, read_include)
    message = str(error)
    attribute = re.search(r"has no attribute '([^']*)'", message)
    plain = re.match(r"'([^']*)' is undefined", message)
    if attribute:
        known = [str(key) for values in context.values() if isinstance(values, Mapped) for key in values]
        scope = next(iter(context), "var")
        return Diagnostic(
            "FLOE-C602",
            f"the template uses `{attribute[1]}`, which is not declared",
            span,
            hint=did_you_mean(attribute[1], known),
            remedy=f"declare it under `{'parameters' if scope == 'param' else 'variables'}:`",
        )
    if plain:
        names = [f"{scope}.{key}" for scope, values in context.items() if isinstance(values, Mapped) for key in values]
        hint = next((f"did you mean `{name}`?" for name in names if name.endswith(f".{plain[1]}")), None)
        return Diagnostic(
            "FLOE-C602",
            f"the template uses `{plain[1]}`, which does not exist",
            span,
            hint=hint,
            remedy="use "
            + " or ".join(f"`{scope}.NAME`" for scope in context)
            + f"; a field of the record has one brace: `{{{plain[1]}}}`",
        )
    return Diagnostic(
        "FLOE-C602",
        f"the template uses something that does not exist: {message}",
        span,
        remedy="correct the expression",
    )


def _raised_at(source: SourceText, error: Exception, read_include: ReadInclude) -> Span:
    """The template line that raised an error; Jinja puts template lines into the traceback."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == "<template>"
        or frame.name in ("top-level template code", "template")
        or frame.name.startswith(("block ", "macro"))
    ]
    for frame in reversed(frames):
        name = source.file if frame.filename in ("<template>", source.file) else frame.filename
        return _line_span(source, name, frame.lineno or 1, read_include)
    return start_of(source.file)


def _line_span(source: SourceText, name: str | None, line: int, read_include: ReadInclude) -> Span:
    if name is not None and name not in (source.file, "<template>", "<unknown>"):
        try:
            source = SourceText(name, read_include(name))
        except (OSError, UnicodeDecodeError):
            return start_of(source.file)
    text = source.line(line)
    indent = len(text) - len(text.lstrip())
    return source.at(line, indent + 1, max(len(text.strip()), 1))
