// The interface to Python: simt_launch, which runs one launch and returns its result as JSON.
//
// Called by machine.py through ctypes, one launch at a time (it holds a lock). In order: read the task, copy the
// tensors into the arena, run the workers, copy the tensors back, write the result.
#include <dlfcn.h>
#include <link.h>
#include <sched.h>

#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "arena.h"
#include "faults.h"
#include "findings.h"
#include "happens_before.h"
#include "requests.h"
#include "result.h"
#include "scheduler.h"
#include "shadow.h"
#include "timeline.h"

// The structures of the call. The same fields in the same order are in memory.py and tests/simt/aarch64_driver.cpp.
extern "C" {
struct SimtTensor {
    void* memory;
    uint64_t bytes, misalignment;
    int uninitialised, is_const;
};
struct SimtObject {
    uint64_t offset, bytes;
    int kind;
};
struct SimtTask {
    void* entry;            // simt_entry of the kernel's library
    void* dynamic_base;     // simt_dynamic_base, or null when it has no dynamic shared memory
    void* blocks_per_sm;    // simt_blocks_per_sm, or null when it has no __launch_bounds__ or no setmaxnreg
    void** arguments;       // addresses of the values; null for a pointer to a tensor
    SimtTensor* tensors;
    uint64_t num_tensors;
    int* tensor_of_argument;       // -1: a plain value
    uint64_t* offset_of_argument;  // bytes into the tensor
    uint64_t num_arguments;
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    int checked, schedule;
    SimtObject* objects;
    uint64_t num_objects;
    unsigned seed;
    int num_workers;
    uint64_t step_limit;
    double time_limit_s;
    int timeline;
};
// Of the dynamic linker: the address of a module's thread-local segment in the calling thread (ELF TLS ABI).
typedef struct {
    size_t module, offset;
} SimtTlsIndex;
void* __tls_get_addr(SimtTlsIndex*);
}

namespace simt {

constexpr size_t MAX_RESIDENT_THREADS = 16384, MAX_RESIDENT_BLOCKS = 512;  // of all workers: bounds the stacks' memory
constexpr int MAX_WORKERS = 16;
static Arena arena;  // kept from launch to launch, so that its mapping can be reused

// Finds the library that holds `entry` among the loaded ones, and its segments. A callback of dl_iterate_phdr: 1 ends
// the search. The read-only part of the writable segment (relocated tables, PT_GNU_RELRO) holds no __device__ variable.
static int read_headers(struct dl_phdr_info* info, size_t, void* into) {
    auto& library = *static_cast<Library*>(into);
    auto entry = reinterpret_cast<uintptr_t>(library.entry);
    bool ours = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& part = info->dlpi_phdr[i];
        uintptr_t low = info->dlpi_addr + part.p_vaddr;
        ours |= part.p_type == PT_LOAD && entry >= low && entry < low + part.p_memsz;
    }
    if (!ours) return 0;
    library.base = info->dlpi_addr;
    library.map_low = ~uintptr_t(0);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& part = info->dlpi_phdr[i];
        uintptr_t low = info->dlpi_addr + part.p_vaddr, high = low + part.p_memsz;
        if (part.p_type == PT_TLS) library.tls_bytes = part.p_memsz;
        if (part.p_type != PT_LOAD) continue;
        library.map_low = std::min(library.map_low, low);
        library.map_high = std::max(library.map_high, high);
        if (part.p_flags & PF_X) library.code_low = low, library.code_high = high;
        if (part.p_flags & PF_W) library.data_low = low, library.data_high = high;
    }
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& part = info->dlpi_phdr[i];
        if (part.p_type == PT_GNU_RELRO) library.data_low = info->dlpi_addr + part.p_vaddr + part.p_memsz;
    }
    library.tls_module = library.tls_bytes ? info->dlpi_tls_modid : 0;
    return 1;
}

void poison_shared() {
    if (worker->shared_bytes) std::memset(worker->shared_low, 0xff, worker->shared_bytes);
}

// Address of the kernel library's thread-local segment in the calling thread, null when it has none. __shared__
// variables are thread-local, so this segment is exactly a block's shared memory, and each worker has its own copy of
// it. The linker puts the dynamic buffer last.
static unsigned char* shared_segment(const Library& library) {
    if (!library.tls_module) return nullptr;
    SimtTlsIndex index{library.tls_module, 0};
    return static_cast<unsigned char*>(__tls_get_addr(&index));
}

