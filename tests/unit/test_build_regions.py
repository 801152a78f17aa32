"""Regions, includes, and the learner's view of a solution."""

import ast

import pytest

from course_lib.book import regions
from course_lib.errors import CourseError


def test_region_is_dedented_and_bare(tiny_course):
    text = regions.included("kernels_cu/add/01_add.cu#sum", tiny_course)
    assert text == "if (idx < count) {\n    out[idx] = a[idx] + b[idx];\n}"


def test_region_wins_over_function_and_function_keeps_its_decorators(tiny_course):
    assert regions.included("answers.py#inner", tiny_course) == "return 3"
    assert regions.included("answers.py#other/inner", tiny_course) == "return 3"
    assert regions.included("answers.py#add", tiny_course).startswith("@functools.cache\ndef add(a, b):")


def test_nested_region_belongs_to_the_outer_one_without_marks():
    text = "// region: outer\na\n// region: inner\nb\n// endregion\nc\n// endregion\nd"
    assert regions.region(text, "outer") == "a\nb\nc"
    assert regions.region(text, "inner") == "b"


def test_a_directive_at_column_0_keeps_no_region_from_being_dedented():
    text = "// region: r\n    a;\n#pragma unroll\n    for (;;)\n        b;\n// endregion"
    assert regions.region(text, "r") == "a;\n#pragma unroll\nfor (;;)\n    b;"
    assert regions.region("// region: r\n#ifndef A\n#define A 1\n#endif\n// endregion", "r").startswith(
        "#ifndef A\n#def"
    )


@pytest.mark.parametrize(
    "text, why",
    [
        ("a", "does not exist"),
        ("// region: r\na", "is never closed"),
        ("// region: r\n// endregion\n// region: r\n// endregion", "opens 2 times"),
    ],
)
def test_broken_regions_say_what_is_wrong(text, why):
    with pytest.raises(CourseError, match=why):
        regions.region(text, "r")


def test_missing_file_and_missing_function_are_named(tiny_course):
    with pytest.raises(CourseError, match="there is no file nowhere.cu"):
        regions.included("nowhere.cu", tiny_course)
    with pytest.raises(CourseError, match="no region and no function 'subtract'"):
        regions.included("answers.py#subtract", tiny_course)
    with pytest.raises(CourseError, match="answers.py#add: region 'inner' does not exist"):
        regions.included("answers.py#add/inner", tiny_course)


def test_python_starter_raises_and_is_python(tiny_course):
    text = regions.starter(regions.included("answers.py#add", tiny_course), "42.1", "python")
    assert '    raise NotImplementedError("42.1")' in text.splitlines()
    assert "total" not in text and "SOLUTION" not in text
    ast.parse(text)


def test_cuda_starter_keeps_what_surrounds_the_solution(tiny_course):
    text = regions.starter(regions.included("kernels_cu/add/01_add.cu", tiny_course), "42.2", "cuda")
    assert "    // TODO 42.2: your code here, in place of this line" in text.splitlines()
    assert "a[idx] + b[idx]" not in text and "const int idx" in text and text.rstrip().endswith("}")


def test_solved_has_the_solution_and_no_marks(tiny_course):
    text = regions.solved(regions.included("kernels_cu/add/01_add.cu", tiny_course))
    assert "a[idx] + b[idx]" in text and "SOLUTION" not in text and "region" not in text


@pytest.mark.parametrize(
    "text", ["// BEGIN SOLUTION\n1", "// END SOLUTION", "// BEGIN SOLUTION\n// BEGIN SOLUTION\n// END SOLUTION"]
)
def test_solution_marks_must_alternate(text):
    with pytest.raises(CourseError, match="SOLUTION"):
        regions.starter(text, "42.1", "cuda")


def test_exercise_without_a_solution_region_is_refused():
    with pytest.raises(CourseError, match="42.1.*no BEGIN SOLUTION"):
        regions.starter("int a;", "42.1", "cuda")


def test_an_unmarked_region_vanishes_from_the_starter():
    text = (
        "// BEGIN SOLUTION\n// END SOLUTION\na();\n// BEGIN SOLUTION unmarked\n__syncthreads();\n// END SOLUTION\nb();"
    )
    assert regions.starter(text, "02.5", "cuda").splitlines()[1:] == ["a();", "b();"]
    assert "TODO 02.5" in regions.starter(text, "02.5", "cuda")
    assert regions.solved(text) == "a();\n__syncthreads();\nb();"


def test_lines_to_mend_stand_in_the_starter_and_nowhere_else():
    text = "// BEGIN SOLUTION\n    // GIVEN: slow();\n    fast();\n// END SOLUTION"
    assert regions.starter(text, "01.2", "cuda").splitlines()[1:] == ["    slow();"]
    assert "// TODO 01.2: mend" in regions.starter(text, "01.2", "cuda")
    assert regions.solved(text) == "    fast();"


def test_excerpts_with_several_unrolled_loops_say_so_in_comments():
    loops = "{0}for (int i = 0; i < N; ++i)\n    a;\n{0}for (;;)  // keys\n    b;"
    text = "Text.\n\n```c++\n{}\n```\n\n```c++\n#pragma unroll\nfor (;;)\n    c;\n```"
    folded = regions.pragmas_folded(text.format(loops.format("#pragma unroll\n")))
    wanted = "for (int i = 0; i < N; ++i)  // unrolled\n    a;\nfor (;;)  // keys; unrolled\n    b;"
    assert folded == text.format(wanted)
    python = text.format(loops.format("#pragma unroll\n")).replace("```c++", "```python")
    assert regions.pragmas_folded(python) == python
