"""When triton.language is patched for the interpreter: once a launch, or once in a process that only launches.

May import: nothing of the course.
"""

import inspect

_kept = False


def keep():
    """Leave the language as the first launch patches it: for a process that runs one answer and ends.

    Each launch otherwise patches some six hundred names and restores them, a tenth of the time of a small answer.
    """
    global _kept
    _kept = True


def improve(module, quick):
    """Apply the rest of this module. `module` is triton.runtime.interpreter; `quick` as in `_remember_builtins`."""
    _remember_builtins(module, quick)
    _patch_once(module)


def _remember_builtins(module, quick):
    """Remember which names of a module are builtins, and what a launch replaces each by.

    A launch walks over every name of the language to find them, and a call then goes through two wrappers, the one that
    adds `_semantic` and the one that asks for it. A member that was replaced in between is looked at anew.
    `quick`: member -> what makes a quicker one of its replacement.
    """
    is_builtin, inner_of = module.tl.core.is_builtin, _unwrapped(module.tl.core)
    plans, replaced, put_in = {}, {}, set()  # put_in: the replacements; a device function's walk meets them

    def replacement(member):
        inner = inner_of(member)

        def call(*args, **kwargs):
            kwargs["_semantic"] = module.interpreter_semantic
            return inner(*args, **kwargs)

        return quick[member](call) if member in quick else call

    def is_known(member):
        return is_builtin(member) or (inspect.isfunction(member) and member in put_in)

    def new_of(member):
        if member not in replaced:
            replaced[member] = replacement(member)
            put_in.add(replaced[member])
        return replaced[member]

    def patch_builtin(package, builder, scope):
        key = package, len(vars(package))
        if key not in plans:
            plans[key] = {name: (None, None) for name, member in inspect.getmembers(package) if is_known(member)}
        plan = plans[key]
        for name, (old, new) in plan.items():
            member = getattr(package, name)
            if member is new:
                continue
            if member is not old:
                if not is_builtin(member):
                    continue
                plan[name] = old, new = member, new_of(member)
            scope._changes.append((package, name, old))  # what its set_attr does, without a look at the old one
            setattr(package, name, new)

    scope = getattr(module, "_LangPatchScope", None)  # else this version patches the language by other means
    if scope is not None and hasattr(scope(), "_changes"):
        module._patch_builtin = patch_builtin


def _unwrapped(core):
    """A function from a builtin of the language to what it calls once it has seen `_semantic`."""
    code = core.builtin(lambda: None).__code__

    def inner_of(member):
        return member.__wrapped__ if getattr(member, "__code__", None) is code else member

    return inner_of


def _patch_once(module):
    """Patch triton.language once a launch instead of at every call of a device function such as tl.max.

    A launch patches the language and restores it at its end; each device function patches it again, a walk over some
    hundred names that changes nothing. Two modules can hold the language under different names, so the walk is
    skipped only for functions whose globals were seen during this launch.
    """
    patch, call = module._patch_lang, module.GridExecutor.__call__
    seen = {}  # id of the globals -> the globals, so that the id stays theirs

    def patch_lang(fn):
        key = id(fn.__globals__)
        if key in seen:
            return module._LangPatchScope() if hasattr(module, "_LangPatchScope") else None
        seen[key] = fn.__globals__
        scope = patch(fn)
        if _kept and hasattr(scope, "_changes"):
            scope._changes.clear()  # nothing to restore
        return scope

    def launch(self, *args, **kwargs):
        if _kept:
            return call(self, *args, **kwargs)
        seen.clear()
        try:
            return call(self, *args, **kwargs)
        finally:
            seen.clear()

    module._patch_lang, module.GridExecutor.__call__ = patch_lang, launch
