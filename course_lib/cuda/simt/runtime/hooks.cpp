// Called by kernel code: the hooks of include/simt/hooks.h that concern one thread, and the compiler's instrumentation
// callbacks (-fsanitize=thread, -fsanitize-coverage=trace-pc), for which this runtime takes the place of
// ThreadSanitizer's.
//
// SIMT_CODE() must be taken in the exported function itself: it is that function's return address. Helpers get it as an
// argument.
#include <cstdarg>
#include <cstdio>
#include <cstring>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "async_copy.h"
#include "findings.h"
#include "happens_before.h"
#include "requests.h"
#include "scheduler.h"
#include "shadow.h"

using namespace simt;

// threadIdx and its kin. The first four return values: the headers declare them const, so the compiler may reuse them.
SIMT_EXPORT SimtIndex simt_thread_index() { return current->index; }
SIMT_EXPORT SimtIndex simt_block_index() { return current->block->index; }
SIMT_EXPORT SimtIndex simt_block_size() { return launch->block; }
SIMT_EXPORT SimtIndex simt_grid_size() { return launch->grid; }
SIMT_EXPORT const SimtIndex* simt_thread_idx() { return &current->index; }
SIMT_EXPORT const SimtIndex* simt_block_idx() { return &current->block->index; }
SIMT_EXPORT const SimtIndex* simt_block_dim() { return &launch->block; }
SIMT_EXPORT const SimtIndex* simt_grid_dim() { return &launch->grid; }
SIMT_EXPORT unsigned simt_lane() { return current->lane; }
SIMT_EXPORT unsigned char* simt_dynamic_shared() { return worker->dynamic_low; }

// __cvta_generic_to_shared. The segment, and in it the dynamic buffer, are aligned to 1024, so addresses of the window are
// aligned as pointers are.
SIMT_EXPORT size_t simt_shared_address(const void* pointer) {
    auto address = reinterpret_cast<uintptr_t>(pointer);
    if (!is_shared_memory(address))
        stop_launch(Stop::trap, SIMT_CODE(), 0, "__cvta_generic_to_shared takes a pointer to shared memory");
    return address - reinterpret_cast<uintptr_t>(worker->shared_low);
}

// Returns the reduced predicate when all live threads of the block have come.
int simt::wait_at_barrier(int op, int predicate, uintptr_t code) {
    Fiber& self = *current;
    self.wait = Wait::barrier;
    self.wait_code = code;
    self.barrier_op = op;
    self.predicate = predicate;
    self.atomics_since_switch = 0;
    ++self.block->waiting_at_barrier;
    if (launch->checked) settle_pending_race(self);
    yield_to_scheduler();  // until release_barrier (block.cpp) has set `result`
    return static_cast<int>(self.result);
}

// __syncthreads and its reducing forms.
SIMT_EXPORT int simt_barrier(int op, int predicate) { return wait_at_barrier(op, predicate, SIMT_CODE()); }

// __threadfence and its _block and _system forms.
SIMT_EXPORT void simt_fence(int scope) {
    SIMT_OF_CLANG(current->stored_at = 0;)
    if (!launch->checked) __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else fence(static_cast<Scope>(scope));  // fibers of one worker need no hardware fence
}

// A vector copied as one access, where the instrumentation would report four.
SIMT_EXPORT void simt_copy(void* destination, const void* source, unsigned bytes) {
    if (launch->checked) {
        uintptr_t code = SIMT_CODE();
        SIMT_OF_CLANG(current->stored_at = 0;)
        on_access(reinterpret_cast<uintptr_t>(source), bytes, false, Order::plain, code);
        on_access(reinterpret_cast<uintptr_t>(destination), bytes, true, Order::plain, code);
    }
    std::memcpy(destination, source, bytes);
}

// An access that a header makes by other means.
SIMT_EXPORT void simt_record(const void* address, unsigned bytes, int is_write) {
    if (launch->checked) on_access(reinterpret_cast<uintptr_t>(address), bytes, is_write != 0, Order::plain, SIMT_CODE());
}

SIMT_EXPORT void simt_pause() {  // __nanosleep; sleeping is no progress, so other threads and blocks get their turn
    current->spinning = true;
    yield_to_scheduler();
}

