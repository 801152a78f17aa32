"""A newcomer's first hours, for the browser test: a scratch course with a learner's clone, and what they do in it."""

import subprocess

import nbformat
from playwright.sync_api import expect

from course_lib.cli.update import update
from course_lib.grading.records import work

LECTURE, EXERCISES = "notebooks/00_the_driving_question.ipynb", "exercises/00_exercises.ipynb"
NEWS = "A sentence of a newer course."
ANSWER = "def attention_row(q, k, v):\n    return torch.softmax({scores}, dim=0) @ v"  # of exercise 00.1
HINT = "Next hint for exercise 00.1"


def git(folder, *words):
    settings = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True)


def clone(root, origin, target):
    """Put the first chapter's notebooks of the repository into a course of its own, and clone it."""
    for name in (LECTURE, EXERCISES):
        (origin / name).parent.mkdir(parents=True)
        (origin / name).write_bytes((root / name).read_bytes())
    git(origin, "init", "--quiet")
    _commit(origin)
    git(origin.parent, "clone", "--quiet", str(origin), str(target))


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
    git(origin, "commit", "--quiet", "-m", "newer")


def stored_cards_show(lecture):
    """Trusted at the first open: the verdict is a card with its colours, not bare text."""
    verdict = lecture.locator(lecture.find(source='check("00.1", attention_row'))
    expect(verdict.locator(".course-card .state")).to_have_css("background-color", "rgb(168, 40, 31)")
    expect(verdict.get_by_role("button", name=HINT)).to_be_visible()


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


def first_fail_hint_and_pass(exercises):
    answer = exercises.find(tags="exercise", exercise="00.1")
    exercises.run(exercises.find(source="%load_ext course_lib"))
    exercises.write(answer, ANSWER.format(scores="k @ q"))
    exercises.run(answer)
    assert "FAIL" in exercises.run(answer + 1)
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


def answer_survives_a_restart(exercises):
    exercises.restart()
    answer = exercises.find(tags="exercise", exercise="00.1")
    expect(exercises.locator(answer + 1).locator(".course-card")).to_contain_text("PASS")
    exercises.run(answer)
    assert exercises.cells()[answer]["errors"] == []
    exercises.command("docmanager:save")


def answer_and_guess_survive_an_update(course, lecture, exercises):
    folder, origin = course
    lecture.page.close()
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
