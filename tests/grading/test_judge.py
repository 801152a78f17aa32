"""The judge with a made-up child: what each kind of result turns into, without compiling anything."""

import json
from dataclasses import replace

import pytest
import torch

from course_lib.grading.exercise import registry
from course_lib.grading.judge import difference
from course_lib.grading.judge.evidence import SECOND_POISON
from course_lib.grading.judge.judge import judge
from course_lib.grading.judge.prepare import prepare
from course_lib.grading.processes.protocol import Change, ChildResult, Fault, RunResult
from course_lib.grading.report import error_map
from course_lib.reference import softmax as reference

EXERCISE = registry.get("03.2")


def softmax(x):
    return reference.rounded_softmax(x)


class Child:
    """Stands in for isolation.run_task: computes `function` in torch; `change` may alter each RunResult."""

    def __init__(self, function=softmax, change=None, fault=None):
        self.function, self.change, self.fault, self.tasks = function, change, fault, []

    def __call__(self, task):
        self.tasks.append(task)
        runs = [self._run(run) for run in task.runs] if self.fault is None else []
        return ChildResult(runs, self.fault, printed="hello")

    def _run(self, run):
        result = RunResult(run.name, {"out": self.function(run.inputs["x"])}, launches=1)
        if self.change is not None:
            self.change(run, result)
        return result


def graded(child, text="// an answer", **options):
    return judge(EXERCISE, text, seed=4, run_task=child, **options)


def test_a_right_child_passes():
    child = Child()
    verdict = graded(child)
    assert verdict.passed and verdict.diagnosis is None and verdict.explanation == EXERCISE.explanation
    assert len(verdict.cases) == len(EXERCISE.cases) and all(case.passed for case in verdict.cases)
    assert verdict.printed == "hello" and len(child.tasks) == 1, "a pass needs no probes"


WIDTHS = registry.get("02.4")  # of three widths of a block, each a compilation


def _widths(change=None, function=softmax):
    """The widths of a block in each task that the judge gives to a child, probes left out, and its verdict."""
    child = Child(function, change)
    verdict = judge(WIDTHS, "// an answer", seed=4, run_task=child)
    tasks = [[run for run in task.runs if not run.name.startswith("probe ")] for task in child.tasks]
    return [{run.constants["BLOCK"] for run in runs} for runs in tasks if runs], verdict


def _found(run, result):
    if run.constants["BLOCK"] == 64:
        result.findings = (Fault("race", "line 3: a race.", 3),)


def test_other_constants_are_compiled_while_they_can_tell_more():
    first, *others = ({64}, {32, 128, 256, 512}, {1024, 256})
    right, verdict = _widths(lambda run, result: setattr(result, "ledger", None))
    assert verdict.passed and right == [first, *others] and len(verdict.cases) == len(WIDTHS.cases)
    assert _widths(lambda run, result: result.outputs["out"].mul_(2))[0] == [first], "wrong in most"
    assert _widths(_found)[0] == [first], "a finding says what to mend"
    some = _widths(function=lambda x: softmax(x) * (2.0 if x.shape[1] > 4096 else 1.0))
    assert some[0] == [first, others[0]], "right in most: what the others show decides"


@pytest.mark.parametrize("text", ["// TODO 03.2: your code", "    //TODO 03.2", 'raise NotImplementedError("03.2")'])
def test_an_untouched_starter_is_not_run(text):
    child = Child()
    verdict = graded(child, text)
    assert verdict.state == "NOT STARTED" and not child.tasks


@pytest.mark.parametrize("text", ["// TODO 03.20: other", "// TODO: tidy up", "todo 03.2"])
def test_other_notes_do_not_count_as_a_starter(text):
    assert graded(Child(), text).passed


def test_every_case_runs_twice_with_different_poison():
    child = Child()
    graded(child)
    poisons = [run.poison for run in child.tasks[0].runs]
    assert sum(poison != poison for poison in poisons) == len(EXERCISE.cases)
    assert poisons.count(SECOND_POISON) == len(EXERCISE.cases)


def test_the_hidden_seed_changes_from_grading_to_grading():
    first, second = Child(), Child()
    for child in (first, second):
        judge(EXERCISE, "// an answer", run_task=child)
    inputs = [child.tasks[0].runs[-1].inputs["x"] for child in (first, second)]
    assert not torch.equal(*inputs)