SIMT_EXPORT long long simt_clock64() {
    if (launch->checked) return static_cast<long long>(current->steps);  // the same in every run
#if defined(__x86_64__)
    return static_cast<long long>(__rdtsc());
#else
    long long ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
}

constexpr size_t PRINT_LIMIT = 1 << 20;  // bytes kept of a launch; the rest is dropped

SIMT_EXPORT int simt_printf(const char* format, ...) {
    static char line[4096];
    static std::atomic_flag lock = ATOMIC_FLAG_INIT;  // workers share `line`
    while (lock.test_and_set(std::memory_order_acquire)) {}
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof(line), format, values);
    va_end(values);
    if (length > 0 && launch->printed.size() < PRINT_LIMIT)
        launch->printed.append(line, std::min(static_cast<size_t>(length), sizeof(line) - 1));
    lock.clear(std::memory_order_release);
    return length;
}

SIMT_EXPORT void simt_assert_fail(const char* expression, const char*, int) {
    stop_launch(Stop::trap, SIMT_CODE(), 0, expression);
}

SIMT_EXPORT void simt_trap() { stop_launch(Stop::trap, SIMT_CODE()); }

// The instrumentation callbacks of the checked build: before each access, and at the start of each basic block.
// `current` is null in what runs outside a kernel, such as a library's initialisers.

#if defined(__clang__)
// Its checked build is not optimised and reads again what the same basic block has just written. g++ has that number in a
// register, as a GPU has: such a read is none.
static inline void sanitizer_access(const void* pointer, unsigned bytes, bool is_write, uintptr_t code) {
    if (!current) return;
    Fiber& self = *current;
    auto address = reinterpret_cast<uintptr_t>(pointer);
    if (!is_write && self.stored_at == address && self.stored_bytes == bytes) return;
    on_access(address, bytes, is_write, Order::plain, code);
    if (!is_write || is_local(self, address)) return;
    self.stored_at = address;
    self.stored_bytes = bytes;
}
#else
static inline void sanitizer_access(const void* address, unsigned bytes, bool is_write, uintptr_t code) {
    if (current) on_access(reinterpret_cast<uintptr_t>(address), bytes, is_write, Order::plain, code);
}
#endif

// A volatile access is relaxed in PTX's terms: it does not race with another one, and it carries released clocks.
static inline void volatile_access(const void* pointer, unsigned bytes, bool is_write, uintptr_t code) {
    auto address = reinterpret_cast<uintptr_t>(pointer);
    if (!current || is_local(*current, address)) return;
    if (!is_write) yield_on_poll(address, code);
    if (!launch->checked) return;  // the fast build of a kernel with volatile variables
    on_access(address, bytes, is_write, Order::relaxed, code);
    volatile_synchronise(address, is_write);
}

// An access that no single instruction makes, such as a copied structure: recorded in pieces, as wide as its address
// and size allow on a GPU too.
static void range_access(const void* address, size_t bytes, bool is_write, uintptr_t code) {
    auto from = reinterpret_cast<uintptr_t>(address);
    size_t piece = 16;
    SIMT_OF_CLANG(if (current && !is_local(*current, from)) current->stored_at = 0;)
    while ((from | bytes) % piece) piece /= 2;
    if (bytes == 16) piece = 16;  // a float4, which must be aligned (vector_types.h)
    // A type that asks for more than its address has: g++ calls a load a range where it knows that it is misaligned.
    if (current && current->misaligned_at == from && bytes % current->misaligned_for == 0) piece = current->misaligned_for;
    for (size_t done = 0; done < bytes; done += piece)
        sanitizer_access(reinterpret_cast<void*>(from + done), static_cast<unsigned>(piece), is_write, code);
    SIMT_OF_CLANG(if (current && !is_local(*current, from)) current->stored_at = 0;)
}

