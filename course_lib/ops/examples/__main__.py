"""Launch every example once where the course runs; what the sanitizer watches."""

import argparse

import torch

from ...device import engine
from . import examples


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--language", choices=("all", "cuda", "triton"), default="all")
    wanted = parser.parse_args().language
    device = "cuda" if engine() == "gpu" else "cpu"
    chosen = [example for example in examples(device) if wanted in ("all", example.language)]
    for example in chosen:
        example.plan().run()
    if device == "cuda":
        torch.cuda.synchronize()
    print(f"{len(chosen)} launches on {device}")


if __name__ == "__main__":
    main()
