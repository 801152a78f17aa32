"""@triton.autotune where nothing can be timed: each launch takes the next configuration.

Triton's own tuner times every configuration on a GPU and fails without one. Here the configurations are used in turn,
so that some launches check each of them.

May import: errors; triton only inside functions.
"""

from ..errors import ArgumentError


def take_in_turn(autotuner):
    """Apply it. `autotuner` is the module triton.runtime.autotuner."""

    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        configs = self.prune_configs(kwargs)
        turn = self._course_turn = getattr(self, "_course_turn", -1) + 1
        config = self.best_config = configs[turn % len(configs)]
        _check(self, config, kwargs)
        meta = config.all_kwargs()
        options = {name: value for name, value in kwargs.items() if name not in meta}
        named = {**self.nargs, **options, **meta}
        if self.reset_to_zero:
            self.pre_hook(named, reset_only=True)
        if config.pre_hook is not None:
            config.pre_hook(named)
        result = self.fn.run(*args, **options, **meta)
        self.nargs = None
        return result

    autotuner.Autotuner.run = run


def _check(tuner, config, kwargs):
    """ArgumentError when a configuration sets what the launch passes too; Triton refuses it on a GPU."""
    both = [name for name in config.kwargs if name in kwargs or name in tuner.nargs]
    if both:
        raise ArgumentError(
            f"The configurations of @triton.autotune set {', '.join(both)}, which the launch of "
            f"{tuner.base_fn.__name__} passes itself; leave {', '.join(both)} out of them. They may set num_warps, "
            "num_stages and parameters of your own."
        )
