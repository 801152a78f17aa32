"""One answer against one engine: has a child run it, on every case and probe, and compares what comes back.

May import: comparison, evidence, prepare, processes.protocol.
"""

from dataclasses import replace

from ..processes.protocol import ChildTask, RunResult
from .comparison import within
from .evidence import SECOND_POISON, CaseEvidence, Evidence, read_alone
from .prepare import dtype_of, inputs_and_run

WALL_SECONDS = {"cpu": 20.0, "gpu": 60.0}
PYTHON_SECONDS = 3.0  # of the processor, for a Python answer; the slowest right one takes a fifteenth of it


class Session:
    """One answer against one engine, the CPU at first: builds tasks and turns their results into evidence."""

    def __init__(self, exercise, text, run_task, filename, first_line):
        self.exercise, self.text, self.run_task, self.engine = exercise, text, run_task, "cpu"
        self.where = {"filename": filename, "first_line": first_line}

    def task(self, runs):
        exercise = self.exercise
        return ChildTask(
            exercise.language,
            self.text,
            exercise.entry,
            tuple(runs),
            engine=self.engine,
            wall_seconds=WALL_SECONDS[self.engine],
            cpu_seconds=PYTHON_SECONDS if exercise.language == "python" else 0.0,
            forbidden=exercise.forbidden,
            watched=exercise.language == "python" and exercise.ledger_rule is not None,
            meta=exercise.meta,
            **self.where,
        )

    def collect(self, prepared):
        """Run the cases stage by stage, each where those before leave a question. Returns (ChildResult, Evidence).

        In CUDA first those with the constants of the first case: a set of constants is a compilation, which takes
        longer than its small cases. Then those with other constants, which a finding does without, and an answer
        that is wrong in most; then, for an answer that is right so far, the late ones.
        """
        if self.engine != "cpu":
            prepared = [p for p in prepared if not any(getattr(one, "before", 0) for one in p.run.arguments)]
        early = [p for p in prepared if not p.case.late]

        def other(p):
            return self.exercise.language == "cuda" and p.run.constants != early[0].run.constants

        result, evidence = self._collect([p for p in early if not other(p)])
        right = sum(case.passed for case in evidence.cases)
        if 2 * right >= len(evidence.cases) and not any(case.faults for case in evidence.cases):
            result, evidence = self._go_on([p for p in early if other(p)], result, evidence)
        if all(case.passed for case in evidence.cases):
            result, evidence = self._go_on([p for p in prepared if p.case.late], result, evidence)
        return result, evidence

    def _go_on(self, prepared, result, evidence):
        """(result, evidence) with those of further cases, unless the task as a whole had a fault."""
        if not prepared or result.fault is not None:
            return result, evidence
        again, more = self._collect(prepared)
        result = replace(again, runs=result.runs + again.runs, printed=result.printed or again.printed)
        return result, Evidence(self.exercise, [*evidence.cases, *more.cases])

    def _collect(self, prepared):
        """Run these cases, twice where poison may tell more, and compare."""
        twice = self.exercise.language != "python"
        runs = [p.run if self.engine == "cpu" else replace(p.run, schedules=()) for p in prepared]
        if twice:
            runs += [
                replace(run, name=run.name + " again", poison=SECOND_POISON, schedules=(), repeats=run.name)
                for run in runs
            ]
        result = self.run_task(self.task(runs))
        by_name = {run.name: run for run in result.runs}
        cases = []
        for p in prepared:
            first = by_name.get(p.run.name) or RunResult(p.run.name)
            second = (by_name.get(p.run.name + " again") or RunResult(p.run.name)) if twice else None
            cases.append(self._compare(p, first, second))
        return result, Evidence(self.exercise, cases)

    def _compare(self, p, first, second):
        case = CaseEvidence(p.case, p.inputs, p.ref, first, second, unread=p.unread)
        if not case.ran:
            return case
        if self.exercise.accept is not None:
            case.refusal = self.exercise.accept(p.case, p.inputs, first.outputs)
            return case
        case.comparisons = self._comparisons(p, first.outputs)
        others = dict(first.schedule_outputs)
        if second is not None and second.outputs is not None:
            others["second run"] = second.outputs
        for name, outputs in others.items():
            again = self._comparisons(p, outputs)
            if all(c.passed for c in case.comparisons.values()) and not all(c.passed for c in again.values()):
                case.differing, case.comparisons = name, again
        return case

    def _comparisons(self, p, outputs):
        found = {}
        for name, ref in p.ref.items():
            dtype, unread = dtype_of(p.run, name), p.unread.get(name)
            out = read_alone(outputs.get(name), ref, unread)
            ref = read_alone(ref, ref.to(dtype), unread)
            found[name] = within(out, ref, dtype, p.tolerances[name])
        return found

    def probe(self, evidence, seed):
        """Run the exercise's probes and put their readings into the evidence."""
        probes = self.exercise.probes
        if not probes or not any(case.ran for case in evidence.cases):
            return
        made = [inputs_and_run(self.exercise, probe.case, seed, f"probe {probe.name}") for probe in probes]
        result = self.run_task(self.task([replace(run, schedules=()) for _, run in made]))
        by_name = {run.name: run for run in result.runs}
        for probe, (inputs, asked) in zip(probes, made, strict=True):
            run = by_name.get(asked.name)
            if run is not None and run.fault is None and run.outputs is not None:
                evidence.readings[probe.name] = probe.read(inputs, run.outputs)
