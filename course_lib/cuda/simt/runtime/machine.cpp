// The machine as Python sees it: one function that launches, and a text with what was found and counted.
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
#include "knowledge.h"
#include "requests.h"
#include "scheduler.h"
#include "shadow.h"

extern "C" {
struct SimtTensor {
    void* memory;
    uint64_t bytes, misalignment;
    int writable, uninitialised;
};
struct SimtObject {
    uint64_t offset, bytes;
    int kind;
};
struct SimtTask {
    void* entry;            // simt_entry of the kernel's library
    void* dynamic_base;     // simt_dynamic_base, or null when it has no dynamic shared memory
    void** arguments;       // addresses of the values
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
};
typedef struct {
    size_t module, offset;
} SimtTlsIndex;
void* __tls_get_addr(SimtTlsIndex*);
}

namespace simt {

constexpr size_t MAX_RESIDENT_THREADS = 16384, MAX_RESIDENT_BLOCKS = 512;
constexpr int MAX_WORKERS = 16;
static Arena arena;

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

static void run_worker(int number) {
    static StackPool stacks[MAX_WORKERS];  // kept from launch to launch
    Worker self;
    self.stacks = &stacks[number];
    const Library& library = launch->library;
    if (library.tls_module) {
        SimtTlsIndex index{library.tls_module, 0};
        self.shared_low = static_cast<unsigned char*>(__tls_get_addr(&index));
        self.shared_bytes = self.tls_bytes = library.tls_bytes;
        if (library.dynamic_base) {
            self.dynamic_low = library.dynamic_base();
            self.shared_bytes = static_cast<size_t>(self.dynamic_low - self.shared_low) + launch->shared_bytes;
        }
    }
    worker = &self;
    watch_thread();
    run_blocks();
    unwatch_thread();
    worker = nullptr;
}

// Further workers join when the first has been at it for a while: most launches of a lesson are over before that.
static void run_workers(int num_workers) {
    if (num_workers <= 1) return run_worker(0);
    std::vector<std::thread> others;
    auto help = [&] {
        auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
        while (std::chrono::steady_clock::now() < until) {
            if (launch->next_block.load() >= launch->num_blocks) return;
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
        try {
            for (int i = 2; i < num_workers; ++i) others.emplace_back(run_worker, i);
        } catch (const std::system_error&) {  // no more threads allowed: fewer do the work
        }
        run_worker(1);
    };
    std::thread helper;
    try {
        helper = std::thread(help);
    } catch (const std::system_error&) {
    }
    run_worker(0);
    if (helper.joinable()) helper.join();
    for (std::thread& other : others) other.join();
}

static void order_blocks(Launch& task) {
    if (task.schedule == Schedule::forward) return;
    task.block_order.resize(task.num_blocks);
    for (uint32_t i = 0; i < task.num_blocks; ++i) task.block_order[i] = i;
    if (task.schedule == Schedule::reverse) std::reverse(task.block_order.begin(), task.block_order.end());
    else std::shuffle(task.block_order.begin(), task.block_order.end(), task.random);
}

static void take_objects(Launch& task, const SimtTask& asked) {
    for (uint64_t i = 0; i < asked.num_objects; ++i) {
        const SimtObject& object = asked.objects[i];
        auto kind = static_cast<ObjectKind>(object.kind);
        uintptr_t low = object.offset + (kind == ObjectKind::shared ? 0 : task.library.base);
        auto& list = kind == ObjectKind::shared ? task.shared_objects : task.device_objects;
        list.push_back({low, low + object.bytes, kind});
    }
    auto before = [](const Object& a, const Object& b) { return a.low < b.low; };
    std::sort(task.shared_objects.begin(), task.shared_objects.end(), before);
    std::sort(task.device_objects.begin(), task.device_objects.end(), before);
}

static void prepare(Launch& task, const SimtTask& asked) {
    task.library.entry = reinterpret_cast<void (*)(void**)>(asked.entry);
    task.library.dynamic_base = reinterpret_cast<unsigned char* (*)()>(asked.dynamic_base);
    dl_iterate_phdr(read_headers, &task.library);
    task.grid = {asked.grid[0], asked.grid[1], asked.grid[2]};
    task.block = {asked.block[0], asked.block[1], asked.block[2]};
    task.num_blocks = uint64_t(asked.grid[0]) * asked.grid[1] * asked.grid[2];
    task.num_threads = asked.block[0] * asked.block[1] * asked.block[2];
    task.shared_bytes = asked.shared_bytes;
    task.checked = asked.checked != 0;
    task.schedule = static_cast<Schedule>(asked.schedule);
    task.step_limit = asked.step_limit;
    task.time_limit_s = asked.time_limit_s;
    task.max_resident = std::min({task.num_blocks, static_cast<uint64_t>(MAX_RESIDENT_BLOCKS),
                                  static_cast<uint64_t>(MAX_RESIDENT_THREADS / task.num_threads)});
    task.max_resident = std::max<size_t>(1, task.max_resident / static_cast<size_t>(std::max(1, asked.num_workers)));
    task.random.seed(asked.seed);
    task.preempt = task.checked && (task.schedule == Schedule::random || task.schedule == Schedule::resident);
    order_blocks(task);
    take_objects(task, asked);
}

static std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        if (static_cast<unsigned char>(c) < 0x20) {
            char code[8];
            snprintf(code, sizeof(code), "\\u%04x", c);
            result += code;
        } else {
            result += c;
        }
    }
    return result + "\"";
}

static std::string text_of(const SimtIndex& i) {
    return "[" + std::to_string(i.x) + "," + std::to_string(i.y) + "," + std::to_string(i.z) + "]";
}

