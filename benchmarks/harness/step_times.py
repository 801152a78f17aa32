"""The time of every step of a serving engine, and what it depends on, for the fit of the simulator.

May import: the standard library, torch.
"""

import csv
import time
from pathlib import Path

import torch

STEP_COLUMNS = (
    "variant",
    "model",
    "scenario",
    "rate",
    "step",
    "ms",
    "num_tokens",
    "num_seqs",
    "num_sampled",
    "kv_tokens",
    "is_decode",
)


class recorder:
    """A context that notes each step of an engine: milliseconds from its schedule to the next one's, and its sizes.

    Time in which the engine had no work belongs to no step.
    """

    def __init__(self, engine, clock=time.perf_counter):
        self.engine, self.scheduler, self.steps, self.clock = engine, engine.scheduler, [], clock
        self.originals = engine.step, engine.scheduler.schedule

    def __enter__(self):
        self.last = self.clock()
        self.engine.step, self.scheduler.schedule = self.step, self.schedule
        return self.steps

    def __exit__(self, *_):
        self.engine.step, self.scheduler.schedule = self.originals

    def step(self):
        outputs = self.originals[0]()
        if not self.engine.has_work:
            self.close()
            self.last = None
        return outputs

    def schedule(self):
        self.close()
        self.last = self.clock()
        step = self.originals[1]()
        if step is not None:
            self.steps.append(sizes(step))
        return step

    def close(self):
        """Add the time since the last call to the newest step; a call that scheduled nothing belongs to it too."""
        if self.steps and self.last is not None:
            self.steps[-1]["ms"] = self.steps[-1].get("ms", 0.0) + 1e3 * (self.clock() - self.last)


def sizes(step):
    """What the time of a Step depends on."""
    return {
        "num_tokens": step.num_tokens, "num_seqs": len(step.pieces), "is_decode": int(step.is_decode),
        "num_sampled": sum(piece.samples for piece in step.pieces),
        "kv_tokens": sum(piece.start + piece.num_tokens for piece in step.pieces),
    }  # fmt: skip


def store_steps(spec, variant, steps):
    """Append the steps of a run to the file that spec names, for the fit of the simulator."""
    if not spec.get("steps"):
        return
    path = Path(spec["steps"])
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ("device", *STEP_COLUMNS), lineterminator="\n")
        if new:
            writer.writeheader()
        device = torch.cuda.get_device_name() if spec["device"] == "cuda" else "CPU"
        about = {"device": device, "variant": variant}
        about |= {name: spec["load"].get(name, "") for name in ("model", "scenario", "rate")}
        for number, step in enumerate(steps):
            if "ms" in step:
                writer.writerow(about | {"step": number} | step | {"ms": f"{step['ms']:.4f}"})