// The callbacks of ThreadSanitizer's interface for one width. An unaligned one is a structure's member or a packed
// field.
#define SIMT_ACCESS(BYTES)                                                                                        \
    SIMT_EXPORT void __tsan_read##BYTES(void* p) { sanitizer_access(p, BYTES, false, SIMT_CODE()); }              \
    SIMT_EXPORT void __tsan_write##BYTES(void* p) { sanitizer_access(p, BYTES, true, SIMT_CODE()); }              \
    SIMT_EXPORT void __tsan_unaligned_read##BYTES(void* p) { range_access(p, BYTES, false, SIMT_CODE()); }        \
    SIMT_EXPORT void __tsan_unaligned_write##BYTES(void* p) { range_access(p, BYTES, true, SIMT_CODE()); }        \
    SIMT_EXPORT void __tsan_volatile_read##BYTES(void* p) { volatile_access(p, BYTES, false, SIMT_CODE()); }      \
    SIMT_EXPORT void __tsan_volatile_write##BYTES(void* p) { volatile_access(p, BYTES, true, SIMT_CODE()); }      \
    SIMT_EXPORT void __tsan_unaligned_volatile_read##BYTES(void* p) { volatile_access(p, BYTES, false, SIMT_CODE()); } \
    SIMT_EXPORT void __tsan_unaligned_volatile_write##BYTES(void* p) { volatile_access(p, BYTES, true, SIMT_CODE()); } \
    SIMT_EXPORT void __tsan_read_write##BYTES(void* p) {                                                          \
        sanitizer_access(p, BYTES, false, SIMT_CODE());                                                           \
        sanitizer_access(p, BYTES, true, SIMT_CODE());                                                            \
    }
SIMT_ACCESS(1)
SIMT_ACCESS(2)
SIMT_ACCESS(4)
SIMT_ACCESS(8)
SIMT_ACCESS(16)

SIMT_EXPORT void __tsan_read_range(void* p, size_t bytes) { range_access(p, bytes, false, SIMT_CODE()); }
SIMT_EXPORT void __tsan_write_range(void* p, size_t bytes) { range_access(p, bytes, true, SIMT_CODE()); }
SIMT_EXPORT void __tsan_init() {}  // the rest of the interface, unused here
SIMT_EXPORT void __tsan_vptr_update(void**, void*) {}
SIMT_EXPORT void __tsan_vptr_read(void**) {}

// Copies that the compiler makes calls of; without these they would go unrecorded.
SIMT_EXPORT void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
    range_access(from, bytes, false, SIMT_CODE());
    range_access(to, bytes, true, SIMT_CODE());
    return std::memcpy(to, from, bytes);
}
SIMT_EXPORT void* __tsan_memmove(void* to, const void* from, size_t bytes) {
    range_access(from, bytes, false, SIMT_CODE());
    range_access(to, bytes, true, SIMT_CODE());
    return std::memmove(to, from, bytes);
}
SIMT_EXPORT void* __tsan_memset(void* to, int value, size_t bytes) {
    range_access(to, bytes, true, SIMT_CODE());
    return std::memset(to, value, bytes);
}

// Calls that were not inlined: the call path is part of a request's key (requests.cpp).
SIMT_EXPORT void __tsan_func_entry(void* call_site) {
    if (current) record_call(code_of(reinterpret_cast<uintptr_t>(call_site)));
}
SIMT_EXPORT void __tsan_func_exit() {
    if (current) record_return();
}

// A thread in an endless loop. detail, when all that it does is read one address: "poll|BLOCKS NOT STARTED|BLOCKS".
[[noreturn]] static void stop_at_step_limit(uintptr_t code) {
    constexpr uint64_t POLLS = 1000;
    const Fiber& self = *current;
    if (self.same_reads < POLLS) stop_launch(Stop::step_limit, code);
    uint64_t started = std::min(launch->next_block.load(), launch->num_blocks);
    std::string detail = "poll|" + std::to_string(launch->num_blocks - started) + "|" + std::to_string(launch->num_blocks);
    auto newest = (self.num_recent_reads + RECENT_READS - 1) % RECENT_READS;
    stop_launch(Stop::step_limit, code, self.recent_reads[newest].address, detail.c_str());
}

// Every basic block. The only callback of a loop without memory accesses, so the step limit and a stop requested by
// another worker or a signal are checked here.
SIMT_EXPORT void __sanitizer_cov_trace_pc() {
    if (!current) return;
    Fiber& self = *current;
    uintptr_t code = SIMT_CODE();
    if (++self.steps > launch->step_limit) stop_at_step_limit(self.last_code ? self.last_code : code);
    self.last_code = code;
    SIMT_OF_CLANG(self.stored_at = 0;)
    if (launch->stop.load(std::memory_order_relaxed)) stop_launch(Stop::none, code);
    record_block(code);
}