def test_a_failure_points_at_the_smallest_case_and_asks_the_probes():
    child = Child(lambda x: softmax(x) * (2.0 if x.shape[1] > 32 else 1.0))
    verdict = graded(child)
    assert verdict.state == "FAIL" and len(child.tasks) == 2
    assert {run.name for run in child.tasks[1].runs} == {f"probe {probe.name}" for probe in EXERCISE.probes}
    failing = [case for case in prepare(EXERCISE, 4) if case.case.sizes["num_cols"] > 32]
    smallest = min(failing, key=lambda p: p.ref["out"].numel()).case.name
    assert verdict.first_wrong.case == smallest == verdict.error_map["case"]
    assert verdict.first_wrong.got == pytest.approx(2 * verdict.first_wrong.expected, rel=1e-5)
    assert verdict.error_map["tile"] == (4, 32) and verdict.hint == EXERCISE.hints[0]


def test_the_error_map_begins_where_the_first_wrong_element_is_on_it():
    def beyond(x):
        out = softmax(x)
        out[-1, 150:] += 1.0
        return out

    verdict = graded(Child(beyond))
    (top, left), (row, col) = verdict.error_map["first"], verdict.first_wrong.index
    assert row < 128 and top == 0 and col == 150 and left == 128  # a border of the tiles of 32 columns
    assert verdict.error_map["ratio"][row - top][col - left] > 1
    said, lines = str(verdict), str(verdict).splitlines()
    assert "column 150" in said or "columns 150 to" in said
    assert "the first column shown is 128" in said and any("█" in line and "│" in line for line in lines)


def test_nan_is_never_right():
    def spoil(run, result):
        if run.name.startswith("case 12"):
            result.outputs["out"][-1, -1] = float("nan")

    verdict = graded(Child(change=spoil))
    assert verdict.state == "FAIL" and sum(not case.passed for case in verdict.cases) == 1


def test_poison_that_still_stands_is_reported_as_unwritten():
    def forget_last_column(run, result):
        result.outputs["out"][:, -1] = run.poison

    verdict = graded(Child(change=forget_last_column))
    assert verdict.diagnosis.code == "unwritten"

    def forget_rows(run, result):
        result.outputs["out"][2:] = run.poison

    verdict = graded(Child(change=forget_rows))
    assert verdict.diagnosis.code == "unwritten" and "row 2 was never written" in verdict.diagnosis.sentence


def test_an_answer_that_adds_to_what_it_finds_is_found_out():
    def accumulate(run, result):
        if run.poison == SECOND_POISON:
            result.outputs["out"] = result.outputs["out"] + run.poison

    verdict = graded(Child(change=accumulate))
    assert verdict.diagnosis.code == "reads_its_output"


def test_an_answer_that_depends_on_the_order_of_threads_is_found_out():
    def under_reverse(run, result):
        if "reverse" in run.schedules:
            result.schedule_outputs = {"forward": dict(result.outputs), "reverse": {"out": result.outputs["out"] * 0.5}}

    verdict = graded(Child(change=under_reverse))
    assert verdict.diagnosis.code == "depends_on_order" and "'reverse'" in verdict.diagnosis.sentence


def test_a_finding_fails_even_when_the_values_are_right():
    def race(run, result):
        if run.name == "case 3":
            result.findings = (Fault("race", "line 12: two threads write m_smem[0]", 12, 9),)

    verdict = graded(Child(change=race))
    assert verdict.state == "FAIL" and (verdict.diagnosis.code, verdict.diagnosis.line) == ("race", 12)


def test_the_cause_comes_before_its_consequences():
    def several(run, result):
        result.findings = (Fault("race", "a race", 30), Fault("out_of_bounds", "reads x[7]", 12))

    assert graded(Child(change=several)).diagnosis.code == "out_of_bounds"


@pytest.mark.parametrize("kind", ["compile_error", "missing_function", "timeout", "killed", "launch_configuration"])
def test_a_task_that_failed_keeps_its_own_words(kind):
    child = Child(fault=Fault(kind, "In words for the learner.", 7))
    verdict = graded(child)
    assert verdict.state == "FAIL" and len(child.tasks) == 1
    assert (verdict.diagnosis.code, verdict.diagnosis.line) == (kind, 7)
    assert verdict.diagnosis.sentence == "In words for the learner."


def test_what_cannot_run_here_is_neither_pass_nor_fail():
    verdict = graded(Child(fault=Fault("not_verified_here", "There is no C++ compiler.")))
    assert verdict.state == "NOT VERIFIED HERE" and verdict.missing == "There is no C++ compiler."


