// The result of a launch as JSON text. Called by machine.cpp; read by machine.py and findings.py.
#pragma once
#include <string>
#include <vector>

#include "arena.h"
#include "state.h"

namespace simt {

// `first`: a worker, for the addresses of shared memory. Checked launches have one, so findings are all about its
// segment.
std::string result_text(const Launch& task, const std::vector<Placement>& tensors, const Worker& first);

}  // namespace simt
