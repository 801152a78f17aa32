"""Train the small model of the course, on the course's kernels or on torch's.

    python -m course_lib.model.corpus --out build/corpus
    python -m course_lib.model.train --data build/corpus --size small --out build/models/small
    python -m course_lib.model.train --data build/corpus --size nano --steps 200 --batch-size 8 --out build/models/nano

AdamW on float32 parameters, a learning rate that rises and then falls along a cosine, clipped gradients. On a GPU a
step computes in bfloat16: the parameters are rounded once a step, since the course's kernels take an input and its
weights in one dtype. It is recorded as a CUDA graph, since its hundreds of launches cost the host more time than the
GPU. On a CPU a step computes in float32. The checkpoint of the lowest validation loss is what is written.

The same seed and number of steps give the same batches and, on a CPU, the same curve. On a Hopper GPU the last bits
differ from run to run: attention's backward pass adds there in no fixed order.

May import: errors, numpy, torch; of its room config, weights, transformer, graph, training_kernels, card.
"""

import argparse
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from ..errors import CourseError
from . import card
from .config import ModelConfig
from .graph import Graph
from .training_kernels import training_kernels
from .transformer import Transformer
from .weights import Weights, random_weights

LOG_EVERY = 10  # steps of a row of the curve
TIMED_STEPS, UNTIMED_STEPS = 20, 5  # of --minutes


