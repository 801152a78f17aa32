"""Pictures of the course: plain data in, a matplotlib figure with alternative text out.

One module a subject; `style` holds the look, `drawing` the shared helpers. `player` plays frames in the browser,
`players` has the pictures that it plays, `widgets` those with input from a reader. May import: matplotlib, numpy;
ipywidgets only in `widgets` and `calculator`. No module here knows a kernel or torch.
"""

import importlib

_NAMES = {  # module -> the names that it gives to the course
    "accumulators": ("accumulator_owner", "accumulator_place", "accumulators_picture", "operand_register"),
    "actors": ("actors_panels", "actors_picture"),
    "addresses": (
        "bank_group",
        "ldmatrix_lanes_picture",
        "ldmatrix_passes",
        "ldmatrix_picture",
        "xor_address_picture",
    ),
    "bar_charts": ("bytes_bars", "count_bars", "rate_bars", "tile_cycles_bars", "time_bars", "waiting_bars"),
    "chapter_map": ("course_map",),
    "chip": ("chip_picture",),
    "dashboard": ("serving_dashboard",),
    "decode": ("card_picture", "group_picture", "keys_of_splits", "splits_picture"),
    "decode_lanes": ("key_lanes_picture", "last_block_picture", "rings_picture"),
    "decode_products": ("group_products_picture", "movmatrix_picture"),
    "descriptor": ("describe_descriptor", "descriptor_picture"),
    "footprint": ("growth_picture", "growth_step", "memory_curves", "memory_use_bars"),
    "hopper": (
        "backward_products_picture",
        "block_lives",
        "boxes_picture",
        "fp8_key_order",
        "fp8_order_picture",
        "store_order",
    ),
    "language_model": ("block_picture",),
    "line_charts": ("curves", "roofline", "split_curves"),
    "loops": ("loop_orders_picture", "loop_picture", "loop_step_picture", "loop_steps"),
    "matmul": ("fragments_picture", "order_picture", "product_picture", "tile_order", "tiles_read"),
    "matmul_threads": ("register_tile_picture", "shared_tile_picture", "stage_contents", "stages_picture"),
    "mbarrier": ("MbarrierModel", "ring_steps"),
    "memory": ("Access", "lanes_picture", "levels_picture"),
    "page_contents": ("byte_steps_picture", "layouts_picture", "new_queries_picture"),
    "page_lookups": ("lookup_picture", "page_lanes_picture", "slot_mapping_picture", "table_walk_picture"),
    "pages": ("pages_frames", "pages_picture"),
    "panels": ("panels_picture", "step_offsets", "swizzle_picture", "swizzled_chunk"),
    "players": (
        "actors_explorer",
        "growth_slider",
        "pages_player",
        "ring_player",
        "tile_loops",
        "waves_slider",
        "work_lists_slider",
    ),
    "recorded": ("line_labels", "spans_of_events", "spans_of_rows"),
    "registers": (
        "register_pool_picture",
        "register_share",
        "register_share_picture",
        "registers_at_entry",
        "warp_share",
        "warp_share_picture",
    ),
    "ring": ("ring_picture", "ring_step_picture"),
    "schedule": ("Span", "attention_schedule", "releases", "waiting_time"),
    "ranks": ("ranks_picture", "timetable_picture"),
    "serving": ("schedule_picture", "schedule_player", "steps_of"),
    "serving_curves": ("kv_picture", "samples_of_steps", "throughput_picture", "tpot_picture", "ttft_picture"),
    "softmax": ("step_picture", "sweeps_picture", "walk", "walk_picture"),
    "style": ("Picture",),
    "threads": ("fusion_picture", "tree_picture", "who_picture"),
    "tiles": ("mask_picture", "tile_kinds", "tile_map_picture", "warp_split_picture"),
    "timeline": ("block_waves", "launch_picture", "launch_steps", "overlap_picture", "overlap_steps", "waves_picture"),
    "training": ("loss_picture",),
    "transformer": (
        "loss_blocks_picture",
        "operator_picture",
        "packed_word_picture",
        "pairings_picture",
        "rotary_angles",
        "rotary_pairs",
        "rotation_picture",
        "row_chunks_picture",
        "threshold_picture",
        "token_order_picture",
    ),
    "walks": (
        "buffer_steps",
        "buffers_picture",
        "gradient_owners_picture",
        "heavy_blocks_picture",
        "key_walk",
        "key_walk_picture",
        "run_blocks",
        "travelling_gradient_picture",
    ),
    "warp_rows": (
        "lazy_maximum",
        "lazy_maximum_picture",
        "operand_picture",
        "row_lanes_picture",
        "store_picture",
    ),
    "work_lists": ("items_picture", "one_block_each", "shared_prefix_picture", "work_lists_picture"),
    "widgets": ("access_explorer", "stepper"),
    "calculator": ("cost_calculator",),
}
# name -> module; a module is imported when one of its names is first used, so that `import course_lib.viz` is light
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(_MODULES)


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module 'course_lib.viz' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
