"""Random calls of norms, gradients, masked rows and the products of few tokens."""

import torch

from course_lib.ops import activation, cross_entropy, decode_linear, embedding, norm, norm_backward, softmax
from course_lib.reference import activation as reference_activation
from course_lib.reference import cross_entropy as reference_cross_entropy
from course_lib.reference import norm as reference_norm
from course_lib.reference.embedding import lookup_backward
from tests.unit.random_case import SIZES, Case


def _rows(r, count=1):
    shape = r.choice(SIZES), r.choice(SIZES)
    return [torch.randn(shape) for _ in range(count)]


def _norm(r):
    x, residual = _rows(r, 2)
    weight, bias = torch.randn(2, x.shape[1])
    layer = {"x": x, "weight": weight, "bias": r.choice((None, bias)), "eps": 1e-5}
    added = {"x": x, "residual": residual, "weight": weight, "eps": 1e-5}
    return r.choice(
        (
            Case(norm.layer_norm, layer, lambda a: reference_norm.layer_norm(**a_of(a, layer))),
            Case(norm.add_rms_norm, added, lambda a: reference_norm.add_rms_norm(**a_of(a, added))),
        )
    )


def a_of(arguments, like):
    """The arguments of a call without its language."""
    return {name: arguments[name] for name in like}


def _norm_backward(r):
    x, d_out = _rows(r, 2)
    arguments = {"d_out": d_out, "x": x, "weight": torch.randn(x.shape[1]), "eps": 1e-2}
    name = r.choice(("rms_norm_backward", "layer_norm_backward"))
    expected = getattr(reference_norm, name)
    return Case(getattr(norm_backward, name), arguments, lambda a: expected(**a_of(a, arguments)), 1e-3)


def _activation_backward(r):
    d_out, gate, up = _rows(r, 3)
    gelu, swiglu = {"d_out": d_out, "x": gate}, {"d_out": d_out, "gate": gate, "up": up}
    swiglu["activation"] = r.choice(("silu", "gelu_tanh"))

    def expected(a):
        if a["up"] is not None:
            return reference_activation.swiglu_backward(**a_of(a, swiglu))
        halves = a["gate"].chunk(2, -1)
        return torch.cat(reference_activation.swiglu_backward(a["d_out"], *halves, a["activation"]), -1)

    return r.choice(
        (
            Case(
                activation.gelu_tanh_backward, gelu, lambda a: reference_activation.gelu_tanh_backward(**a_of(a, gelu))
            ),
            Case(activation.swiglu_backward, swiglu, expected),
        )
    )


def _cross_entropy_backward(r):
    [logits] = _rows(r)
    targets = torch.randint(-1 if r.random() < 0.2 else 0, logits.shape[1], logits.shape[:1])
    arguments = {"d_loss": torch.randn(len(logits)), "logits": logits, "targets": targets}
    arguments |= {"lse": logits.logsumexp(-1), "ignore_index": -100, "label_smoothing": r.choice((0.0, 0.1))}

    def expected(a):
        x, used = a["logits"].double(), a["targets"] != a["ignore_index"]
        wanted = torch.zeros_like(x).scatter_(-1, torch.where(used, a["targets"], 0).long()[:, None], 1.0)
        wanted = (1.0 - a["label_smoothing"]) * wanted + a["label_smoothing"] / x.shape[-1]
        gradient = (x - a["lse"].double()[:, None]).exp() - wanted  # of the lse that is given, right or not
        return (gradient * a["d_loss"].double().flatten().expand(len(x))[:, None]).masked_fill(~used[:, None], 0.0)

    return Case(cross_entropy.cross_entropy_backward, arguments, expected)


