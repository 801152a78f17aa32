// The compiler's own checks of a kernel: -fsanitize=alignment,bounds-strict of g++ (build.py) calls these handlers, for which
// this runtime takes the place of UndefinedBehaviorSanitizer's.
//
// They know what no access shows: a local array has no red zone, and of an access at a constant offset into a shared array
// g++ tells the address but not whether one number is meant or a structure of smaller ones.
#include <cstdlib>
#include <cstring>

#include "findings.h"
#include "shadow.h"

namespace simt {

// The layouts of the interface (GCC's libsanitizer, ubsan_value.h and ubsan_handlers.h).
struct UbsanLocation {
    const char* file;
    uint32_t line, column;
};
struct UbsanType {
    uint16_t kind, info;
    char name[1];         // "'float [8]'"
};
struct UbsanIndex {
    UbsanLocation where;
    const UbsanType *array, *index;
};
struct UbsanPointer {
    UbsanLocation where;
    const UbsanType* type;
    unsigned char log_alignment, use;  // use: a load, a store, a reference, …
};
constexpr uint16_t UBSAN_INTEGER = 0;

constexpr int64_t WILD_INDEX = 1 << 18;  // beyond any stack and any shared memory: the access would leave the process's

}  // namespace simt

using namespace simt;

// Before an access through an index outside a declared array. detail: "index|INDEX|TYPE|LINE|COLUMN|FILE".
SIMT_EXPORT void __ubsan_handle_out_of_bounds(const UbsanIndex* check, uintptr_t value) {
    if (!current) return;
    uintptr_t code = SIMT_CODE();
    settle_pending_race(*current);
    auto index = static_cast<int64_t>(value);
    if (check->index->kind == UBSAN_INTEGER && check->index->info >> 1 == 5 && (check->index->info & 1))
        index = static_cast<int32_t>(value);  // info: log2 of the bits, signed
    Finding finding;
    finding.kind = Kind::out_of_bounds;
    finding.code = code;
    finding.thread = current->index;
    finding.block = current->block->index;
    finding.detail = "index|" + std::to_string(index) + "|" + check->array->name + "|" + std::to_string(check->where.line) +
                     "|" + std::to_string(check->where.column) + "|" + (check->where.file ? check->where.file : "");
    report(finding);
    if (index < -WILD_INDEX || index > WILD_INDEX) stop_launch(Stop::kernel_fault, code);
}

// Before a load, a store or a reference at an address that its type does not allow. The access itself reports, if it comes.
SIMT_EXPORT void __ubsan_handle_type_mismatch_v1(const UbsanPointer* check, uintptr_t address) {
    if (!current || check->log_alignment > 4) return;  // no access is wider than 16 bytes
    current->misaligned_at = address;
    current->misaligned_for = 1u << check->log_alignment;
}
