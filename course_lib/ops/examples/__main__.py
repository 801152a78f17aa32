"""Launch every example once where the course runs; what the sanitizer watches."""

import argparse

import torch

from ...device import engine
from . import examples


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--language", choices=("all", "cuda", "triton"), default="all")
    parser.add_argument("--without", nargs="*", default=(), metavar="FAMILY/STEP", help="steps to leave out")
    options = parser.parse_args()
    device = "cuda" if engine() == "gpu" else "cpu"
    spoken = [example for example in examples(device) if options.language in ("all", example.language)]
    chosen = [example for example in spoken if example.stem not in options.without]
    for example in chosen:
        example.plan().run()
    if device == "cuda":
        torch.cuda.synchronize()
    print(f"{len(chosen)} launches on {device}")


if __name__ == "__main__":
    main()
