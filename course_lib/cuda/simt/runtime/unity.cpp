// The whole runtime as one translation unit, compiled by build.py: the instrumentation callbacks are inlined with what
// they call, which is most of the time of a checked launch.
#include <algorithm>

#include "access.cpp"
#include "arena.cpp"
#include "async_copy.cpp"
#include "atomics.cpp"
#include "block.cpp"
#include "faults.cpp"
#include "fiber.cpp"
#include "findings.cpp"
#include "happens_before.cpp"
#include "hooks.cpp"
#include "loops.cpp"
#include "machine.cpp"
#include "requests.cpp"
#include "result.cpp"
#include "scheduler.cpp"
#include "shadow.cpp"
#include "tensor_core.cpp"
#include "traffic.cpp"
#include "warp.cpp"
