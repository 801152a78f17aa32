"""Pictures of the course: plain data in, a matplotlib figure with a text alternative out.

``widgets`` adds ipywidgets on top. May import: matplotlib, numpy; ipywidgets only in `widgets`. Nothing here knows a
kernel, a device or torch.
"""

import importlib

# name -> module that holds it; loaded at first use, so that `import course_lib.viz` draws in nothing heavy
_LAZY = {
    "Access": ".lanes",
    "Picture": ".style",
    "access_explorer": ".explorer",
    "block_waves": ".wave_quantisation",
    "bytes_bars": ".bars",
    "card_picture": ".card",
    "course_map": ".chapter_graph",
    "curves": ".curve",
    "fragments_picture": ".fragments",
    "fusion_picture": ".first",
    "group_picture": ".group",
    "growth_picture": ".growth",
    "growth_slider": ".growth_widget",
    "growth_step": ".growth",
    "keys_of_splits": ".splits",
    "lanes_picture": ".lanes",
    "launch_picture": ".host_device",
    "launch_steps": ".host_device",
    "levels_picture": ".levels",
    "loop_orders_picture": ".loop_orders",
    "loop_picture": ".loop_grid",
    "loop_step_picture": ".loop_grid",
    "loop_steps": ".loop_grid",
    "mask_picture": ".masks",
    "memory_curves": ".memory_curve",
    "memory_use_bars": ".memory_use",
    "order_picture": ".product",
    "overlap_picture": ".overlap",
    "overlap_steps": ".overlap",
    "pages_frames": ".pages",
    "pages_picture": ".pages",
    "pages_player": ".pages_widget",
    "product_picture": ".product",
    "rate_bars": ".bars",
    "roofline": ".roof",
    "splits_picture": ".splits",
    "step_picture": ".steps",
    "split_curves": ".split_sweep",
    "stepper": ".widgets",
    "sweeps_picture": ".sweeps",
    "tile_kinds": ".tile_map",
    "tile_loops": ".tile_loops_widget",
    "tile_map_picture": ".tile_map",
    "tile_order": ".product",
    "tiles_read": ".product",
    "time_bars": ".bars",
    "tree_picture": ".first",
    "waiting_bars": ".waiting",
    "walk": ".steps",
    "walk_picture": ".steps",
    "warp_split_picture": ".warp_split",
    "waves": ".wave_quantisation",
    "waves_slider": ".waves_widget",
    "who_picture": ".first",
}
__all__ = sorted(_LAZY)


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'course_lib.viz' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name], __name__), name)
