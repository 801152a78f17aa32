"""The look that all cards of the course share: one style sheet, escaping, light and dark themes of JupyterLab.

Colours come from JupyterLab's own variables, with values that read well where they are missing. Nothing is loaded from
outside, and nothing is said by colour alone. Selectors repeat the class three times so that they win against
JupyterLab's rules for tables, code and paragraphs.

May import: nothing of the course.
"""

import html
import re

_RULES = """
&{
--line:var(--jp-border-color2,#c9ccd1);--soft:var(--jp-layout-color2,#f2f3f5);
--faint:var(--jp-ui-font-color2,#5c6370);--ok:#1b6e3f;--bad:#a8281f;--none:#4a5568;--ask:#7a4d00;
--m0:var(--jp-layout-color2,#e9ebee);--m1:#fdb863;--m2:#e66101;--m3:#7b1e3a;--mn:#5e3c99;
border:1px solid var(--line);border-radius:8px;overflow:hidden;max-width:54rem;margin:.3rem 0;
color:var(--jp-content-font-color1,inherit);font-family:var(--jp-content-font-family,system-ui,sans-serif);
font-size:var(--jp-content-font-size1,14px);line-height:1.5;}
[data-jp-theme-light="false"] &{--m1:#8a5a1c;--m2:#e08214;--m3:#fee0b6;--mn:#b2abd2}
& header{
display:flex;flex-wrap:wrap;align-items:center;gap:.2rem .8rem;padding:.5rem .9rem;background:var(--soft);
border-bottom:1px solid var(--line);}
& .state{
color:#fff;font-weight:700;letter-spacing:.03em;border-radius:5px;padding:.08rem .6rem;white-space:nowrap;}
& .pass{background:var(--ok)}
& .fail{background:var(--bad)}
& .notstarted{background:var(--none)}
& .notverifiedhere{background:var(--ask)}
& .name{font-weight:600}
& .apart{display:none}
& .hints:focus{outline:none}
& .facts{margin-left:auto;color:var(--faint);font-size:.92em}
& .body{padding:.3rem .9rem .7rem}
& p{margin:.45rem 0;color:inherit}
& .said{
border-left:4px solid var(--bad);padding:.25rem .8rem;margin:.6rem 0;background:var(--soft);
border-radius:0 5px 5px 0;}
& .said p,& .said{overflow-wrap:anywhere}
& .cases td:first-child{white-space:nowrap}
& .cases{overflow-x:auto}
& .said.remark{border-color:var(--ask)}
& .said.tip{border-color:var(--none)}
& .said code{background:var(--jp-layout-color0,#fff)}
& .lead{font-weight:700}
& button{
font:inherit;font-weight:600;color:inherit;background:var(--jp-layout-color0,#fff);border:1px solid var(--faint);
border-radius:5px;padding:.1rem .7rem;cursor:pointer;}
& button:hover{border-color:currentColor}
& button:focus-visible{outline:2px solid var(--jp-brand-color1,#1976d2);outline-offset:2px}
& .faint{color:var(--faint);font-size:.92em}
& code,& pre{
font-family:var(--jp-code-font-family,ui-monospace,monospace);font-size:.92em;color:inherit;background:none;}
& code{background:var(--soft);border-radius:3px;padding:0 .25em}
& pre{
white-space:pre;background:var(--soft);border-radius:5px;padding:.5rem .7rem;margin:.4rem 0;overflow:auto;
max-height:26rem;line-height:1.35;}
& pre b{font-weight:700}
& pre .row{display:block;padding-left:.5em}
& pre .add{box-shadow:inset 3px 0 var(--ok)}
& pre .del{box-shadow:inset 3px 0 var(--bad)}
& pre .at{color:var(--faint)}
& table{border-collapse:collapse;margin:.4rem 0;font-size:.95em;color:inherit}
& th,& td{padding:.12rem .9rem .12rem 0;text-align:left;vertical-align:top;border:0;background:none;}
& th{font-weight:600;color:var(--faint);border-bottom:1px solid var(--line)}
& td.n,& th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap;}
& tbody tr{background:none}
& details{margin:.45rem 0}
& summary{cursor:pointer;font-weight:600}
& svg{display:block;max-width:100%;height:auto;margin:.3rem 0}
& svg text{fill:var(--faint);font-size:11px}
& .bar{height:.6rem;border-radius:3px;background:var(--faint);min-width:2px}
& ol{margin:.3rem 0;padding-left:1.4rem}
& .key{display:inline-flex;align-items:center;gap:.35em;margin-right:1.2em}
& .key svg{margin:0}
"""
# for readers of the bare text; the style sheet sets the parts apart and hides these
SEPARATOR, COLON, LEGEND = (f'<span class="apart">{mark}</span> ' for mark in (" ·", ":", "Its squares:"))
STYLE = f"<style>{_RULES.replace('&', '.course-card' * 3)}</style>"


def escape(text):
    """Text that came from a learner or a compiler, safe inside HTML."""
    return html.escape(str(text), quote=True)


def span(kind, text):
    """A word or two of plain text in one of the card's styles."""
    return f'<span class="{kind}">{escape(text)}</span>'


def inline(text):
    """A sentence with `code` and **bold** words in it."""
    return re.sub(r"\*\*([^*\n]+)\*\*", r"<b>\1</b>", re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text)))


def paragraphs(text):
    """Text with blank lines between its paragraphs."""
    return "".join(f"<p>{inline(part)}</p>\n" for part in re.split(r"\n\s*\n", text.strip()) if part)


def card(head, body, label):
    """A whole card: the style, a head line, a body; `label` is what a screen reader says first."""
    return (
        f'{STYLE}<section class="course-card" role="region" aria-label="{escape(label)}"><header>{head}</header>\n'
        + (f'<div class="body">{body}</div>' if body else "")
        + "</section>"
    )


def folded(title, body, is_open=False):
    """A part that opens on a click."""
    return (
        f"<details{' open' if is_open else ''}><summary>{escape(title)}</summary>\n{body}</details>\n" if body else ""
    )


def table(head, rows, numeric=()):
    """A table; `rows` hold ready HTML, the columns in `numeric` are set flush right."""

    def cells(tag, row):
        return " ".join(f"<{tag}{' class=n' if col in numeric else ''}>{cell}</{tag}>" for col, cell in enumerate(row))

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{cells('th', head)}</tr></thead>"
    return f"<table>\n{head}\n<tbody>{body}</tbody></table>\n" if rows else ""
