// ldmatrix: the row of shared memory that one lane reads. The exchange of registers between lanes is simt_warp_gather
// (warp.cpp). And the count of mma. Called by include/simt/ldmatrix.h and include/simt/tensor_core.h.
#include <cstring>

#include "async_copy.h"
#include "requests.h"
#include "shadow.h"

using namespace simt;

SIMT_EXPORT void simt_matrix_row(void* row, const void* pointer) {
    uintptr_t code = SIMT_CODE();
    auto address = reinterpret_cast<uintptr_t>(pointer);
    current->last_code = code;
    if (!is_shared_memory(address)) stop_launch(Stop::trap, code, 0, "the rows of ldmatrix are in shared memory");
    // The checked build reports a misaligned row as a finding and goes on; the fast build has only the trap.
    if (launch->checked) on_access(address, 16, false, Order::matrix, code);
    else if (address % 16) stop_launch(Stop::trap, code, 0, "the rows of ldmatrix start at multiples of 16 bytes");
    std::memcpy(row, pointer, 16);
}

SIMT_EXPORT void simt_count_mma(unsigned kind) {
    if (launch->checked) count_mma(kind);  // a checked launch has one worker
}