def _size(hidden, layers, context=512):
    """A GPT-2 with heads of 64 and the tokens of `corpus`."""
    return ModelConfig("gpt2", 4096, hidden, layers, hidden // 64, hidden // 64, 64, 4 * hidden, context)


SIZES = {
    "small": _size(192, 6),  # 3,554,304 parameters
    "draft": _size(128, 2),  # 986,624, for speculative decoding
    "nano": _size(64, 2, context=64),  # 366,336: minutes on a CPU
}


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a run but its data and its machine.

    Attributes
    ----------
    size : str, a key of SIZES
    steps, batch_size : int; a step takes batch_size * context tokens
    learning_rate : float, at its highest; it ends at a tenth
    warm_up : int, steps until then
    weight_decay : float, of matrices and tables
    dropout, clip : float; clip is the largest norm of all gradients together
    seed : int, of first values, batches and dropout
    kernels : "course" or "torch"
    validate_every : int, steps, a multiple of 10
    """

    size: str = "small"
    steps: int = 2000
    batch_size: int = 16
    learning_rate: float = 2e-3
    warm_up: int = 100
    weight_decay: float = 0.1
    dropout: float = 0.1
    clip: float = 1.0
    seed: int = 0
    kernels: str = "torch"
    validate_every: int = 100


@dataclass(frozen=True)
class Point:
    """A row of the curve: the mean loss of the last steps, and the validation loss where it was measured."""

    step: int
    learning_rate: float
    loss: float
    validation_loss: float | None
    step_ms: float


def learning_rate(recipe, step):
    """Of a step, from 0 on."""
    if step < recipe.warm_up:
        return recipe.learning_rate * (step + 1) / recipe.warm_up
    progress = (step - recipe.warm_up) / max(1, recipe.steps - recipe.warm_up)
    return recipe.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


class Run:
    """A model in training.

    Parameters
    ----------
    recipe : Recipe
    train, validation : arrays, (num_tokens,), uint16
    device : str
    graph : bool; record a step as a CUDA graph where the device is a GPU
    """

    def __init__(self, recipe, train, validation, device="cpu", graph=True):
        self.recipe, self.config, self.device = recipe, SIZES[recipe.size], device
        self.on_gpu = device.startswith("cuda")
        self.dtype = torch.bfloat16 if self.on_gpu else torch.float32
        self.kernels = training_kernels(recipe.kernels, device)
        self.dropping = training_kernels(recipe.kernels, device, recipe.dropout)
        torch.manual_seed(recipe.seed)
        self.weights = random_weights(self.config, recipe.seed).to(device)
        self.optimiser = self._optimiser()
        self.window = torch.arange(self.config.max_positions + 1, device=device)
        self.train, self.validation = self._tokens("train", train), self._tokens("validation", validation)
        generator = torch.Generator().manual_seed(recipe.seed + 1)
        latest = len(train) - self.config.max_positions
        shape = recipe.steps, recipe.batch_size
        self.starts = torch.randint(0, latest, shape, generator=generator, device="cpu").to(device)
        self.rates = torch.tensor([learning_rate(recipe, number) for number in range(recipe.steps)], device=device)
        self.losses = torch.zeros(recipe.steps, device=device)
        self.number = torch.zeros(1, dtype=torch.int64, device=device)  # of the next step
        self.step = Graph(self._step) if graph and self.on_gpu else self._step

    def _optimiser(self):
        parameters = [x.requires_grad_() for x in self.weights.tensors.values()]
        groups = [
            {"params": [x for x in parameters if x.ndim == 2], "weight_decay": self.recipe.weight_decay},
            {"params": [x for x in parameters if x.ndim == 1], "weight_decay": 0.0},
        ]
        self.rate = torch.tensor(self.recipe.learning_rate, device=self.device)
        return torch.optim.AdamW(groups, lr=self.rate, betas=(0.9, 0.95), fused=True, capturable=self.on_gpu)

    def _tokens(self, name, tokens):
        context, vocab_size = self.config.max_positions, self.config.vocab_size
        if len(tokens) <= context or int(tokens.max()) >= vocab_size:
            raise CourseError(
                f"{name} has {len(tokens)} tokens up to {tokens.max()}; expected more than {context}, each below "
                f"{vocab_size}. Make it with: python -m course_lib.model.corpus"
            )
        return torch.from_numpy(tokens.astype(np.int64)).to(self.device)

    def batch(self, starts, tokens):
        """(ids, targets) of the windows that begin at `starts`."""
        rows = tokens[starts[:, None] + self.window]
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def mean_loss(self, ids, targets, kernels):
        """Of a batch, (), float32; the weights are rounded first where a step computes in bfloat16."""
        model = Transformer(self.weights.to(dtype=self.dtype), kernels)
        return kernels.cross_entropy(model.forward(ids).flatten(0, 1), targets.flatten())

    def _step(self):
        """One step of the optimiser; its loss goes to `losses`. The host waits for nothing and gives no number."""
        self.rate.copy_(self.rates.index_select(0, self.number)[0])
        starts = self.starts.index_select(0, self.number)[0]
        loss = self.mean_loss(*self.batch(starts, self.train), self.dropping)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights.tensors.values(), self.recipe.clip)
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.losses.index_copy_(0, self.number, loss.detach()[None])
        self.number.add_(1)

    @torch.no_grad()
    def validate(self):
        """The mean loss over the whole windows of the validation text."""
        context = self.config.max_positions
        starts = torch.arange(0, len(self.validation) - context, context, device=self.device)
        batches = ((self.batch(some, self.validation), len(some)) for some in starts.split(32))
        parts = [self.mean_loss(*batch, self.kernels) * count for batch, count in batches]
        return float(sum(parts) / len(starts))

    def copied_weights(self):
        """The Weights as they are now."""
        return Weights(self.config, {name: x.detach().clone() for name, x in self.weights.tensors.items()})

    def wait(self):
        if self.on_gpu:
            torch.cuda.synchronize()


def train(run, report=print):
    """Train to the end; returns (Weights of the lowest validation loss, the curve as a list of Point)."""
    curve, best, kept, recipe = [], math.inf, None, run.recipe
    since = time.perf_counter()
    for number in range(recipe.steps):
        run.step()
        done = number + 1
        if done % LOG_EVERY and done != recipe.steps:
            continue
        mean, validation_loss = run.losses[len(curve) * LOG_EVERY : done].mean().item(), None
        step_ms = 1000 * (time.perf_counter() - since) / (done - len(curve) * LOG_EVERY)
        if done % recipe.validate_every == 0 or done == recipe.steps:
            validation_loss = run.validate()
            report(f"step {done:5d}  loss {mean:.4f}  validation {validation_loss:.4f}  {step_ms:.1f} ms a step")
            if validation_loss < best:
                best, kept = validation_loss, run.copied_weights()
        curve.append(Point(done, learning_rate(recipe, number), mean, validation_loss, step_ms))
        since = time.perf_counter()
    return kept, curve


def seconds_per_step(recipe, *data):
    """Of a throw-away run, after its first steps."""
    run = Run(replace(recipe, steps=UNTIMED_STEPS + TIMED_STEPS), *data)
    for number in range(run.recipe.steps):
        if number == UNTIMED_STEPS:
            run.wait()
            start = time.perf_counter()
        run.step()
    run.wait()
    return (time.perf_counter() - start) / TIMED_STEPS


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m course_lib.model.train", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="what course_lib.model.corpus wrote")
    parser.add_argument("--out", type=Path, required=True, help="folder for the model, its curve and its card")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--eager", action="store_true", help="record no CUDA graph")
    parser.add_argument("--minutes", type=float, help="fewer steps where --steps would take longer than this")
    for name, default in vars(Recipe()).items():
        choices = {"size": SIZES, "kernels": ("course", "torch")}.get(name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default, choices=choices)
    options = vars(parser.parse_args(arguments))
    folder, out, device, minutes, eager = (options.pop(name) for name in ("data", "out", "device", "minutes", "eager"))
    recipe = Recipe(**options)
    data = (*(np.load(folder / f"{name}.npy") for name in ("train", "validation")), device, not eager)
    if minutes:
        recipe = replace(recipe, steps=min(recipe.steps, max(1, int(60 * minutes / seconds_per_step(recipe, *data)))))
    print(f"{recipe} on {device}", flush=True)
    start = time.perf_counter()
    kept, curve = train(Run(recipe, *data), report=lambda line: print(line, flush=True))
    card.write(out, folder, recipe, kept, curve, device=device, seconds=time.perf_counter() - start)
    print((out / "README.md").read_text("utf-8"))


if __name__ == "__main__":
    main()
