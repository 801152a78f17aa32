// The context switch in assembly, and the memory of the stacks. See fiber.h.
#include "fiber.h"

#include <sys/mman.h>

// System V x86-64: rbp, rbx, r12-r15 are callee-saved; `ret` takes the resumed fiber's return address from its stack.
// The floating-point control registers are left alone: no kernel changes them.
#if defined(__x86_64__)
asm(R"(
.text
.globl simt_switch
.type simt_switch, @function
simt_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size simt_switch, .-simt_switch
)");
// AAPCS64: x19-x30 and the low halves of v8-v15 are callee-saved; x30 is the return address.
#elif defined(__aarch64__)
asm(R"(
.text
.globl simt_switch
.type simt_switch, %function
simt_switch:
    stp x19, x20, [sp, #-160]!
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldp x19, x20, [sp], #160
    ret
.size simt_switch, .-simt_switch
)");
#else
#error "the SIMT machine switches fibers on x86-64 and aarch64 only"
#endif

namespace simt {

void* prepare_stack(unsigned char* stack, void (*entry)(), unsigned index) {
    auto top = (reinterpret_cast<uintptr_t>(stack + STACK_BYTES) & ~uintptr_t(15)) - index % 16 * 256;
#if defined(__x86_64__)
    auto** slot = reinterpret_cast<void**>(top - 64);
    *--slot = nullptr;  // return address of `entry`, never used; keeps the stack aligned as after a call
    *--slot = reinterpret_cast<void*>(entry);
    for (int reg = 0; reg < 6; ++reg) *--slot = nullptr;  // popped by simt_switch
    return slot;
#else
    auto** frame = reinterpret_cast<void**>(top - 160);
    for (int i = 0; i < 20; ++i) frame[i] = nullptr;
    frame[11] = reinterpret_cast<void*>(entry);  // x30: stored at [sp, #88], taken by `ret`
    return frame;
#endif
}

// Chunks are mapped when a stack of them is first asked for.
unsigned char* StackPool::stack(size_t index) {
    size_t chunk = index / CHUNK;
    if (chunk >= MAX_CHUNKS) return nullptr;
    while (num_chunks_ <= chunk) {
        // NORESERVE: pages that no frame reaches take no memory
        void* memory = mmap(nullptr, CHUNK * STRIDE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return nullptr;
        auto* base = static_cast<unsigned char*>(memory);
        for (size_t i = 0; i < CHUNK; ++i) mprotect(base + i * STRIDE, PAGE_BYTES, PROT_NONE);
        chunks_[num_chunks_++] = base;
    }
    return chunks_[chunk] + (index % CHUNK) * STRIDE + PAGE_BYTES;
}

bool StackPool::contains(uintptr_t address) const {
    for (size_t c = 0; c < num_chunks_; ++c)
        if (address - reinterpret_cast<uintptr_t>(chunks_[c]) < CHUNK * STRIDE) return true;
    return false;
}

bool StackPool::is_guard(uintptr_t address) const {
    for (size_t c = 0; c < num_chunks_; ++c) {
        uintptr_t offset = address - reinterpret_cast<uintptr_t>(chunks_[c]);
        if (offset < CHUNK * STRIDE) return offset % STRIDE < PAGE_BYTES;
    }
    return false;
}

StackPool::~StackPool() {
    for (size_t c = 0; c < num_chunks_; ++c) munmap(chunks_[c], CHUNK * STRIDE);
}

}  // namespace simt
