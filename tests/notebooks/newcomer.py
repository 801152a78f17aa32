"""A newcomer's first two hours, for the browser test: clone, lab, first guess, FAIL, hints, PASS, restart, update.

Each function is one step of the walk and asserts what the learner must see there.
"""

import re
import shutil
import subprocess

import nbformat
from playwright.sync_api import expect

from course_lib import cli
from course_lib.cli.update import update
from course_lib.grading.records import work

LECTURE, EXERCISES = "notebooks/00_the_driving_question.ipynb", "exercises/00_exercises.ipynb"
NEWS = "A sentence of a newer course."
ANSWER = "def attention_row(q, k, v):\n    return torch.softmax({scores}, dim=0) @ v"  # of exercise 00.1
HINT = "Next hint for exercise 00.1"


def git(folder, *words):
    settings = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *settings, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"git {' '.join(words)}: {done.stderr}"
    return done.stdout


def clone(root, origin, target):
    """Clone the course as its front page says, from a copy of this checkout with its pages as they are on disk."""
    git(origin.parent, "clone", "--quiet", "--shared", "--sparse", str(root), str(origin))
    git(origin, "switch", "--quiet", "-C", "main")  # a checkout of continuous integration is on no branch
    git(origin, "sparse-checkout", "set", "notebooks", "exercises")
    for name in ("README.md", LECTURE, EXERCISES):
        shutil.copyfile(root / name, origin / name)
    _commit(origin)
    git(origin.parent, "clone", "--quiet", "--depth", "1", f"file://{origin}", str(target))
    assert git(target, "status", "--porcelain") == ""
    first = min(target.glob("notebooks/[0-9][0-9]*_*.ipynb"))  # what scripts/lab.sh opens
    assert str(first.relative_to(target)) == LECTURE


def publish_news(origin):
    """Change a text of both notebooks in the course."""
    for name in (LECTURE, EXERCISES):
        text = (origin / name).read_text()
        title = '"# 00 '
        assert text.count(title) == 1
        (origin / name).write_text(text.replace(title, f'"{NEWS}\\n",\n    {title}'))
    _commit(origin)


def _commit(origin):
    git(origin, "add", "--all")
    git(origin, "commit", "--quiet", "--allow-empty", "-m", "newer")


def stored_cards_show(lecture):
    """Trusted at the first open: the verdict is a card with its colours, and a picture has its text."""
    verdict = lecture.locator(lecture.find(source='check("00.1", attention_row'))
    expect(verdict.locator(".course-card .state")).to_have_css("background-color", "rgb(168, 40, 31)")
    expect(verdict.get_by_role("button", name=HINT)).to_be_visible()
    lecture.screenshots("0-verdict")
    picture = lecture.locator(lecture.find(source="viz.growth_slider()")).locator("img.course-picture")
    expect(picture).to_have_attribute("alt", re.compile(r"\w+ \w+"))


def expect_folded(lecture, number, key):
    cell = lecture.locator(number)
    expect(cell.get_by_role("note")).to_be_visible()
    expect(cell.get_by_role("note")).to_contain_text(f"Make your guess first: {key}.")
    expect(cell.locator(".course-card")).to_be_hidden()


def expect_shown(lecture, number):
    cell = lecture.locator(number)
    expect(cell.locator(".course-card")).to_be_visible()
    expect(cell.get_by_role("note")).to_be_hidden()


