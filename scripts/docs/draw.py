#!/usr/bin/env python3
"""Draws docs/images/NAME.svg from docs/images/text/NAME.txt: draw.py [--check] [ROOT].

A text begins with `kind:`, `title:` and `alt:` (what a reader who does not see the picture is told). Lines of a kind:

  sequence   `actors: Worker | Home`; then `Worker -> Home: pull`, `Home --> Worker: rows` (dashed), `Home: applies the push`
             (a step of one actor), `== a part of the diagram ==`.
  boxes      `box ID COLUMN ROW [WIDTH]: Title / second line`, `A -> B: label`, `A --> B` (dashed), `group COLUMN ROW WIDTH
             HEIGHT: Title`. Places are cells of a grid, from 0.
  terminal   as a terminal shows it: a line that begins with `$ ` is typed, the lines below it appear at once.

One SVG serves light and dark: its colours follow the reader's preference. --check writes nothing and exits with 1 if a
picture is not what its text gives.
"""
import glob
import os
import re
import sys
from html import escape

STYLE = """<style>
.bg{fill:#fff}.box{fill:#f1f5f9;stroke:#64748b}.group{fill:none;stroke:#94a3b8;stroke-dasharray:4 4}
.t{fill:#0f172a}.s{fill:#475569}.l{stroke:#2563eb;fill:none}.h{fill:#2563eb}.life{stroke:#cbd5e1}
@media(prefers-color-scheme:dark){.bg{fill:#0d1117}.box{fill:#1e293b;stroke:#94a3b8}.group{stroke:#64748b}
.t{fill:#f1f5f9}.s{fill:#cbd5e1}.l{stroke:#60a5fa}.h{fill:#60a5fa}.life{stroke:#475569}}
text{font:13px system-ui,sans-serif}.b{font-weight:600}.s{font-size:12px}
</style>"""
ARROW = ('<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
         '<path class="h" d="M0 0L8 4L0 8z"/></marker></defs>')


def text(x, y, words, kind="t", anchor="middle"):
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def svg(width, height, head, body, style=STYLE):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
            f'role="img"><title>{escape(head["title"])}</title><desc>{escape(head["alt"])}</desc>\n{style}\n'
            + "\n".join(body) + "\n</svg>\n")


def line(x1, y1, x2, y2, dashed, kind="l", arrow=True):
    return (f'<path class="{kind}" d="M{x1:g} {y1:g}L{x2:g} {y2:g}" stroke-width="1.5"'
            + (' stroke-dasharray="5 4"' if dashed else "") + (' marker-end="url(#a)"' if arrow else "") + "/>")


def sequence(head, lines):
    names = [name.strip() for name in head["actors"].split("|")]
    gap, left, y = 210, 100, 70
    place = {name: left + gap * i for i, name in enumerate(names)}
    width, body = 2 * left + gap * (len(names) - 1), []
    for step in lines:
        part = re.fullmatch(r"== (.+) ==", step)
        sent = re.fullmatch(r"(.+?) (-->|->) (.+?): (.+)", step)
        alone = re.fullmatch(r"(.+?): (.+)", step)
        if part:
            body.append(text(14, y + 14, part[1], "t b", "start"))
            y += 36
        elif sent:
            start, end = place[sent[1]], place[sent[3]]
            body += [text((start + end) / 2, y + 4, sent[4], "s"), line(start, y + 12, end, y + 12, sent[2] == "-->")]
            y += 36
        elif alone:
            x, wide = place[alone[1]], max(90, len(alone[2]) * 6.6 + 16)
            x_box = min(max(x - wide / 2, 4), width - wide - 4)
            body += [f'<rect class="box" x="{x_box:g}" y="{y - 6:g}" width="{wide:g}" height="24" rx="4"/>',
                     text(x_box + wide / 2, y + 10, alone[2], "s")]
            y += 36
        else:
            raise ValueError(f"not a line of a sequence: {step}")
    first = [ARROW, f'<rect class="bg" width="{width:g}" height="{y + 10:g}"/>']
    for name, x in place.items():
        first += [line(x, 46, x, y, False, "life", False),
                  f'<rect class="box" x="{x - 80:g}" y="12" width="160" height="34" rx="6"/>', text(x, 34, name, "t b")]
    return svg(width, y + 10, head, first + body)


