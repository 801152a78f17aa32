"""What a learner does on the first evening, in a real JupyterLab with a real browser: read, run, step, solve, pass.

Screenshots go to artifacts/.
"""

import nbformat
import newcomer
import pytest
from lab_driver import Page, Server
from playwright.sync_api import expect

from course_lib.book.chapters import read_chapter
from course_lib.book.notebooks import build
from course_lib.book.outline import ROOT, chapter_files

expect.set_options(timeout=20_000)  # milliseconds; two cores may be busy with other tests
CHAPTER = next(path for path in chapter_files() if path.stem.startswith("03_"))
CUDA_TYPO = """%%cuda online_softmax_warp
extern "C" __global__ void online_softmax_warp_kernel(const float* x, float* out, int num_rows, int num_cols) {
    out[0] = x[0]
}"""
# exercise, an answer that fails, a word of the verdict on it
WRONG = (
    ("03.1", "def merge(m_a, l_a, m_b, l_b):\n    return torch.maximum(m_a, m_b), l_a + l_b", "first wrong element"),
    ("03.2", CUDA_TYPO, "line 3"),
)

NEXT = "Next: [the exercises](../exercises.ipynb) · [Front page](../README.md)"


@pytest.fixture(scope="module")
def chapter():
    return build(read_chapter(CHAPTER))