// Body of a worker thread. The Worker lives on this stack for the length of the launch.
static void run_worker(int number) {
    static StackPool stacks[MAX_WORKERS];  // kept from launch to launch
    Worker self;
    self.stacks = &stacks[number];
    const Library& library = launch->library;
    self.shared_low = shared_segment(library);
    if (self.shared_low) {
        self.shared_bytes = self.tls_bytes = library.tls_bytes;
        if (library.dynamic_base) {
            self.dynamic_low = library.dynamic_base();
            self.shared_bytes = static_cast<size_t>(self.dynamic_low - self.shared_low) + launch->shared_bytes;
        }
    }
    worker = &self;
    start_watchdog();
    run_blocks();
    stop_watchdog();
    worker = nullptr;
}

// Runs the calling thread as worker 0. Others start when the launch has taken 2 ms: most launches of a lesson are over
// by then, and starting a thread takes longer than they do.
static void run_workers(int num_workers) {
    if (num_workers <= 1) return run_worker(0);
    std::vector<std::thread> others;
    auto start_others = [&] {
        auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
        while (std::chrono::steady_clock::now() < until) {
            if (launch->next_block.load() >= launch->num_blocks) return;
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
        try {
            for (int i = 2; i < num_workers; ++i) others.emplace_back(run_worker, i);
        } catch (const std::system_error&) {  // the system allows no more threads: go on with fewer
        }
        run_worker(1);
    };
    std::thread helper;
    try {
        helper = std::thread(start_others);
    } catch (const std::system_error&) {  // go on alone
    }
    run_worker(0);
    if (helper.joinable()) helper.join();
    for (std::thread& other : others) other.join();
}

// Forward needs no list. Random and resident shuffle: a kernel may not rely on the order of blocks.
static void order_blocks(Launch& task) {
    if (task.schedule == Schedule::forward) return;
    task.block_order.resize(task.num_blocks);
    for (uint32_t i = 0; i < task.num_blocks; ++i) task.block_order[i] = i;
    if (task.schedule == Schedule::reverse) std::reverse(task.block_order.begin(), task.block_order.end());
    else std::shuffle(task.block_order.begin(), task.block_order.end(), task.random);
}

// Variables of the library. Offsets of shared ones count from the thread-local segment, of others from the library's
// base.
static void read_objects(Launch& task, const SimtTask& spec) {
    for (uint64_t i = 0; i < spec.num_objects; ++i) {
        const SimtObject& object = spec.objects[i];
        auto kind = static_cast<ObjectKind>(object.kind);
        uintptr_t low = object.offset + (kind == ObjectKind::shared ? 0 : task.library.base);
        auto& list = kind == ObjectKind::shared ? task.shared_objects : task.device_objects;
        list.push_back({low, low + object.bytes, kind});
    }
    auto before = [](const Object& a, const Object& b) { return a.low < b.low; };
    std::sort(task.shared_objects.begin(), task.shared_objects.end(), before);
    std::sort(task.device_objects.begin(), task.device_objects.end(), before);
}

// The fields of the call, checked by machine.py already.
static void read_task(Launch& task, const SimtTask& spec) {
    task.library.entry = reinterpret_cast<void (*)(void**)>(spec.entry);
    task.library.dynamic_base = reinterpret_cast<unsigned char* (*)()>(spec.dynamic_base);
    auto blocks_per_sm = reinterpret_cast<unsigned (*)()>(spec.blocks_per_sm);
    task.blocks_per_sm = blocks_per_sm ? std::max(1u, blocks_per_sm()) : 1;
    dl_iterate_phdr(read_headers, &task.library);
    task.grid = {spec.grid[0], spec.grid[1], spec.grid[2]};
    task.block = {spec.block[0], spec.block[1], spec.block[2]};
    task.num_blocks = uint64_t(spec.grid[0]) * spec.grid[1] * spec.grid[2];
    task.num_threads = spec.block[0] * spec.block[1] * spec.block[2];
    task.shared_bytes = spec.shared_bytes;
    task.checked = spec.checked != 0;
    task.schedule = static_cast<Schedule>(spec.schedule);
    task.step_limit = spec.step_limit;
    task.time_limit_s = spec.time_limit_s;
    task.timeline = task.checked && spec.timeline != 0;
    // All workers together keep at most MAX_RESIDENT_THREADS threads alive.
    task.max_resident = std::min({task.num_blocks, static_cast<uint64_t>(MAX_RESIDENT_BLOCKS),
                                  static_cast<uint64_t>(MAX_RESIDENT_THREADS / task.num_threads)});
    task.max_resident = std::max<size_t>(1, task.max_resident / static_cast<size_t>(std::max(1, spec.num_workers)));
    task.random.seed(spec.seed);
    task.preempt = task.checked && (task.schedule == Schedule::random || task.schedule == Schedule::resident);
    order_blocks(task);
    read_objects(task, spec);
}

// `launch` is set only here: hooks and signal handlers take a null one as "no kernel runs".
static void run_launch(Launch& task, int num_workers) {
    launch = &task;
    install_signal_handlers();
    run_workers(num_workers);
    restore_signal_handlers();
    launch = nullptr;
}

// One placement for each distinct piece of memory; two arguments may point into the same one.
static std::vector<Placement> read_tensors(const SimtTask& spec) {
    std::vector<Placement> tensors;
    for (uint64_t i = 0; i < spec.num_tensors; ++i) {
        const SimtTensor& tensor = spec.tensors[i];
        tensors.push_back({static_cast<unsigned char*>(tensor.memory), tensor.bytes, tensor.misalignment});
    }
    return tensors;
}

// The kernel's arguments as addresses of values, with each tensor replaced by the address of its copy. A tensor with a
// value is a tensor map, which begins with the tensor's address (SimtTensorMap).
struct Arguments {
    std::vector<unsigned char*> pointers;  // into the copies; `values` points to these
    std::vector<void*> values;

    Arguments(const SimtTask& spec, const std::vector<Placement>& tensors)
        : pointers(spec.num_arguments), values(spec.arguments, spec.arguments + spec.num_arguments) {
        for (uint64_t i = 0; i < spec.num_arguments; ++i) {
            if (spec.tensor_of_argument[i] < 0) continue;
            pointers[i] = tensors[static_cast<size_t>(spec.tensor_of_argument[i])].device + spec.offset_of_argument[i];
            if (values[i]) std::memcpy(values[i], &pointers[i], sizeof pointers[i]);
            else values[i] = &pointers[i];
        }
    }
};

// Resets what the checked build records. False: out of memory.
static bool start_checks(const Launch& task, const SimtTask& spec, const std::vector<Placement>& tensors) {
    reset_happens_before();
    reset_requests();
    reset_timeline();
    if (!start_shadow(task, arena.low(), arena.high())) return false;
    for (size_t i = 0; i < tensors.size(); ++i) {
        auto low = reinterpret_cast<uintptr_t>(tensors[i].device);
        add_region({low, low + tensors[i].bytes, spec.tensors[i].uninitialised != 0, spec.tensors[i].is_const != 0});
    }
    return true;
}

}  // namespace simt

