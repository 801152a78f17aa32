"""A tiny course in a scratch folder: one chapter, one CUDA file, one Python file."""

import textwrap

import pytest

CHAPTER = """\
---
jupytext:
  formats: md:myst
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# 42 Add two numbers

Read this first.

```{code-cell} ipython3
import math
```

```cpp
@include kernels_cu/add/01_add.cu#sum
```

```{code-cell} ipython3
:tags: [nbval-check-output]
print(1 + 1)
```

+++ {"part": "exercises"}

```{code-cell} ipython3
%load_ext course_lib
from course_lib import check, cuda
```

## Exercise 42.1

```{code-cell} ipython3
:tags: [predict]
guess = None
```

```{code-cell} ipython3
:tags: [exercise]
:exercise: "42.1"
@include answers.py#add
```

```{code-cell} ipython3
:tags: [check]
check("42.1", add)
```

## Exercise 42.2

```{code-cell} ipython3
:tags: [exercise]
:exercise: "42.2"
%%cuda add_kernel
@include kernels_cu/add/01_add.cu
```
"""

KERNEL = """\
extern "C" __global__ void add_kernel(const float* a, const float* b, float* out, int count) {
    const int idx = blockIdx.x * blockDim.x + threadIdx.x;
    // BEGIN SOLUTION
    // region: sum
    if (idx < count) {
        out[idx] = a[idx] + b[idx];
    }
    // endregion
    // END SOLUTION
}
"""

ANSWERS = '''\
"""Answers of chapter 42."""

import functools


@functools.cache
def add(a, b):
    """The sum of two numbers."""
    ### BEGIN SOLUTION
    total = a + b
    return total
    ### END SOLUTION


def other():
    # region: inner
    return 3
    # endregion
'''


SECOND = """\
+++ {"part": "lecture", "stem": "42b_more"}

# 42b Adding: add more numbers

```{code-cell} ipython3
print(2 + 3)
```

+++ {"part": "exercises"}
"""


@pytest.fixture
def tiny_course(tmp_path):
    """A folder with chapters/42_add.md and what it includes."""
    files = {"chapters/42_add.md": CHAPTER, "kernels_cu/add/01_add.cu": KERNEL, "answers.py": ANSWERS}
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return tmp_path


@pytest.fixture
def split(tiny_course):
    """A function that divides the tiny chapter into two lectures and returns its path."""

    def split():
        path = tiny_course / "chapters/42_add.md"
        text = path.read_text().replace('+++ {"part": "exercises"}\n', SECOND)
        path.write_text(text.replace("# 42 Add", '+++ {"part": "lecture", "stem": "42a_two"}\n\n# 42a Add'))
        return path

    return split
