// The whole runtime as one translation unit, so that the sanitizer's callbacks are compiled together with what they call.
#include <algorithm>

#include "arena.cpp"
#include "async_copy.cpp"
#include "atomics.cpp"
#include "faults.cpp"
#include "fiber.cpp"
#include "findings.cpp"
#include "hooks.cpp"
#include "knowledge.cpp"
#include "loops.cpp"
#include "machine.cpp"
#include "requests.cpp"
#include "scheduler.cpp"
#include "shadow.cpp"
#include "tensor_core.cpp"
#include "warp.cpp"
