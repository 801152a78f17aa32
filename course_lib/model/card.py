"""The files of a trained model: weights, configuration, tokenizer, curve, card.

May import: model.generate, model.tokenizer, model.transformer, torch.
"""

import csv
import json
import platform
import shutil
from dataclasses import asdict

import torch

from .generate import Sampling, generate
from .tokenizer import load_tokenizer
from .transformer import Transformer

END = 0  # the end-of-text token
PROMPTS = ("The for statement", "class Queue:\n", "def read(self, size=-1):\n", "A warp")
NOTICE = """\
The weights and tokenizer.json are distributed under the course's MIT licence. The text that they were made from:

- the chapters of this course (MIT);
- the topics of Python's help and the docstrings of Python's standard library, from which excerpt.txt is taken too:
  Copyright © 2001 Python Software Foundation. All rights reserved. Copyright © 2000 BeOpen.com. All rights reserved.
  Copyright © 1995-2001 Corporation for National Research Initiatives. All rights reserved. Copyright © 1991-1995
  Stichting Mathematisch Centrum. All rights reserved. Used under the PSF licence agreement,
  https://docs.python.org/3/license.html. Changed: docstrings were taken out of their modules, blanks at line ends and
  repeated empty lines were removed."""


def write(out, data, recipe, weights, curve, *, device, seconds):
    """Write a model's folder.

    Parameters
    ----------
    out : path of the folder
    data : path of the folder that corpus wrote
    recipe : train.Recipe
    weights : Weights; stored in bfloat16
    curve : list of train.Point
    device : str
    seconds : float, of the whole training
    """
    weights.to("cpu", torch.bfloat16).save(out, bos_token_id=END, eos_token_id=END, dtype="bfloat16")
    for name in ("tokenizer.json", "excerpt.txt"):
        shutil.copyfile(data / name, out / name)
    write_curve(out / "curve.csv", curve)
    model = Transformer.load(out, dtype=torch.float32).use("torch")
    tokenizer, facts = load_tokenizer(out), json.loads((data / "corpus.json").read_text("utf-8"))
    excerpt_loss = loss_of_text(model, tokenizer, (out / "excerpt.txt").read_text("utf-8"))
    machine = f"{_device(device)}, torch {torch.__version__}"
    lines = _card(recipe, weights, curve, facts, excerpt_loss, machine, seconds)
    texts = [sample(model, tokenizer, prompt) for prompt in PROMPTS]
    (out / "README.md").write_text(lines + _samples(texts), "utf-8")


def write_curve(path, curve):
    """The curve as a csv file, an empty field where nothing was validated."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(asdict(curve[0]))
        for point in curve:
            validation_loss = "" if point.validation_loss is None else f"{point.validation_loss:.4f}"
            row = (
                point.step,
                f"{point.learning_rate:.6f}",
                f"{point.loss:.4f}",
                validation_loss,
                f"{point.step_ms:.2f}",
            )
            writer.writerow(row)


@torch.no_grad()
def loss_of_text(model, tokenizer, text):
    """The mean loss of a text in nats a token, in windows of the context; the end-of-text token starts it."""
    tokens = torch.tensor([END, *tokenizer.encode(text).ids])
    total, context = 0.0, model.config.max_positions
    for start in range(0, len(tokens) - 1, context):
        window = tokens[start : start + context + 1]
        logits = model.forward(window[None, :-1])[0]
        total += float(model.kernels.cross_entropy(logits, window[1:])) * len(logits)
    return total / (len(tokens) - 1)


def sample(model, tokenizer, prompt, count=80):
    """A prompt and what the model writes after it."""
    ids = [END, *tokenizer.encode(prompt).ids]
    count = min(count, model.config.max_positions - len(ids))
    (new,) = generate(model, [ids], max_new_tokens=count, sampling=Sampling(temperature=0.7))
    return tokenizer.decode(ids + new)


def _device(device):
    return torch.cuda.get_device_name() if device.startswith("cuda") else f"CPU ({platform.machine()})"


def _card(recipe, weights, curve, facts, excerpt_loss, machine, seconds):
    """README.md up to the samples."""
    config = weights.config
    best = min((point for point in curve if point.validation_loss is not None), key=lambda point: point.validation_loss)
    characters = ", ".join(f"{source} {count:,}" for source, count in facts["characters"].items())
    step_ms = sorted(point.step_ms for point in curve)[len(curve) // 2]
    rows = {
        "architecture": f"GPT-2: {config.num_layers} layers, width {config.hidden_size}, {config.num_heads} heads of "
        f"{config.head_dim}, context {config.max_positions}, {config.vocab_size:,} tokens, tied head",
        "parameters": f"{weights.num_parameters:,}, stored in bfloat16",
        "text": f"characters: {characters}; {facts['documents']} documents, {facts['held_out_documents']} of them "
        f"held out; {facts['train_tokens']:,} tokens to train, {facts['validation_tokens']:,} to validate",
        "sha256 of the text": facts["sha256"],
        "Python whose library was read": facts["python"],
        "recipe": f"AdamW, {recipe.steps} steps of {recipe.batch_size} x {config.max_positions} tokens, learning rate "
        f"{recipe.learning_rate:g} with {recipe.warm_up} steps of warm-up and a cosine to a tenth, weight decay "
        f"{recipe.weight_decay:g}, dropout {recipe.dropout:g}, gradients clipped at {recipe.clip:g}",
        "seed": recipe.seed,
        "kernels": f"{recipe.kernels}'s",
        "machine": f"{machine}; {step_ms:.1f} ms a step (median), {seconds:.0f} s in all",
        "training loss": f"{best.loss:.4f} (nats a token, mean of 10 steps)",
        "validation loss": f"{best.validation_loss:.4f}, the lowest, at step {best.step}, which is stored",
        "loss of excerpt.txt": f"{excerpt_loss:.4f}, from the stored weights in float32",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    command = (
        "python -m course_lib.model.corpus --out build/corpus\npython -m course_lib.model.train --data build/corpus"
    )
    options = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in asdict(recipe).items())
    return (
        f"# The {recipe.size} model of the course\n\n| | |\n| --- | --- |\n{table}\n\nThe curve is in curve.csv. "
        f"Made by:\n\n```bash\n{command} {options} --out build/models/{recipe.size}\n```\n\n"
        f"## Licence\n\n{NOTICE}\n"
    )


def _samples(texts):
    """The section that shows what the model writes."""
    blocks = "\n\n".join(f"````text\n{text.rstrip()}\n````" for text in texts)  # a text may have a fence itself
    return f"\n## What it writes\n\n80 tokens after each prompt, temperature 0.7, seed 0.\n\n{blocks}\n"