def _forward_again(r):
    """The gradient after the loss, as a training step has them."""
    case = _cross_entropy_backward(r)
    del case.arguments["lse"]

    def chained(d_loss, logits, targets, language="cuda", **options):
        lse = cross_entropy.cross_entropy(logits, targets, language=language, **options)[1]
        return cross_entropy.cross_entropy_backward(d_loss, logits, targets, lse, language=language, **options)

    def expected(a):
        assert a["targets"].min() >= 0 or a["ignore_index"] < 0, "a target outside was taken"
        arguments = a_of(a, case.arguments) | {"targets": a["targets"].long(), "d_loss": a["d_loss"].flatten()}
        return reference_cross_entropy.cross_entropy_backward(**arguments)

    return Case(chained, case.arguments, expected)


def _embedding_backward(r):
    ids = torch.randint(-1, 8, (r.choice((*SIZES, 200)),))  # sometimes outside
    arguments = {"d_out": torch.randn(len(ids), r.choice(SIZES)), "ids": ids, "num_ids": 7}

    def expected(a):
        flat = a["ids"].flatten(), a["d_out"].flatten(0, -2)
        return lookup_backward(flat[1], flat[0], a["num_ids"])

    return Case(embedding.embedding_backward, arguments, expected)


def _masked_softmax(r):
    batch_size, keys = r.choice((1, 2)), r.choice(SIZES)
    arguments = {"scores": torch.randn(batch_size, r.choice((1, 4)), keys)}
    arguments["seq_lens_kv"] = torch.randint(-1, keys + 2, (batch_size,)).int()  # sometimes outside

    def expected(a):
        scores, (queries, keys) = a["scores"].double(), a["scores"].shape[1:]
        lens = a["seq_lens_kv"].long()[:, None, None]
        assert lens.min() >= 0 and lens.max() <= keys, "a length outside was taken"
        last = lens - queries + torch.arange(queries)[None, :, None]
        hidden = torch.arange(keys) > last
        scores = scores.masked_fill(hidden, -torch.inf)
        hidden = hidden | scores.isneginf().all(-1, keepdim=True)
        return scores.softmax(-1).masked_fill(hidden, 0.0), scores.logsumexp(-1)

    return Case(softmax.masked_softmax, arguments, expected)


def _few_tokens(r):
    tokens, size_k, size_n = r.choice((1, 5, 8, 9)), r.choice((8, 72)), r.choice((1, 6, 32))
    arguments = {"x": torch.randn(tokens, size_k).half(), "weight": torch.randn(size_n, size_k).half() / 8}
    arguments |= {"bias": r.choice((None, torch.randn(size_n).half()))}
    arguments |= {"residual": r.choice((None, torch.randn(tokens, size_n).half()))}

    def expected(a):
        out = a["x"].double() @ a["weight"].double().T
        return sum((a[name].double() for name in ("bias", "residual") if a[name] is not None), out)

    return Case(decode_linear.linear, arguments, expected, 2e-2)


def _norm_linear(r):
    tokens, size_k, size_n = r.choice((1, 8)), r.choice((8, 72)), r.choice((2, 6, 32))
    arguments = {"x": torch.randn(tokens, size_k).half(), "norm_weight": torch.randn(size_k).half()}
    arguments |= {"weight": torch.randn(size_n, size_k).half() / 8, "eps": 1e-5, "norm": "rms"}
    arguments |= {"activation": r.choice((None, "gelu", "swiglu"))}

    def expected(a):
        assert a["norm"] == "rms", "LayerNorm without a bias was taken"
        x = reference_norm.rms_norm(a["x"], a["norm_weight"], a["eps"]).half().double()
        out = x @ a["weight"].double().T
        if a["activation"] == "swiglu":
            return reference_activation.swiglu(*out.chunk(2, -1))
        return out if a["activation"] is None else reference_activation.gelu_tanh(out)

    return Case(decode_linear.norm_linear, arguments, expected, 3e-2)


MAKERS = (
    _norm,
    _norm_backward,
    _activation_backward,
    _cross_entropy_backward,
    _forward_again,
    _embedding_backward,
    _masked_softmax,
    _few_tokens,
    _norm_linear,
)
