"""The course at a glance: chapters and their state, what needs what, what runs where.

Titles and prerequisites come from chapters/plan.csv, the state from the files that exist, the support matrix from
the headers of the kernel files, which the compile gates hold to their word.

May import: errors, outline, chapters, exercises, reading, grading.exercise, cuda.steps, triton.aot.
"""

import re
from pathlib import Path

from ...cuda.steps import needs, steps, support
from ...grading.exercise import registry
from ...triton import aot
from .. import exercises, reading
from ..chapters import read_chapter
from ..outline import chapter_files, exercises_name, lecture_name, plan

# Ways through the course that leave chapters out: name -> the chapter where it ends.
SHORT_CUTS = {"only decode": "10", "only Hopper": "08", "only a language model": "13"}
# Architectures in words a reader knows; a card that has it, not all of them.
CARDS = {
    "cpu": "CPU",
    "sm_75": "sm_75 (T4)",
    "sm_80": "sm_80 (A100)",
    "sm_89": "sm_89 (L4, RTX 4090)",
    "sm_90": "sm_90 (H100, H200)",
    "sm_100": "sm_100 (B200)",
    "sm_120": "sm_120 (RTX 5090)",
}
_STEM = re.compile(r"\b([a-z_0-9]+/\d\d_\w+)")


