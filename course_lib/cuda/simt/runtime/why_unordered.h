// Why a write is not ordered before an access of another thread, where fences and atomics lie between them: for the
// sentence of the race. Called by happens_before.cpp and findings.cpp.
#pragma once
#include "state.h"

namespace simt {

struct Stamp;  // shadow.h

void note_atomic(uint64_t variable);  // the current thread's atomic or volatile access
// "acquire": the current thread has observed the write's release, and no fence followed. Of a write of another block also
// "release": no fence lies between it and the atomic that announced it; "block scope": only a __threadfence_block.
// "": unknown.
const char* why_unordered(const Stamp& write);
void reset_reasons();

}  // namespace simt