using namespace simt;

// Runs one launch. Returns 0 and two texts, the result and what the kernel printed, or 1 when there is no memory. The
// texts stay valid until the next launch.
SIMT_EXPORT int simt_launch(const SimtTask* spec, const char** result, const char** printed) try {
    static std::string last_result, last_printed;
    Launch task;
    read_task(task, *spec);
    std::vector<Placement> tensors = read_tensors(*spec);
    if (!arena.place(tensors, task.checked)) return 1;
    arena.copy_in(tensors);
    Arguments arguments(*spec, tensors);
    task.arguments = arguments.values.data();
    reset_findings();
    if (task.checked && !start_checks(task, *spec, tensors)) return 1;
    run_launch(task, std::min(spec->num_workers, MAX_WORKERS));
    if (task.checked) end_shadow();
    arena.copy_out(tensors);
    Worker first;  // worker 0 ran in this thread: the same segment
    first.shared_low = shared_segment(task.library);
    if (first.shared_low && task.library.dynamic_base) first.dynamic_low = task.library.dynamic_base();
    last_result = result_text(task, tensors, first);
    last_printed = std::move(task.printed);
    *result = last_result.c_str();
    *printed = last_printed.c_str();
    if (task.checked) arena.release();  // the next checked launch makes its own layout
    return 0;
} catch (const std::bad_alloc&) {
    launch = nullptr;
    return 1;
}