def markdown_table(head, rows):
    """A Markdown table; `head` and every row have the same length."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def chapters_table(root):
    """One row a chapter, in order: written ones with links to their notebooks, others as planned; then the hours."""
    titles = {row["number"]: row["title"] for row in plan(root)}
    rows = {number: (number, title, "planned") for number, title in titles.items()}
    written = _written(root)
    for chapter, _ in written:
        exercises = sum(cell.exercise is not None for cell in chapter.exercises)
        links = _reading(chapter)
        if exercises:
            links.append(f"[{exercises} exercise{'s' * (exercises > 1)}]({exercises_name(chapter.number)})")
        several = len(chapter.lectures) > 1
        title = titles[chapter.number] if several else chapter.lectures[0].title.partition(" ")[2]
        rows[chapter.number] = (chapter.number, title, " · ".join(links))
    return markdown_table(("", "Chapter", ""), [*(rows[number] for number in sorted(rows)), _hours(written)])


def reading_table(root):
    """One row a lecture: its words, its lines of code, its minutes, and those of the exercises of its chapter."""
    rows = []
    for chapter, minutes in _written(root):
        for lecture in chapter.lectures:
            extent = reading.extent(lecture.cells)
            title = f"[{lecture.title}](../{lecture_name(lecture.stem)})"
            rows.append((title, f"{extent.words:,}", extent.code_lines, extent.minutes, minutes))
            minutes = ""  # said once, beside the first lecture
    return markdown_table(("lecture", "words", "lines of code", "minutes", "exercises, minutes"), rows) if rows else ""


def _hours(written):
    """The last row of the chapters: the hours of all that is written."""
    lectures = sum(reading.extent(lecture.cells).minutes for chapter, _ in written for lecture in chapter.lectures)
    exercises = sum(minutes for _, minutes in written)
    words = f"written so far: about {lectures / 60:.0f} hours of lectures and {exercises / 60:.0f} of exercises"
    return ("", words, "[each](docs/chapters.md#how-long-it-takes)")


def _written(root):
    """(chapter, minutes of its exercises) of every written chapter."""
    tasks = registry.documents(root)
    return [
        (chapter, sum(task.minutes for name, task in tasks.items() if name.startswith(f"{chapter.number}.")))
        for chapter in (read_chapter(path, root) for path in chapter_files(root))
    ]


def _reading(chapter):
    """A link to each lecture: "read", or "read 07a", "07b", "07c"."""
    if len(chapter.lectures) == 1:
        return [f"[read]({lecture_name(chapter.stem)})"]
    links = [f"[{lecture.label}]({lecture_name(lecture.stem)})" for lecture in chapter.lectures]
    return [links[0].replace("[", "[read ", 1), *links[1:]]


def needed(number, rows):
    """The numbers of a chapter and of all that it needs, in order."""
    needs = {row["number"]: row["needs"].split() for row in rows}
    chapters, open_ones = set(), [number]
    while open_ones:
        one = open_ones.pop()
        if one not in chapters:
            chapters.add(one)
            open_ones += needs[one]
    return sorted(chapters)


def short_cuts(root):
    """The ways through the course that leave chapters out, as a list."""
    rows = plan(root)
    ways = {name: needed(end, rows) for name, end in SHORT_CUTS.items()} if rows else {}
    return "\n".join(f"- **{name}**: {', '.join(chapters)}" for name, chapters in ways.items())


def support_table(root):
    """The support matrix, chapter x machine: what compiles, what is emulated, what is refused and why."""
    states = _states(root)
    rows, notes = [], []
    for chapter in chapter_files(root):
        text = exercises.expand(chapter.read_text(encoding="utf-8"), chapter.name[:2], root)
        stems = set(_STEM.findall(text))
        mine = [row for row in states if row["file"].removesuffix(".cu").removesuffix("/answer") in stems]
        if mine:
            cells = [_cell([row for row in mine if row["machine"] == machine], notes) for machine in CARDS]
            rows.append((chapter.stem[:2], _count(len({row["file"] for row in mine}), "CUDA file"), *cells))
        twins = [row for row in _twin_states() if row["file"] in stems]
        if twins:
            number = len({twin for row in twins for twin in row["twins"]})
            rows.append((chapter.stem[:2], _count(number, "Triton kernel"), *_twin_cells(twins, notes)))
    words = (
        "emulated: the same text runs on the SIMT machine. interpreted: it runs in Triton's interpreter. compiles: "
        "NVIDIA's compiler makes machine code of it for that architecture, without spills, in every `make test`. Run "
        "and measured: on an H200 only."
    )
    legend = [words, *(f"{_raised(i)} {note}" for i, note in enumerate(notes, 1))]
    return "\n\n".join([markdown_table(("", "", *CARDS.values()), rows), *legend])


def _states(root):
    """{file, machine, state, note} of every kernel file on every card."""
    root, states = Path(root), []
    for path in [*sorted(root.glob("kernels_cu/*/*.cu")), *sorted(root.glob("solutions/*/answer.cu"))]:
        text, file = path.read_text(encoding="utf-8"), path.relative_to(root).as_posix().removeprefix("kernels_cu/")
        for machine in CARDS:
            state, note = support(needs(text), machine)
            states.append({"file": file, "machine": machine, "state": state, "note": note})
    return states


def _cell(rows, notes, language="of CUDA"):
    """One cell: the state of most steps, and a note for each reason why one is refused."""
    states = {row["state"] for row in rows} - {"refused"}
    refused = [row for row in rows if row["state"] == "refused"]
    text = " ".join(sorted(states)) or "refused"
    for reason in dict.fromkeys(row["note"] for row in refused):
        files = ", ".join(row["file"] for row in refused if row["note"] == reason)
        text += _raised(_note(f"Refused {language}: {files}: {reason}.", notes))
    return text


def _twin_cells(rows, notes):
    """The cells of a Triton row; what compiles for the oldest card has a note of what that means."""
    cells = {
        machine: _cell([row for row in rows if row["machine"] == machine], notes, "of Triton") for machine in CARDS
    }
    if "compiles" in cells["sm_75"]:
        cells["sm_75"] += _raised(_note(f"Triton: {aot.support('sm_75')}.", notes))
    return cells.values()


def _twin_states():
    """{file, twins, machine, state, note} of the Triton twins of every step on every card."""
    return [
        {"file": step.stem, "twins": step.twins, "machine": machine, "state": state, "note": note}
        for step in steps()
        if step.twins
        for machine in CARDS
        for state, note in [support(step.twin_needs, machine, on_cpu="interpreted")]
    ]


def _note(sentence, notes):
    """The number of a note; new notes are appended."""
    if sentence not in notes:
        notes.append(sentence)
    return notes.index(sentence) + 1


def _raised(number):
    return f"<sup>{number}</sup>"


def _count(number, what):
    return f"{number} {what}{'s' * (number != 1)}"