def test_a_gpu_without_a_compiler_says_what_it_did_not_check():
    def needs_compiler(run, result):
        if run.schedules:
            result.outputs, result.fault = None, Fault("not_verified_here", "There is no C++ compiler.")

    child = Child(change=needs_compiler)
    verdict = graded(child, engine="gpu")
    assert verdict.passed and "Races" in verdict.remarks[0]
    assert any(run.schedules for run in child.tasks[0].runs) and not any(run.schedules for run in child.tasks[1].runs)


def test_a_gpu_sees_only_what_passed_on_the_cpu():
    child = Child(lambda x: softmax(x) * 2)
    verdict = graded(child, engine="gpu")
    assert verdict.state == "FAIL" and verdict.engine == "cpu" and {task.engine for task in child.tasks} == {"cpu"}

    def count(run, result):
        result.ledger = {"global_load": {"bytes": 4}} if run.schedules else None

    child = Child(change=count)
    free = replace(EXERCISE, ledger_rule=None)  # four bytes are no ledger that a rule could judge
    verdict = judge(free, "// an answer", seed=4, run_task=child, engine="gpu")
    assert verdict.passed and verdict.engine == "gpu" and not verdict.remarks
    assert [task.engine for task in child.tasks] == ["cpu", "gpu"]
    assert verdict.ledger == {"global_load": {"bytes": 4}}  # counted on the CPU
    assert not any(run.schedules for run in child.tasks[1].runs)


def test_what_is_wrong_only_on_the_gpu_is_probed_there():
    class Undefined(Child):
        def __call__(self, task):
            self.function = softmax if task.engine == "cpu" else lambda x: softmax(x) * 2
            return super().__call__(task)

    child = Undefined()
    verdict = graded(child, engine="gpu")
    assert verdict.state == "FAIL" and verdict.engine == "gpu"
    assert [task.engine for task in child.tasks] == ["cpu", "gpu", "gpu"]


def test_a_python_answer_runs_on_the_cpu_alone():
    def right(task):
        engines.append(task.engine)
        return ChildResult([RunResult(run.name, dict(outputs[run.name])) for run in task.runs])

    exercise, engines = registry.get("03.1"), []
    prepared = prepare(exercise, 4)
    outputs = {p.run.name: p.base for p in prepared}
    verdict = judge(exercise, "# an answer", run_task=right, engine="gpu", prepared=prepared)
    assert verdict.passed and verdict.engine == "cpu" and engines == ["cpu"]


def test_a_changed_input_fails():
    def modify(run, result):
        result.inputs_changed = (Change("x", (1, 2), 0.5, -3.0, 12),)

    verdict = graded(Child(change=modify))
    assert verdict.diagnosis.code == "input_modified"
    assert verdict.diagnosis.sentence == (
        "The answer writes into its input x: x[1, 2] was 0.5 before the run and is -3 after it, the first of 12 such "
        "elements. Write only to the outputs."
    )
    assert "changed its input x" in verdict.cases[0].note


def test_an_input_that_only_the_second_run_changes_fails():
    def modify(run, result):
        if run.poison == SECOND_POISON:
            result.inputs_changed = (Change("x", (0, 0), 1.0, float("nan"), 1),)

    assert graded(Child(change=modify)).diagnosis.code == "input_modified"


def test_a_changed_input_fails_where_a_property_is_judged():
    exercise = replace(EXERCISE, accept=lambda case, inputs, outputs: None)

    def modify(run, result):
        result.inputs_changed = (Change("x", (), 1, 2, 1),)

    verdict = judge(exercise, "// an answer", seed=4, run_task=Child(change=modify))
    assert verdict.diagnosis.code == "input_modified" and "x was 1 before" in verdict.diagnosis.sentence


def test_wrong_shape_and_dtype_are_said():
    def transpose(run, result):
        result.outputs["out"] = result.outputs["out"].T.double()

    verdict = graded(Child(change=transpose))
    assert verdict.diagnosis.code == "wrong_return" and "expected" in verdict.diagnosis.sentence


def test_remarks_come_from_the_ledger():
    def waste(run, result):
        result.ledger = {"global_load": {"sectors": 900, "ideal_sectors": 100, "bytes": 400_000}}

    verdict = judge(replace(EXERCISE, ledger_rule=None), "// an answer", seed=4, run_task=Child(change=waste))
    assert verdict.passed and any("sectors" in remark for remark in verdict.remarks)
    assert any("Which pass" in remark for remark in verdict.remarks)
    assert verdict.bound["bytes"] > 0 and verdict.ledger["global_load"]["bytes"] == 400_000


