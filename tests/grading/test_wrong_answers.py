"""wrong.md: what its parser takes, and that each slip is an error that names the line."""

import re

import pytest

from course_lib.errors import CourseError
from course_lib.grading.exercise import wrong_answers

SOLUTION = "def f(x):\n    y = x + 1\n\n    z = 2 * y\n    if z > 0:\n        return z\n    return -z\n"

TEXT = """# Wrong answers to 90.2

Each is an edit of `answer.py`.

## Sums

All of them forget something.

### one more

`off_by_one`: "it is "one" more"

```diff
-    y = x + 1
+    y = x + 2
```

### no sign, and a `-` in the name

`sign`

```diff
     y = x + 1

+    w = y
-    z = 2 * y
+    z = 2 * w
@@
-    return -z
+    return z
```
"""


@pytest.fixture
def read(tmp_path):
    """Reads TEXT with one part replaced, as the wrong.md of exercise 90.2."""

    def read(find="", replace=""):
        assert TEXT.count(find) == 1 or not find
        path = tmp_path / "90_2_toy" / "wrong.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(TEXT.replace(find, replace) if find else TEXT)
        return wrong_answers.read(path)

    return read


def test_names_diagnoses_and_texts(read):
    first, second = read()
    assert (first.name, first.diagnosis, first.says) == ("one more", "off_by_one", 'it is "one" more')
    assert (second.name, second.diagnosis, second.says) == ("no sign, and a `-` in the name", "sign", "")
    assert wrong_answers.applied(SOLUTION, first) == SOLUTION.replace("x + 1", "x + 2")
    changed = SOLUTION.replace("    z = 2 * y", "    w = y\n    z = 2 * w").replace("return -z", "return z")
    assert wrong_answers.applied(SOLUTION, second) == changed


def test_lines_that_look_like_marks_may_be_in_a_diff(read):
    answer = read("-    y = x + 1\n", "-    y = x + 1\n+# a comment\n+--y\n+++y\n+@@\n+```\n")[0]
    assert "\n# a comment\n--y\n++y\n@@\n```\n    y = x + 2\n" in wrong_answers.applied(SOLUTION, answer)


@pytest.mark.parametrize(
    ("find", "replace", "line", "sentence"),
    [
        (
            "answers to 90.2",
            "answers to 90.1",
            1,
            "expected '# Wrong answers to 90.2'; found '# Wrong answers to 90.1'",
        ),
        ("## Sums", "##Sums", 5, "expected '## SECTION' or '### NAME of a wrong answer'; found '##Sums'"),
        ("### one more", "#### one more", 9, "found '#### one more'"),
        ("### one more", "### ", 9, "found '### '"),
        ("All of them forget something.", "```diff", 7, "expected text; a diff stands under its '### NAME'"),
        ('`off_by_one`: "it is "one" more"\n', "", 12, "expected the diagnosis of 'one more'"),
        ("`sign`", "sign", 20, "found 'sign'"),
        ("`sign`", '`sign`: ""', 20, """found '`sign`: ""'"""),
        ("`sign`", "`sign` says a word", 20, "found '`sign` says a word'"),
        ("`sign`\n\n```diff", "`sign`\n\n```", 22, "expected a line ```diff, which begins the diff of 'no sign"),
        ("-    y = x + 1\n+    y = x + 2\n```\n", "```\n", 14, "this hunk of 'one more' changes nothing"),
        ("x + 2\n```\n", "x + 2\n", 13, "the diff of 'one more' does not end; close it with a line ```"),
        ("x + 2\n```\n", "x + 2\n```\nbecause", 17, "expected nothing after the one diff of 'one more'"),
        ("+    w = y", "*    w = y", 25, "expected '-', '+', a blank or '@@' at the start of a line"),
        ("-    return -z\n", "", 29, "this hunk of 'no sign, and a `-` in the name' only adds"),
        ("+    return z", "+    return -z", 29, "changes nothing"),
        ("@@\n", "@@\n@@\n", 29, "changes nothing"),
    ],
)
def test_a_slip_is_named_with_its_line(read, find, replace, line, sentence):
    with pytest.raises(CourseError, match=re.escape(sentence)) as error:
        read(find, replace)
    assert f"wrong.md, line {line}: " in str(error.value)


def test_an_answer_without_anything_is_a_slip(read):
    with pytest.raises(CourseError, match=r"line 18: expected the diagnosis of 'no sign.*found ''"):
        read(TEXT[TEXT.index("\n`sign`") :], "")


@pytest.mark.parametrize(
    ("find", "replace", "answer", "sentence"),
    [
        ("-    y = x + 1", "-    y = x + 3", 0, "line 14: hunk 1 of 'one more' is 0 times in the solution"),
        ("-    y = x + 1", "-   y = x + 1", 0, "copy its context and '-' lines from there"),
        ("-    return -z", "-        return z", 1, "line 29: hunk 2 of .* is 2 times in the solution"),
        ("-    return -z", "-def f(x):", 1, "line 29: hunk 2 of .* begins before the end of the one above it"),
    ],
)
def test_a_hunk_that_is_not_once_in_the_solution_is_an_error(read, find, replace, answer, sentence):
    solution = SOLUTION + "        return z\n"
    with pytest.raises(CourseError, match=sentence):
        wrong_answers.applied(solution, read(find, replace)[answer])


def test_a_hunk_that_fits_twice_asks_for_context(read):
    with pytest.raises(CourseError, match="is 2 times in the solution; .*: add a neighbouring line as context"):
        wrong_answers.applied(SOLUTION * 2, read()[0])


def test_a_folder_without_the_file_is_named(tmp_path):
    with pytest.raises(CourseError, match="wrong.md is missing; it holds the wrong answers"):
        wrong_answers.read(tmp_path / "wrong.md")
