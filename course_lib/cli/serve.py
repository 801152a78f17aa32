"""`course serve`: an OpenAI-compatible server for a model that ships with the course or lies in a folder.

May import: everything.
"""

import argparse
import json
from pathlib import Path

from ..errors import CourseError, ModelError

HELP = "serve a model over HTTP, in the form of OpenAI's API"
EXAMPLE = """\
Ask it, for example:

  curl http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' \\
       -d '{"model": "small", "prompt": "The for statement", "max_tokens": 40, "stream": true}'

or with the client of OpenAI: openai.OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="none"). The models that ship
with the course were trained on prose: /v1/chat/completions writes a dialogue as "User: …" and "Assistant:" and ends an
answer before the next "User:". There is no key and no encryption: whoever reaches the port may use the model."""
DTYPES = ("float32", "float16", "bfloat16")


def add_arguments(parser):
    """The options of `course serve`."""
    parser.epilog, parser.formatter_class = EXAMPLE, argparse.RawDescriptionHelpFormatter
    add_engine_arguments(parser)
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1, this machine alone")
    parser.add_argument("--port", type=int, default=8000, help="default: 8000; 0 takes a free one")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds from a request to its last token")


def add_engine_arguments(parser):
    """The options of the model and its engine, which `course bench-serve` has too."""
    parser.add_argument("--model", default="small", help="small, draft, or a folder as transformers saves it")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda where there is a GPU")
    parser.add_argument("--dtype", choices=DTYPES, help="default: float32 on a CPU, as it is stored on a GPU")
    parser.add_argument("--num-pages", type=int, help="of the KV pool; default: 8,192 tokens, or a GPU's memory")
    parser.add_argument("--page-size", type=int, default=16, help="tokens a page")
    parser.add_argument("--max-num-tokens", type=int, default=2048, help="tokens that one step computes at most")
    parser.add_argument("--max-num-seqs", type=int, default=64, help="requests that run at once at most")
    parser.add_argument("--max-waiting", type=int, default=256, help="requests that wait at most; more get a 429")
    parser.add_argument("--prefix", choices=("radix", "hash", "none"), default="radix", help="the prefix cache")


def run(options):
    """Load the model and serve it until Ctrl-C."""
    from ..serving.server import serve

    app, about = application(options)
    serve(
        app, options.host, options.port, lambda url: print(f"{about}\n{url}/v1 is open; Ctrl-C closes it.", flush=True)
    )
    return 0


def application(options):
    """(the FastAPI application, one line about the model)."""
    from ..serving.engine import ServingEngine
    from ..serving.server import Served, create_app
    from ..serving.service import Service

    model, tokenizer, folder = loaded(options)
    config = config_of(options, model)
    ends = json.loads((folder / "config.json").read_text(encoding="utf-8"))

    def make_engine():
        return ServingEngine(model, tokenizer, config)

    engine = make_engine()
    service = Service(engine, make_engine, max_open=config.max_waiting + config.max_num_seqs)
    name = folder.resolve().name
    served = Served(
        name, tokenizer, model.config.vocab_size, engine.config.max_model_len,
        _token(ends.get("bos_token_id")), _token(ends.get("eos_token_id")), options.timeout,
    )  # fmt: skip
    about = f"{name}: {model.config.num_layers} layers, width {model.config.hidden_size}, on {model.device}; "
    return create_app(service, served), about + f"{config.num_pages} pages of {config.page_size} tokens."


def loaded(options):
    """(model, tokenizer, folder)."""
    import torch

    from ..model import Transformer, load_tokenizer
    from ..model.shipped import SHIPPED, folder

    shipped = (SHIPPED / options.model / "config.json").is_file()
    path = folder(options.model) if shipped else Path(options.model)
    if not path.is_dir():
        raise ModelError(f"{options.model} is no folder, and no model of this name ships with the course.")
    place = place_of(options)
    name = options.dtype or ("float32" if place == "cpu" else None)
    dtype = name and getattr(torch, name)
    return Transformer.load(path, dtype=dtype, device=place), load_tokenizer(path), path


def place_of(options):
    """ "cuda" or "cpu"."""
    from .. import device

    place = options.device or ("cuda" if device.has_gpu() else "cpu")
    if place == "cuda" and not device.has_gpu():
        raise CourseError("--device cuda needs an NVIDIA GPU, and none is found here (`course doctor` says more)")
    return place


def config_of(options, model):
    """The ServingConfig that the options ask for."""
    from ..serving.engine import default_config

    given = {"page_size": options.page_size, "max_num_tokens": options.max_num_tokens}
    given |= {"max_num_seqs": options.max_num_seqs, "max_waiting": options.max_waiting}
    if options.num_pages is not None:
        given["num_pages"] = options.num_pages
    return default_config(model, prefix=None if options.prefix == "none" else options.prefix, **given)


def _token(value):
    """bos_token_id or eos_token_id of a config.json; of several the first."""
    return value[0] if isinstance(value, list) else value
