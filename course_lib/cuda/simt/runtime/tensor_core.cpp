// What matrix instructions need besides the gathering of registers (warp.cpp): rows of shared memory.
#include <cstring>

#include "async_copy.h"
#include "shadow.h"

using namespace simt;

SIMT_EXPORT void simt_matrix_row(void* row, const void* place) {
    uintptr_t code = SIMT_CODE();
    auto address = reinterpret_cast<uintptr_t>(place);
    current->last_code = code;
    if (!is_shared_memory(address)) stop_launch(Stop::trap, code, 0, "the rows of ldmatrix are in shared memory");
    if (launch->checked) on_access(address, 16, false, Order::matrix, code);
    else if (address % 16) stop_launch(Stop::trap, code, 0, "the rows of ldmatrix start at multiples of 16 bytes");
    std::memcpy(row, place, 16);
}
