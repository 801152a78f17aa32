"""The course's kernels as PyTorch operators: opcheck, gradients, torch.compile, and transformers on top of them."""

import pytest
import torch

from course_lib import operators
from course_lib.errors import ShapeError, UnsupportedError

D = torch.float64


def qkv(seq_len_q=5, seq_len_kv=7, head_dim=16, dtype=torch.float32, grad=True):
    shapes = [(2, 4, seq_len_q, head_dim)] + 2 * [(2, 2, seq_len_kv, head_dim)]
    return [torch.randn(shape, dtype=dtype).requires_grad_(grad) for shape in shapes]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_flash_attention_is_a_well_made_operator(causal, dtype):
    torch.library.opcheck(operators.flash_attention, (*qkv(dtype=dtype), causal, None))
    strided = [x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in qkv(dtype=dtype)]
    torch.library.opcheck(operators.flash_attention, (*strided, causal, 0.3))


def test_gradients_are_those_of_the_formula():
    assert torch.autograd.gradcheck(lambda *x: operators.flash_attention(*x, True, 0.4)[0], qkv(head_dim=4, dtype=D))


def test_compiles_without_a_graph_break_and_gives_the_same_bits():
    def block(q, k, v):
        return operators.flash_attention(q * 2, k, v, True)[0].tanh()

    tensors = qkv()
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    want, got = block(*tensors), compiled(*tensors)
    assert torch.equal(want, got)
    for a, b in zip(torch.autograd.grad(want.sum(), tensors), torch.autograd.grad(got.sum(), tensors), strict=True):
        assert torch.equal(a, b)


def test_errors_stay_sentences():
    q, k, v = qkv()
    with pytest.raises(ShapeError, match="k"):
        operators.flash_attention(q, k[..., :8], v)


def pool(dtype=torch.float16):
    pages = [torch.randn(6, 4, 2, 64).to(dtype) for _ in range(2)]
    table = torch.tensor([[3, 0], [1, 5]], dtype=torch.int32)
    return (*pages, table, torch.tensor([7, 3], dtype=torch.int32))


def test_attention_over_pages_is_a_well_made_operator():
    q = torch.randn(2, 4, 64).half()
    torch.library.opcheck(operators.paged_attention, (q, *pool(), 0.2, 8))
    queries, offsets = torch.randn(3, 4, 64).half(), torch.tensor([0, 2, 3], dtype=torch.int32)
    torch.library.opcheck(operators.paged_prefill, (queries, *pool(), offsets, 2, None))


def test_writing_into_the_pages_says_what_it_changes():
    k_pages, v_pages, *_ = pool()
    k, v = torch.randn(2, 2, 64).half(), torch.randn(2, 2, 64).half()
    slots = torch.tensor([5, -1])
    torch.library.opcheck(operators.reshape_and_cache, (k, v, k_pages, v_pages, slots))

    def step(k, v, k_pages, v_pages):
        operators.reshape_and_cache(k, v, k_pages, v_pages, slots)
        return k_pages.sum()

    want = k_pages.clone()
    want[1, 1] = k[0]
    assert torch.equal(torch.compile(step, fullgraph=True, backend="aot_eager")(k, v, k_pages, v_pages), want.sum())
    assert torch.equal(k_pages, want)


def tiny(architecture, implementation):
    """A random model of two layers; the same weights for every implementation."""
    import transformers

    operators.register_with_transformers()
    sizes = {"vocab_size": 64, "max_position_embeddings": 64}
    config = {
        "gpt2": lambda: transformers.GPT2Config(
            n_embd=32, n_layer=2, n_head=2, vocab_size=64, n_positions=64, resid_pdrop=0.0, attn_pdrop=0.0
        ),
        "llama": lambda: transformers.LlamaConfig(
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            **sizes,
        ),
    }[architecture]()
    config.pad_token_id = 0
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=implementation).eval()


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
def test_transformers_gives_the_same_logits_and_tokens(architecture):
    ours, theirs = tiny(architecture, "course_attention"), tiny(architecture, "sdpa")
    ids = torch.randint(3, 64, (2, 9), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(ours(ids).logits, theirs(ids).logits, rtol=0, atol=2e-5)
    padded, mask = ids.clone(), torch.ones_like(ids)
    padded[0, :4], mask[0, :4] = 0, 0
    for prompt, is_real in ((ids, torch.ones_like(ids)), (padded, mask)):
        options = {"attention_mask": is_real, "max_new_tokens": 8, "do_sample": False, "min_new_tokens": 8}
        assert torch.equal(ours.generate(prompt, **options), theirs.generate(prompt, **options))


def test_what_transformers_may_not_ask_for():
    q, k, v = qkv(grad=False)
    module = torch.nn.Module()
    with pytest.raises(UnsupportedError, match="course_attention has no sliding_window, dropout"):
        operators.attend(module, q, k, v, None, dropout=0.1, sliding_window=4)
    with pytest.raises(UnsupportedError, match="takes a mask of"):
        operators.attend(module, q, k, v, torch.ones(2, 1, 5, 7))
    with pytest.raises(UnsupportedError, match="16 places and 9 tokens"):
        operators.transformers.padding_mask(2, 1, 16, q_offset=8)