def boxes(head, lines):
    cell_w, cell_h, box_h, pad = 200, 104, 58, 14
    place, drawn, arrows, groups, right, bottom = {}, [], [], [], 0, 0
    for step in lines:
        box = re.fullmatch(r"box (\S+) ([\d.]+) ([\d.]+)(?: ([\d.]+))?: (.+)", step)
        group = re.fullmatch(r"group ([\d.]+) ([\d.]+) ([\d.]+) ([\d.]+): (.+)", step)
        sent = re.fullmatch(r"(\S+) (-->|->) (\S+?)(?:: (.+))?", step)
        if box:
            x, y, wide = 30 + float(box[2]) * cell_w, 44 + float(box[3]) * cell_h, float(box[4] or 1) * cell_w - 36
            place[box[1]] = (x, y, wide)
            rows = [row.strip() for row in box[5].split(" / ")]
            drawn.append(f'<rect class="box" x="{x:g}" y="{y:g}" width="{wide:g}" height="{box_h}" rx="6"/>')
            top = y + box_h / 2 + 5 - 8.5 * (len(rows) - 1)
            drawn += [text(x + wide / 2, top + 17 * i, row, "t b" if i == 0 else "s") for i, row in enumerate(rows)]
            right, bottom = max(right, x + wide), max(bottom, y + box_h)
        elif group:
            x, y, wide, high = (float(group[i]) for i in (1, 2, 3, 4))
            x, y, wide, high = 30 + x * cell_w - pad, 44 + y * cell_h - 26, wide * cell_w - 36 + 2 * pad, high * cell_h - 46 + 26 + pad
            groups += [f'<rect class="group" x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="8"/>',
                       text(x + 10, y + 17, group[5], "s", "start")]
            right, bottom = max(right, x + wide), max(bottom, y + high)
        elif sent:
            arrows.append(sent)
        else:
            raise ValueError(f"not a line of boxes: {step}")
    for sent in arrows:
        drawn += between(place[sent[1]], place[sent[3]], box_h, sent[2] == "-->", sent[4])
    width, height = right + 30, bottom + 24
    return svg(width, height, head, [ARROW, f'<rect class="bg" width="{width:g}" height="{height:g}"/>'] + groups + drawn)


def between(a, b, high, dashed, label):
    """An arrow from side to side of two boxes, with its label beside its middle."""
    (ax, ay, aw), (bx, by, bw) = a, b
    if abs(ay - by) < 1:
        to_right = bx > ax
        x1, x2, y1, y2 = ax + aw if to_right else ax, bx if to_right else bx + bw, ay + high / 2, by + high / 2
        if not to_right:
            y1, y2 = y1 + 14, y2 + 14
    else:
        x1 = x2 = (max(ax, bx) + min(ax + aw, bx + bw)) / 2
        if max(ax, bx) > min(ax + aw, bx + bw):
            x1, x2 = ax + aw / 2, bx + bw / 2
        y1, y2 = (ay + high, by) if by > ay else (ay, by + high)
        if by < ay:
            x1, x2 = x1 + 18, x2 + 18
    drawn = [line(x1, y1, x2, y2, dashed)]
    if label and abs(ay - by) < 1:
        drawn.append(text((x1 + x2) / 2, y1 - 6 if y1 == ay + high / 2 else y1 + 16, label, "s"))
    elif label:
        drawn.append(text((x1 + x2) / 2 + 8, (y1 + y2) / 2 + 4, label, "s", "start"))
    return drawn


def terminal(head, lines):
    width, row, body, at = 18 + 8.0 * max(map(len, lines)), 19, [], 0.6
    for i, words in enumerate(lines):
        typed = words.startswith("$ ")
        at += 1.4 if typed else 0.12
        kind = "p" if typed else "o"
        body.append(f'<text xml:space="preserve" class="{kind} f" style="animation-delay:{at:.2f}s" x="14" y="{48 + row * i}">'
                    f"{escape(words)}</text>")
    height = 48 + row * len(lines)
    style = ("<style>text{font:13px ui-monospace,monospace}.w{fill:#0d1117}.o{fill:#c9d1d9}.p{fill:#7ee787}"
             "@keyframes in{from{opacity:0}to{opacity:1}}.f{animation:in .1s both}"
             "@media(prefers-reduced-motion:reduce){.f{animation:none}}@media print{.f{animation:none}}</style>")
    dots = [f'<circle cx="{20 + 18 * i}" cy="16" r="5.5" fill="{c}"/>' for i, c in enumerate(("#ff5f56", "#ffbd2e", "#27c93f"))]
    return svg(width, height, head, [f'<rect class="w" width="{width:g}" height="{height:g}" rx="8"/>'] + dots + body, style)


KINDS = {"sequence": sequence, "boxes": boxes, "terminal": terminal}


def draw(path):
    with open(path, encoding="utf-8") as file:
        lines = file.read().rstrip("\n").split("\n")
    head = {}
    while lines and (field := re.fullmatch(r"(kind|title|alt|actors): (.+)", lines[0])):
        head[field[1]] = field[2]
        lines.pop(0)
    for field in ("kind", "title", "alt"):
        if field not in head:
            raise ValueError(f"the text has no line `{field}: ...`")
    if head["kind"] != "terminal":
        lines = [words.strip() for words in lines if words.strip() and not words.startswith("#")]
    elif not lines[0]:
        lines.pop(0)
    return KINDS[head["kind"]](head, lines)


def main(arguments):
    check = "--check" in arguments
    root = next((word for word in arguments if word != "--check"), ".")
    texts = sorted(glob.glob(f"{root}/docs/images/text/*.txt"))
    problems = []
    for path in texts:
        target = f"{root}/docs/images/{os.path.basename(path)[:-4]}.svg"
        try:
            drawn = draw(path)
        except (KeyError, ValueError) as wrong:
            problems.append(f"{path}: {wrong}")
            continue
        if not check:
            with open(target, "w", encoding="utf-8") as file:
                file.write(drawn)
            continue
        found = None
        if os.path.exists(target):
            with open(target, encoding="utf-8") as file:
                found = file.read()
        if found != drawn:
            problems.append(f"{target}: not what {path} gives: run python3 scripts/docs/draw.py")
    print("\n".join(problems) if problems else f"ok: {len(texts)} pictures")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
