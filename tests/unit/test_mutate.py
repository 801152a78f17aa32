"""`course mutate`: what finds each mistake, for a step and for an answer, and its errors in sentences."""

import pytest
import torch

from course_lib import cli
from course_lib.checklist import solution_text
from course_lib.cli import mutant_runs
from course_lib.cuda.mutations import mutations
from course_lib.errors import CompileError
from course_lib.grading.exercise import registry


def _mutate(capsys, *words):
    status = cli.main(["mutate", *map(str, words)])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_every_barrier_of_a_step_is_needed(capsys):
    """Those of the header that it includes too."""
    status, out, _ = _mutate(capsys, "kernels_cu/row_softmax/02_fused.cu", "--kind", "barrier", "--headers")
    rows = [row for row in out.splitlines() if "deleted" in row]
    assert status == 0 and all("finding (" in row for row in rows), out
    assert len(rows) == 5 and sum("of common/block_reduce.cuh" in row for row in rows) == 4, out
    assert out.splitlines()[-1] == "5 mutants: 5 found by a finding, 0 by wrong values, 0 by nothing."


def test_the_second_fence_is_needed_and_a_cache_operator_is_not(capsys):
    kinds = "--kind", "fence", "--kind", "ldcg", "--kind", "atomic"
    status, out, _ = _mutate(capsys, "decode/03_fused_combine.cu", *kinds)
    found = {
        line.split("  ")[-1].strip() for line in out.splitlines() if "__threadfence" in line or "atomicAdd" in line
    }
    assert status == 0 and found == {"finding (race, forward)"}, out
    assert all(line.endswith("nothing") for line in out.splitlines() if "__ldcg" in line)
    assert "No run needs what those change" in out


def test_one_line_and_nothing_to_mutate(capsys):
    status, out, _ = _mutate(capsys, "vector/01_add.cu")
    assert status == 0 and out.splitlines()[-1].startswith("There is nothing to mutate")


def test_an_answer_runs_on_the_cases_of_its_exercise(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_WORK_DIR", str(tmp_path / "work"))
    answer = tmp_path / "answer.cu"
    answer.write_text(solution_text(registry.get("02.5")))
    status, out, _ = _mutate(capsys, answer, "--exercise", "02.5", "--kind", "barrier")
    rows = [line for line in out.splitlines() if "deleted" in line]
    assert status == 0 and rows and all("finding (race)" in row for row in rows), out
    assert not (tmp_path / "work" / "progress.json").exists()  # mutants are no tries


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("missing.cu",), "there is no file missing.cu; name a step, kernels_cu/FAMILY/NN_idea.cu, or an answer"),
        (("README.md",), "README.md is no step of kernels_cu; for an answer name its exercise: --exercise NN.k"),
        (("README.md", "--exercise", "03.1"), "exercise 03.1 is answered in python; mutate takes CUDA C++"),
        (("README.md", "--exercise", "77.1"), "there is no exercise '77.1'"),
        (("README.md", "--exercise", "02.5"), "the answer to 02.5 does not pass"),
    ],
)
def test_errors_are_sentences(capsys, words, sentence):
    status, _, err = _mutate(capsys, *words)
    assert status == cli.BAD_REQUEST and err.startswith("course: ") and sentence in err


def test_a_kind_that_does_not_exist_is_refused_with_the_list(capsys):
    with pytest.raises(SystemExit):
        cli.main(["mutate", "vector/01_add.cu", "--kind", "brackets"])
    assert "skipped barrier" in capsys.readouterr().err


class _Subject:
    """Finds what `by_text` says of the words in a text."""

    text = "void f() {\n    __syncthreads();\n    row_smem[0] = 1;\n}\n"

    def __init__(self, by_text):
        self._by_text = by_text

    def run(self, text, schedules=()):
        for words, result in self._by_text.items():
            if words in text:
                if isinstance(result, Exception):
                    raise result
                return result, ""
        return mutant_runs.NOTHING, ""


@pytest.mark.parametrize(
    ("by_text", "expected"),
    [
        ({}, "not run"),
        ({"__trap()": "finding"}, "nothing"),
        ({"row_smem[(0) + 1]": "values"}, "values"),
        ({"row_smem[(0) + 1]": CompileError("no", log="no")}, "does not compile"),
    ],
)
def test_a_survivor_counts_only_where_a_trap_would_be_reached(by_text, expected):
    rows = list(mutant_runs.rows(_Subject(by_text), kinds=("index",)))
    assert [row.found_by for row in rows] == [expected]
    assert len(mutations(_Subject.text)) == 3


def test_values_differ_beyond_another_order_of_summation():
    a = torch.tensor([1.0, 2.0, float("nan"), float("-inf")])
    assert not mutant_runs.differs(a, a.clone()) and not mutant_runs.differs(a * (1 + 1e-5), a)
    assert mutant_runs.differs(a * 1.01, a) and mutant_runs.differs(a.nan_to_num(), a)
    assert mutant_runs.differs(torch.tensor([1]), torch.tensor([2]))
    assert not mutant_runs.differs(torch.tensor([]), torch.tensor([]))