def guess_unfolds_the_answer(lecture):
    memory, speed = (lecture.find(source=f'compare("00.{key}"') for key in ("memory", "speed"))
    lecture.run(lecture.find(source="%load_ext course_lib"))
    expect_folded(lecture, memory, "00.memory")
    expect_folded(lecture, speed, "00.speed")
    text = lecture.locator(lecture.find(source='often called "the 64 MB matrix"')).locator("details")
    expect(text).not_to_have_attribute("open", "")
    lecture.screenshot("1-folded")

    guess = lecture.find(source='predict("00.memory"')
    lecture.write(guess, 'predict("00.memory", peak_mib=64)')
    lecture.run(guess)
    expect_shown(lecture, memory)
    expect_folded(lecture, speed, "00.speed")
    lecture.write(speed, 'compare("00.speed", times_faster=5.0)')
    lecture.run(speed)  # it still waits for its guess, so what it shows is folded again
    expect_folded(lecture, speed, "00.speed")
    expect(lecture.locator(lecture.find(source="often called")).locator("details")).to_have_attribute("open", "")
    lecture.locator(speed).get_by_role("button", name="Show me anyway").press("Enter")
    expect_shown(lecture, speed)
    lecture.screenshot("2-unfolded")
    lecture.command("docmanager:save")


def links_lead_to_the_front_page_and_the_exercises(lecture):
    """Each opens in a tab of its own name; the front page says how to clone the course, and leads back."""
    page, current = lecture.page, lecture.page.locator(".lm-TabBar-tab.lm-mod-current")
    lecture.locator(0).get_by_role("link", name="Front page").click()
    front = page.locator(".jp-MarkdownViewer")
    expect(front.locator("h1", has_text="Attention, kernel by kernel")).to_be_visible()
    expect(front.locator("pre", has_text="git clone")).to_be_visible()
    front.get_by_role("link", name="read", exact=True).first.click()
    expect(current.filter(has_text="00_the_driving_question.ipynb")).to_be_visible()
    lecture.locator(0).get_by_role("link", name="Exercises").click()
    expect(current.filter(has_text="00_exercises.ipynb")).to_be_visible()


def first_fail_hint_and_pass(exercises):
    answer = exercises.find(tags="exercise", exercise="00.1")
    exercises.run(exercises.find(source="%load_ext course_lib"))
    exercises.write(answer, ANSWER.format(scores="k @ q"))
    exercises.run(answer)
    assert "FAIL" in exercises.run(answer + 1)
    exercises.screenshots("3-fail")
    hints, button = exercises.locator(answer + 1).locator(".hints"), exercises.page.get_by_role("button", name=HINT)
    for count in (1, 2, 3):
        expect(hints).to_contain_text(f"Hint {count} of 3.")
        exercises.screenshot(f"3-hint-{count}")
        if count < 3:
            button.last.press("Enter")
    expect(hints).to_contain_text("These are all hints.")
    assert work.progress()["00.1"]["hints"] == 3
    exercises.write(answer, ANSWER.format(scores="k @ q * q.shape[0] ** -0.5"))
    exercises.run(answer)
    assert "PASS" in exercises.run(answer + 1)


def progress_names_the_next_exercise(capsys):
    assert cli.main(["progress"]) == 0
    said = capsys.readouterr().out
    assert "chapter 00: 1 of 1 passed" in said
    assert re.search(r"[Nn]ext.*01\.1", said)


def answer_survives_a_restart(exercises):
    exercises.restart()
    answer = exercises.find(tags="exercise", exercise="00.1")
    expect(exercises.locator(answer + 1).locator(".course-card")).to_contain_text("PASS")
    exercises.run(answer)
    assert exercises.cells()[answer]["errors"] == []
    exercises.command("docmanager:save")


def answer_and_guess_survive_an_update(course, exercises):
    folder, origin = course
    publish_news(origin)
    assert update(root=folder, say=lambda _: None) == 1
    exercises.reload()
    exercises.find(source=NEWS)
    assert "q.shape[0] ** -0.5" in exercises.cells()[exercises.find(tags="exercise", exercise="00.1")]["source"]
    kept = nbformat.read(folder / LECTURE, as_version=4)
    assert any(NEWS in cell.source for cell in kept.cells)
    guess = next(cell for cell in kept.cells if cell.source.startswith('predict("00.memory"'))
    assert "peak_mib=64" in guess.source and guess.outputs[0].metadata.guess.made
    exercises.screenshot("4-updated")
