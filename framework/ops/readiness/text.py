"""A scorecard as Markdown, as one HTML page without anything from elsewhere, or as JSON.

In: a Scorecard. Out: text. Whatever came from a broker, a catalog or a file is escaped: it is neither markup nor a control
character in any of the forms.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape

from framework.diagnose.counted import counted, moment_text
from framework.diagnose.shown import is_command, shown
from framework.ops.readiness.model import Check, CheckVerdict, Evidence, Scorecard

_MARKS = {CheckVerdict.PASS: "✔", CheckVerdict.WARN: "!", CheckVerdict.FAIL: "✘", CheckVerdict.NOT_CHECKED: "–"}
_STYLE = (
    ":root{color-scheme:light dark;--ok:#1a7f37;--warn:#9a6700;--bad:#cf222e;--grey:#6e7781}"
    "@media(prefers-color-scheme:dark){:root{--ok:#3fb950;--warn:#d29922;--bad:#f85149;--grey:#8b949e}}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.4rem .6rem;"
    "border-bottom:1px solid #8884}code{font-family:ui-monospace,monospace;overflow-wrap:anywhere}"
    ".pass{color:var(--ok)}.warn{color:var(--warn)}.fail{color:var(--bad)}.not-checked{color:var(--grey)}"
    "li{margin:.25rem 0;overflow-wrap:anywhere}"
)


def rendered(card: Scorecard, format_: str) -> str:
    """The scorecard as `md`, `json` or `html`."""
    if format_ == "json":
        return json.dumps(card.to_json(), indent=2)
    return html(card) if format_ == "html" else "\n".join(markdown(card))


def _headline(card: Scorecard) -> str:
    counts = {verdict: sum(check.verdict is verdict for check in card.checks) for verdict in CheckVerdict}
    said = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)
    unseen, total = counts[CheckVerdict.NOT_CHECKED], len(card.checks)
    part = "half of it or more" if unseen * 2 >= total else f"{unseen} of {counted(total, 'check')}"
    were = "was" if unseen == 1 or unseen * 2 >= total else "were"
    doubt = f", but {part} {were} not checked" if unseen and card.is_go else ""
    return f"{'go' if card.is_go else 'NO GO'}{doubt}: {said}"


def _facts(card: Scorecard) -> str:
    when = moment_text(card.at_ms)
    return f"{card.file}, target {card.target}, floe {card.floe}, {when}"


# ---- Markdown -------------------------------------------------------------------------------------------------------


def markdown(card: Scorecard) -> Iterator[str]:
    """The lines of the page: the table first, then each check with its evidence, then the plans."""
    yield f"# {_plain(card.pipeline)}: {_headline(card)}"
    yield ""
    yield _plain(_facts(card))
    yield ""
    yield "| check | verdict | question |"
    yield "|---|---|---|"
    for check in card.checks:
        yield f"| {check.name} | {_MARKS[check.verdict]} {check.verdict.value} | {check.question} |"
    for check in card.checks:
        yield ""
        yield f"## {check.name}: {check.verdict.value}"
        yield ""
        for seen in check.seen or (Evidence(CheckVerdict.NOT_CHECKED, "nothing was looked at"),):
            yield f"- {_MARKS[seen.verdict]} {_plain(seen.text)}"
            if seen.remedy:
                yield f"  - remedy: {_remedy(seen.remedy)}"
    for title, steps in (("Cut-over", card.cut_over), ("The way back", card.back)):
        if steps:
            yield ""
            yield f"## {title}"
            yield ""
            yield from (f"{number}. {_step(step)}" for number, step in enumerate(steps, start=1))


def _plain(text: str) -> str:
    """Text that is no markup: what could begin some has a backslash."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|!" else c for c in shown(text))


def _code(text: str) -> str:
    line = shown(text)
    return f"`` {line} ``" if "`" in line else f"`{line}`"


def _remedy(text: str) -> str:
    """A command as code; in a sentence, what stands between back quotes."""
    parts = text.split("`")
    if is_command(text) or len(parts) % 2 == 0:
        return _code(text)
    return "".join(_code(part) if number % 2 else _plain(part) for number, part in enumerate(parts))


def _step(step: str) -> str:
    """A step; what stands behind `: ` and begins with a command is one."""
    words, separator, command = step.partition(": floe ")
    return f"{_plain(words)}: {_code(f'floe {command}')}" if separator else _plain(step)


# ---- HTML -----------------------------------------------------------------------------------------------------------


def html(card: Scorecard) -> str:
    """One page, readable on a phone, in the dark and on paper."""
    rows = "".join(
        f'<tr><td><a href="#{check.name}">{escape(check.name)}</a></td><td class="{_class(check.verdict)}">'
        f"{_MARKS[check.verdict]} {check.verdict.value}</td><td>{escape(check.question)}</td></tr>"
        for check in card.checks
    )
    plans = "".join(
        f"<h2>{title}</h2><ol>{''.join(f'<li>{_shown(step)}</li>' for step in steps)}</ol>"
        for title, steps in (("Cut-over", card.cut_over), ("The way back", card.back))
        if steps
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_shown(card.pipeline)}: {'go' if card.is_go else 'NO GO'}</title><style>{_STYLE}</style></head><body>"
        f'<h1>{_shown(card.pipeline)}: <span class="{"pass" if card.is_go else "fail"}">{_headline(card)}</span></h1>'
        f"<p>{_shown(_facts(card))}</p>"
        f"<table><tr><th>check</th><th>verdict</th><th>question</th></tr>{rows}</table>"
        f"{''.join(map(_section, card.checks))}{plans}</body></html>"
    )


def _section(check: Check) -> str:
    items = "".join(
        f'<li><span class="{_class(seen.verdict)}">{_MARKS[seen.verdict]} {seen.verdict.value}</span> {_shown(seen.text)}'
        + (f"<br>remedy: {_remedy_html(seen.remedy)}" if seen.remedy else "")
        + "</li>"
        for seen in check.seen or (Evidence(CheckVerdict.NOT_CHECKED, "nothing was looked at"),)
    )
    return f'<h2 id="{check.name}">{escape(check.name)}: {check.verdict.value}</h2><ul>{items}</ul>'


def _class(verdict: CheckVerdict) -> str:
    return verdict.value.replace(" ", "-")


def _shown(text: str) -> str:
    return escape(shown(text))


def _remedy_html(text: str) -> str:
    parts = text.split("`")
    if is_command(text) or len(parts) % 2 == 0:
        return f"<code>{_shown(text)}</code>"
    return "".join(f"<code>{_shown(part)}</code>" if number % 2 else _shown(part) for number, part in enumerate(parts))
