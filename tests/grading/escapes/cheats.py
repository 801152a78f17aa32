"""Answers that look for the right values, or change what is judged after them; they must fail without a sandbox too.

A cheat is one or two ChildTasks, the second in the same zygote; `worked(result)` asks the result of the last.
"""

import torch

from .attacks import HONEST, cuda, python

FIND = {
    "the oracle, among all objects": """
        import gc
        found = [one for one in gc.get_objects() if getattr(one, '__module__', '') and
                 str(one.__module__).startswith(('course_lib.reference', 'course_lib.grading.subjects'))]
        print('reached' if found else '')
        """,
    "the oracle, among the loaded modules": """
        import sys
        held = ('course_lib.reference', 'course_lib.grading.subjects', 'course_lib.grading.exercise')
        print(*['reached ' + name for name in sys.modules if name.startswith(held)])
        """,
    "the right values, in a caller's frame": """
        import sys
        frame, names = sys._getframe(), set()
        while frame: names |= {*frame.f_locals, *frame.f_globals}; frame = frame.f_back
        print('reached' if names & {'expected', 'oracle', 'wanted', 'tolerance', 'exercise', 'verdict'} else '')
        """,
    "the judge's own files": """
        import os
        for number in os.listdir('/proc/self/fd'):
            try: name = os.readlink('/proc/self/fd/' + number)
            except OSError: continue
            if name.endswith(('.py', '.json', '.md', '.ipynb')): print('reached')
        """,
}
_PATCH = {
    "torch, for the next answer": ("import torch; torch.Tensor.__mul__ = torch.Tensor.add", "print((x * 3)[0].item())"),
    "what is built in": ("import builtins; builtins.len = lambda _: 7", "print(1.0 + 2 * (len([1]) == 1))"),
    "the course's own modules": (
        "from course_lib.grading.processes import tensors; tensors.poisoned = None",
        "from course_lib.grading.processes import tensors; print(3.0 if tensors.poisoned else 7)",
    ),
    "the answer that was loaded before": (
        "import sys; sys.modules['answer'].mine = 1; sys.modules['mine'] = sys",
        "import sys; print(3.0 if not hasattr(sys.modules['answer'], 'mine') and 'mine' not in sys.modules else 7)",
    ),
    "the state of random numbers": (
        "import torch; torch.manual_seed(5); torch.rand(3)",
        "import torch; print(3.0 if torch.initial_seed() != 5 else 7)",
    ),
    "the environment of what comes next": (
        "import os; os.environ['COURSE_TEST_LEFT'] = '1'; os.putenv('LD_PRELOAD', '/x')",
        "import os; print(7 if 'COURSE_TEST_LEFT' in os.environ else 3.0)",
    ),
    "the folder of what comes next": (
        "open('left', 'w').write('mine')",
        "import os; print(7 if os.path.exists('left') else 3.0)",
    ),
}
_FORGE = {
    "outputs of another shape": "import torch; x = torch.ones(5)",
    "outputs of another dtype": "x = x.double()",
    "an end before the comparison": "import os; os._exit(0)",
    "a record of its own in the channel": """
        import os, json
        text = json.dumps({'record': 'done'}).encode()
        os.write(700, len(text).to_bytes(8, 'little') + text)
        os._exit(0)
        """,
    "a record with other outputs": "import os; os.write(700, b'0' * 4096); os._exit(0)",
}


def cheats(world):
    """[(name, tasks in order, worked)]."""
    found = [(name, [python(body, world)], lambda result: "reached" in result.printed) for name, body in FIND.items()]
    for name, (first, second) in _PATCH.items():
        found.append((name, [python(first, world), python(second, world)], lambda r: r.printed.strip() != "3.0"))
    found += [(name, [python(body, world)], _was_taken) for name, body in _FORGE.items()]
    spoiled = HONEST.replace("2.0f *", "0.0f *")
    found.append(("the compiled kernel of the next answer", [cuda(spoiled), cuda(HONEST)], _is_not_double))
    return found


def _was_taken(result):
    return result.fault is None and result.runs[0].fault is None and result.runs[0].outputs is not None


def _is_not_double(result):
    return result.runs[0].outputs is None or not torch.equal(result.runs[0].outputs["y"], torch.full((4,), 2.0))