@pytest.fixture(scope="module")
def lab(chapter, tmp_path_factory):
    """JupyterLab in a scratch folder with the chapter's lecture and untouched exercises."""
    folder = tmp_path_factory.mktemp("lab")
    (lecture,) = chapter.lectures.values()
    nbformat.write(lecture, folder / "lecture.ipynb")
    nbformat.write(chapter.exercises, folder / "exercises.ipynb")
    for name in ("notebooks/links.ipynb", "chapters/glossary.md", "README.md"):
        (folder / name).parent.mkdir(exist_ok=True)
    links = nbformat.v4.new_markdown_cell(f"{NEXT}\n\na [barrier](../chapters/glossary.md#barrier)")
    nbformat.write(nbformat.v4.new_notebook(cells=[links], metadata=lecture.metadata), folder / "notebooks/links.ipynb")
    (folder / "chapters/glossary.md").write_text((ROOT / "chapters/glossary.md").read_text())
    (folder / "README.md").write_text("# The course\n")
    server = Server(folder, tmp_path_factory.mktemp("state"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def open_notebook(browser, lab, root):
    """A function: name of a notebook -> Page, the only one that is open."""
    artifacts = root / "artifacts"
    artifacts.mkdir(exist_ok=True)
    context = browser.new_context()
    page = context.new_page()
    yield lambda name: Page(page, lab, name, artifacts)
    context.close()


@pytest.fixture
def course(root, lab, tmp_path):
    """The folder of a learner's clone, below the lab's, and its origin."""
    origin, target = tmp_path / "origin", lab.folder / "course"
    newcomer.clone(root, origin, target)
    for name in (newcomer.LECTURE, newcomer.EXERCISES):
        lab.trust(target / name)
    return target, origin


def test_a_newcomers_first_two_hours(course, open_notebook, capsys):
    lecture = open_notebook(f"course/{newcomer.LECTURE}")
    newcomer.stored_cards_show(lecture)
    newcomer.guess_unfolds_the_answer(lecture)
    newcomer.links_lead_to_the_front_page_and_the_exercises(lecture)
    exercises = open_notebook(f"course/{newcomer.EXERCISES}")
    newcomer.first_fail_hint_and_pass(exercises)
    newcomer.progress_names_the_next_exercise(capsys)
    newcomer.answer_survives_a_restart(exercises)
    newcomer.answer_and_guess_survive_an_update(course, exercises)


def test_the_lecture_runs_and_its_stepper_moves(open_notebook):
    notebook = open_notebook("lecture.ipynb")
    notebook.run_all()
    assert [cell["errors"] for cell in notebook.cells() if cell["errors"]] == []
    number = next(n for n, cell in enumerate(notebook.cells()) if "viz.stepper(" in cell["source"])
    cell = notebook.locator(number)
    picture, slider = cell.locator("img.course-picture"), cell.get_by_role("slider", name="tile")
    expect(picture).to_be_visible()
    sentence, stop = cell.locator("[data-part=sentence]"), cell.locator("output")
    expect(stop).to_have_text("1 of 4")
    first, before, alt = picture.get_attribute("src"), sentence.inner_text(), picture.get_attribute("alt")
    slider.focus()
    notebook.page.keyboard.press("ArrowRight")
    expect(stop).to_have_text("2 of 4")
    expect(picture).not_to_have_attribute("src", first)
    expect(picture).not_to_have_attribute("alt", alt)
    assert before  # the picture's content as a sentence, for readers who cannot see it
    expect(sentence).not_to_have_text(before)
    notebook.page.keyboard.press("ArrowDown")  # not a shortcut of the notebook's: the slider keeps the key
    expect(stop).to_have_text("1 of 4")
    row = cell.get_by_role("textbox", name="row")
    row.fill("1, 2")
    row.press("Enter")
    expect(stop).to_have_text("1 of 1")
    notebook.screenshot("stepper")
    _follows_the_theme(notebook, number)
    _has_short_lines(notebook)


def _follows_the_theme(notebook, number):
    """JupyterLab's own dark theme inverts a picture, and its light theme does not."""
    looks = "one => getComputedStyle(one).filter"
    picture = notebook.locator(number).locator("img.course-picture")
    assert picture.evaluate(looks) == "none"
    for theme, look in (("Dark", "invert(0.93) hue-rotate(180deg)"), ("Light", "none")):
        notebook.theme(theme)
        assert notebook.locator(number).locator("img.course-picture").evaluate(looks) == look
        notebook.screenshot(f"stepper-{theme.lower()}")


def _has_short_lines(notebook):
    """At most about 100 characters in a line of text on a wide screen; code takes all the width."""
    notebook.page.set_viewport_size({"width": 1920, "height": 1000})
    notebook.locator(0)
    lengths = notebook.page.evaluate(_LINE_LENGTHS)
    assert max(lengths) <= 105 and max(lengths) > 60, lengths
    code = notebook.page.locator(".jp-Notebook .jp-CodeCell .jp-InputArea-editor").first
    assert code.bounding_box()["width"] > 1200
    excerpts = notebook.page.locator(".jp-RenderedMarkdown pre")
    looks = excerpts.evaluate_all("all => all.map(one => getComputedStyle(one.firstElementChild ?? one).whiteSpace)")
    assert len(looks) > 5 and set(looks) == {"pre"}  # a line of code is never broken, in folded text neither


_LINE_LENGTHS = """() => [...document.querySelectorAll('.jp-MarkdownCell .jp-RenderedMarkdown > p')].map(text => {
    const range = document.createRange();
    range.selectNodeContents(text);
    const tops = [...range.getClientRects()].map(line => Math.round(line.bottom / 10));
    return text.textContent.length / new Set(tops).size;
})"""


def test_exercises_go_from_not_started_to_fail_to_pass(open_notebook, chapter):
    notebook = open_notebook("exercises.ipynb")
    notebook.run_all()
    for exercise, wrong, complaint in WRONG:
        answer = notebook.find(tags="exercise", exercise=exercise)
        check = answer + 1
        assert notebook.cells()[check]["tags"] == ["check"]
        expect(notebook.locator(check)).to_contain_text("NOT STARTED")
        notebook.screenshot(f"{exercise}-1-not-started")

        notebook.write(answer, wrong)
        notebook.run(answer)
        assert "FAIL" in notebook.run(check)
        expect(notebook.locator(check).locator(".jp-OutputArea")).to_contain_text(complaint)
        notebook.screenshot(f"{exercise}-2-fail")

        solved = next(cell.source for cell in chapter.solutions.cells if cell.metadata.get("exercise") == exercise)
        notebook.write(answer, solved)
        notebook.run(answer)
        assert "PASS" in notebook.run(check)
        expect(notebook.locator(check).locator(".jp-OutputArea")).to_contain_text("PASS")
        notebook.screenshot(f"{exercise}-3-pass")


def test_a_cuda_cell_is_edited_as_cpp(open_notebook):
    notebook = open_notebook("exercises.ipynb")
    keys, number = notebook.page.keyboard, notebook.find(exercise="03.2", tags="exercise")
    cell = notebook.locator(number)
    notebook.write(number, "%%cuda online_softmax_warp\n// a comment\nint f(int x) {")
    expect(cell.locator(".cm-line").nth(1).locator("span")).to_have_text("// a comment")  # one span, one colour
    keys.press("Enter")
    keys.type("return x;")
    looks = [_colours(notebook, cell, theme) for theme in ("Dark", "Light")]
    assert all(len({colour["// a comment"], colour["return"], colour["text"]}) == 3 for colour in looks), looks
    keys.press("Control+/")
    assert notebook.cells()[number]["source"].splitlines()[3:4] == ["    // return x;"]
    assert _mime_types(notebook)[number] == "text/x-c++src"
    notebook.write(number, "# Python again")
    assert _mime_types(notebook)[number] == "text/x-ipython"
    others = {
        kind
        for cell, kind in zip(notebook.cells(), _mime_types(notebook), strict=True)
        if "%%cuda" not in cell["source"]
    }
    assert others <= {"text/x-ipython", "text/x-ipythongfm"}


def _colours(notebook, cell, theme):
    """The colour of each word of a cell that has one of its own, and that of "text"."""
    notebook.theme(theme)
    notebook.screenshot(f"cuda-cell-{theme.lower()}")
    words = cell.locator(".cm-line span").evaluate_all(
        "all => all.map(one => [one.textContent, getComputedStyle(one).color])"
    )
    return dict(words) | {"text": cell.locator(".cm-line").first.evaluate("one => getComputedStyle(one).color")}


def _mime_types(notebook):
    return notebook.page.evaluate("jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.mimeType)")


def test_links_land_on_the_word_the_front_page_and_the_next_notebook(open_notebook):
    notebook = open_notebook("notebooks/links.ipynb")
    page = notebook.page
    page.get_by_role("link", name="barrier", exact=True).click()
    word = page.locator('.jp-MarkdownViewer [data-jupyter-id="barrier"]')
    expect(word).to_be_in_viewport(timeout=30_000)
    expect(page.locator('.jp-MarkdownViewer [data-jupyter-id="acc"]')).not_to_be_in_viewport()
    page.screenshot(path=notebook.artifacts / "glossary-barrier.png")
    page.locator(".lm-TabBar-tab", has_text="links.ipynb").click()
    page.get_by_role("link", name="Front page").click()
    expect(page.locator(".jp-MarkdownViewer h1", has_text="The course")).to_be_visible(timeout=30_000)
    page.locator(".lm-TabBar-tab", has_text="links.ipynb").click()
    page.get_by_role("link", name="the exercises").click()
    expect(page.locator(".lm-TabBar-tab.lm-mod-current", has_text="exercises.ipynb")).to_be_visible(timeout=30_000)