static std::string text_of(const Finding& f) {
    return "{\"kind\":" + std::to_string(static_cast<int>(f.kind)) + ",\"space\":" + std::to_string(static_cast<int>(f.space)) +
           ",\"code\":" + std::to_string(f.code) + ",\"other_code\":" + std::to_string(f.other_code) +
           ",\"count\":" + std::to_string(f.count) + ",\"is_write\":" + (f.is_write ? "true" : "false") +
           ",\"other_is_write\":" + (f.other_is_write ? "true" : "false") + ",\"thread\":" + text_of(f.thread) +
           ",\"block\":" + text_of(f.block) + ",\"other_thread\":" + text_of(f.other_thread) +
           ",\"other_block\":" + text_of(f.other_block) + ",\"address\":" + std::to_string(f.address) +
           ",\"bytes\":" + std::to_string(f.bytes) + ",\"detail\":" + quoted(f.detail) + "}";
}

static std::string result_text(const Launch& task, const std::vector<Placement>& tensors, const Worker* first) {
    std::string text = "{\"stop\":" + std::to_string(task.stop.load()) + ",\"stop_code\":" + std::to_string(task.stop_code) +
                       ",\"stop_address\":" + std::to_string(task.stop_address) + ",\"stop_detail\":" + quoted(task.stop_detail) +
                       ",\"stop_thread\":" + text_of(task.stop_thread) + ",\"stop_block\":" + text_of(task.stop_block) +
                       ",\"exact\":" + (counts_are_exact() ? "true" : "false") + ",\"base\":" + std::to_string(task.library.base) +
                       ",\"data\":[" + std::to_string(task.library.data_low) + "," + std::to_string(task.library.data_high) + "]" +
                       ",\"shared\":[" + std::to_string(reinterpret_cast<uintptr_t>(first->shared_low)) + "," +
                       std::to_string(reinterpret_cast<uintptr_t>(first->dynamic_low)) + "],\"tensors\":[";
    for (size_t i = 0; i < tensors.size(); ++i)
        text += (i ? "," : "") + std::to_string(reinterpret_cast<uintptr_t>(tensors[i].device));
    text += "],\"findings\":[";
    bool first_one = true;
    for (const Finding& finding : all_findings()) {
        if (finding.count && !is_excused(finding)) text += (first_one ? "" : ",") + text_of(finding), first_one = false;
    }
    text += "],\"counters\":[";
    first_one = true;
    for (const auto& [key, c] : all_counters()) {
        if (!task.checked) break;
        text += (first_one ? "[" : ",[") + std::to_string(key & 0xffffffff) + "," + std::to_string(c.flags) + "," +
                std::to_string(c.requests) + "," + std::to_string(c.bytes) + "," + std::to_string(c.sectors) + "," +
                std::to_string(c.ideal_sectors) + "," + std::to_string(c.wavefronts) + "," + std::to_string(c.conflicts) + "]";
        first_one = false;
    }
    return text + "]}";
}

static void run_launch(Launch& task, int num_workers) {
    launch = &task;
    take_signals();
    run_workers(num_workers);
    give_back_signals();
    launch = nullptr;
}

}  // namespace simt

using namespace simt;

// Runs one launch. Returns 0 and a JSON text, or 1 when there is no memory. The texts live until the next launch.
SIMT_EXPORT int simt_launch(const SimtTask* asked, const char** result, const char** printed) try {
    static std::string result_keeper, printed_keeper;
    static Worker seen_by_first;
    Launch task;
    prepare(task, *asked);
    std::vector<Placement> tensors;
    for (uint64_t i = 0; i < asked->num_tensors; ++i) {
        const SimtTensor& tensor = asked->tensors[i];
        tensors.push_back({static_cast<unsigned char*>(tensor.memory), tensor.bytes, tensor.misalignment, tensor.writable != 0});
    }
    if (!arena.place(tensors, task.checked)) return 1;
    arena.copy_in(tensors);
    std::vector<unsigned char*> pointers(asked->num_arguments);
    std::vector<void*> arguments(asked->arguments, asked->arguments + asked->num_arguments);
    for (uint64_t i = 0; i < asked->num_arguments; ++i) {
        if (asked->tensor_of_argument[i] < 0) continue;
        pointers[i] = tensors[static_cast<size_t>(asked->tensor_of_argument[i])].device + asked->offset_of_argument[i];
        arguments[i] = &pointers[i];
    }
    task.arguments = arguments.data();
    forget_findings();
    if (task.checked) {
        forget_knowledge();
        forget_requests();
        if (!start_shadow(task, arena.low(), arena.high())) return 1;
        for (size_t i = 0; i < tensors.size(); ++i) {
            auto low = reinterpret_cast<uintptr_t>(tensors[i].device);
            add_region({low, low + tensors[i].bytes, asked->tensors[i].uninitialised != 0});
        }
    }
    run_launch(task, std::min(asked->num_workers, MAX_WORKERS));
    if (task.checked) end_shadow();
    arena.copy_out(tensors);
    if (task.library.tls_module) {
        SimtTlsIndex index{task.library.tls_module, 0};
        seen_by_first.shared_low = static_cast<unsigned char*>(__tls_get_addr(&index));
        seen_by_first.dynamic_low = task.library.dynamic_base ? task.library.dynamic_base() : nullptr;
    } else {
        seen_by_first = Worker{};
    }
    result_keeper = result_text(task, tensors, &seen_by_first);
    printed_keeper = std::move(task.printed);
    *result = result_keeper.c_str();
    *printed = printed_keeper.c_str();
    if (task.checked) arena.release();
    return 0;
} catch (const std::bad_alloc&) {
    launch = nullptr;
    return 1;
}
