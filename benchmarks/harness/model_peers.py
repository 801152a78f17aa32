"""transformers as the peers of the course's model: the same weights, greedy, a fixed number of new tokens.

Each peer is a function (weights, prompts, new_tokens) -> run, and run(count) -> the new tokens of each row.
transformers is imported inside: where it is missing, a note says so.
"""

import torch


def hugging_face(weights, attention):
    """transformers' model with the same weights, on their device."""
    import transformers

    transformers.logging.set_verbosity_error()
    values = weights.config.to_hugging_face() | {"dtype": weights["norm.weight"].dtype}
    config = transformers.AutoConfig.for_model(**values)
    config._attn_implementation = attention
    device = weights["norm.weight"].device
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    model = model.to(values["dtype"])
    missing, unknown = model.load_state_dict(weights.to_hugging_face(), strict=False)
    assert not unknown and set(missing) <= {"lm_head.weight"}, (missing, unknown)
    model.tie_weights()
    model.generation_config.eos_token_id = model.generation_config.pad_token_id = None
    return model.eval()


def generated(attention, **options):
    """The peer that calls transformers' generate with `options`; a static cache is compiled by generate itself."""

    def peer(weights, prompts, new_tokens):
        model = hugging_face(weights, attention)
        ids = torch.tensor(prompts, device=model.device)
        mask = torch.ones_like(ids)

        def run(count=new_tokens):
            given = {"attention_mask": mask, "do_sample": False, "max_new_tokens": count, "min_new_tokens": count}
            return model.generate(ids, **given, **options)[:, ids.shape[1] :].tolist()

        return run

    return peer


def batched(weights, prompts, new_tokens):
    """transformers' generate_batch: continuous batching on paged keys and values with SDPA.

    Its manager, with pages and graphs, is kept from call to call, as a server keeps it; `run.close` ends it.
    """
    from transformers import ContinuousBatchingConfig

    model, paging = hugging_face(weights, "paged|sdpa"), ContinuousBatchingConfig(max_memory_percent=0.5)

    def run(count=new_tokens):
        config = model.generation_config
        config.max_new_tokens, config.do_sample = count, False
        options = {"continuous_batching_config": paging, "persistent_manager": True, "progress_bar": False}
        outputs = model.generate_batch(inputs=prompts, generation_config=config, max_new_tokens=count, **options)
        return [output.generated_tokens for _, output in sorted(outputs.items(), key=_request)]

    run.close = model.destroy_cached_continuous_batching_manager
    return run


def _request(item):
    """The number at the end of a request's id."""
    digits = "".join(letter for letter in item[0].rpartition("_")[2] if letter.isdigit())
    return int(digits or 0)


DRY_PEERS = ("transformers_sdpa",)  # the others take a minute to start on a CPU, or are the same function
COMPILED_PEERS = ("transformers_static_compile",)  # whose cache is as long as the tokens that are asked for
PEERS = {
    "transformers_eager": generated("eager"),
    "transformers_sdpa": generated("sdpa"),
    "transformers_static_compile": generated("sdpa", cache_implementation="static"),
    "transformers_generate_batch": batched,
}