def test_the_verdict_travels_as_json():
    verdict = graded(Child(lambda x: softmax(x) * float("nan")))
    text = json.dumps(verdict.to_dict())
    assert json.loads(text)["verdict"] == "FAIL"


def test_zeros_fail_even_where_there_is_a_single_case():
    one_case = replace(EXERCISE, cases=EXERCISE.cases[:1])
    verdict = judge(one_case, "// an answer", seed=1, run_task=Child(torch.zeros_like))
    assert verdict.state == "FAIL" and verdict.diagnosis.code == "all_zeros"


@pytest.mark.parametrize("seed", range(4))
def test_scores_are_as_large_as_the_bytes_and_scales_that_make_them(seed):
    """The floats among the inputs of 10.8 are q and scales near 1: they do not show that a score is -100."""
    exercise = registry.get("10.8")
    right = {p.run.name: {name: ref.float() for name, ref in p.ref.items()} for p in prepare(exercise, seed)}
    two_ulp = 2 * 2.0**-17  # of a float near 100

    def child(task):
        found = {run.name: right[run.name.removesuffix(" again")] for run in task.runs if run.name.startswith("case")}
        return ChildResult(
            [RunResult(name, out | {"lse": out["lse"] + two_ulp}, launches=1) for name, out in found.items()]
        )

    verdict = judge(exercise, "### an answer", seed=seed, run_task=child)
    passed = {case.name: case.passed for case in verdict.cases}
    assert passed["scores near -100"] and passed["scores near +100"] and not passed["one token"]


def test_nan_has_its_own_mark_on_the_map():
    def spoil(run, result):
        result.outputs["out"][0, 0] = float("nan")
        if result.outputs["out"].shape[1] > 2:
            result.outputs["out"][0, 1], result.outputs["out"][0, 2] = 7.0, float("inf")

    verdict = graded(Child(change=spoil))
    assert error_map.level(verdict.error_map["ratio"][0][0]) == error_map.NOT_A_NUMBER
    wide = judge(replace(EXERCISE, cases=EXERCISE.cases[3:]), "// an answer", seed=4, run_task=Child(change=spoil))
    assert [error_map.level(value) for value in wide.error_map["ratio"][0][:4]] == [error_map.NOT_A_NUMBER, 3, 3, 0]


@pytest.mark.parametrize("kind", ["compile_error", "missing_function", "wrong_signature"])
def test_no_hint_follows_what_has_nothing_to_do_with_the_task(kind):
    assert graded(Child(fault=Fault(kind, "line 3: expected ';'", 3))).hint == ""
    assert graded(Child(fault=Fault("timeout", "it was still running"))).hint == EXERCISE.hints[0]


def test_comments_do_not_count_as_a_difference():
    text = difference.solution_text(EXERCISE.solution)
    commented = text.replace("\n", "\n// mine\n  /* of two\n lines */\n", 3)
    assert difference.to_solution(EXERCISE, commented) == "Line for line the reference answer, but for comments."
    changed = difference.to_solution(EXERCISE, commented.replace("fmaxf(m, score)", "max(m, score)"))
    assert "mine" not in changed and [line[0] for line in changed.splitlines()[2:] if line[0] in "+-"] == ["-", "+"]


def test_comments_of_python_do_not_count_as_a_difference():
    exercise = registry.get("03.1")
    text = difference.solution_text(exercise.solution)
    commented = text.replace("\n    m =", "\n    # mine\n    m =", 1)
    assert commented != text
    assert difference.to_solution(exercise, commented) == "Line for line the reference answer, but for comments."


def test_the_order_of_definitions_and_imports_does_not_count_as_a_difference():
    exercise = registry.get("14.1")
    head, *definitions = difference.solution_text(exercise.solution).split("\n\n\n")
    turned = "\n\n\n".join([*reversed(definitions), "\n".join(reversed(head.splitlines()))])
    assert turned.index("class Limits") > turned.index("def schedule")
    assert difference.to_solution(exercise, turned) == "Line for line the reference answer, but for comments."
    changed = difference.to_solution(exercise, turned.replace("repr(steps)", "str(steps)"))
    assert [line[0] for line in changed.splitlines()[2:] if line[0] in "+-"] == ["-", "+"]
