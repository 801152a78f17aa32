// The SIMT machine without Python: reads launches from standard input, runs them, writes results to standard output.
//
//     aarch64_driver RUNTIME
//
// test_aarch64.py sends, for each launch, words separated by blanks (numbers decimal, memory as hexadecimal bytes, an
// empty one as "-"):
//     LIBRARY checked schedule seed workers step_limit time_limit_s shared_bytes grid[3] block[3]
//     num_objects {offset bytes kind} num_tensors {misalignment uninitialised memory}
//     num_arguments {tensor offset value}                         tensor -1: a plain value, in `value`
// and gets the machine's answer on one line, then what the kernel printed, then every tensor, as hexadecimal bytes.
#include <dlfcn.h>

#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <vector>

// The structures of runtime/machine.cpp and simt/memory.py.
struct Tensor {
    void* memory;
    uint64_t bytes, misalignment;
    int uninitialised, is_const;
};
struct Object {
    uint64_t offset, bytes;
    int kind;
};
struct Task {
    void* entry;
    void* dynamic_base;
    void* blocks_per_sm;
    void** arguments;
    Tensor* tensors;
    uint64_t num_tensors;
    int* tensor_of_argument;
    uint64_t* offset_of_argument;
    uint64_t num_arguments;
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    int checked, schedule;
    Object* objects;
    uint64_t num_objects;
    unsigned seed;
    int num_workers;
    uint64_t step_limit;
    double time_limit_s;
    int timeline;
};
using Bytes = std::vector<unsigned char>;

static void* open_library(const std::string& path) {
    static std::map<std::string, void*> opened;
    void*& library = opened[path];
    if (!library) library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) std::cerr << dlerror() << std::endl, std::exit(2);
    return library;
}

template <class T>
static T next() {
    T value{};
    std::cin >> value;
    return value;
}

static Bytes next_bytes() {
    auto text = next<std::string>();
    Bytes bytes;
    if (text == "-") return bytes;
    for (size_t i = 0; i + 1 < text.size(); i += 2)
        bytes.push_back(static_cast<unsigned char>(std::stoi(text.substr(i, 2), nullptr, 16)));
    return bytes;
}

static void write_bytes(const unsigned char* bytes, size_t count) {
    static const char digits[] = "0123456789abcdef";
    if (count == 0) std::cout << "-";
    for (size_t i = 0; i < count; ++i) std::cout << digits[bytes[i] >> 4] << digits[bytes[i] & 15];
    std::cout << "\n";
}

int main(int, char** argv) {
    using Launch = int (*)(const Task*, const char**, const char**);
    auto launch = reinterpret_cast<Launch>(dlsym(open_library(argv[1]), "simt_launch"));
    for (std::string path; std::cin >> path;) {
        Task task{};
        task.entry = dlsym(open_library(path), "simt_entry");
        task.dynamic_base = dlsym(open_library(path), "simt_dynamic_base");
        task.blocks_per_sm = dlsym(open_library(path), "simt_blocks_per_sm");
        std::cin >> task.checked >> task.schedule >> task.seed >> task.num_workers >> task.step_limit >>
            task.time_limit_s >> task.shared_bytes;
        for (unsigned& size : task.grid) std::cin >> size;
        for (unsigned& size : task.block) std::cin >> size;
        std::vector<Object> objects(task.num_objects = next<uint64_t>());
        for (Object& object : objects) std::cin >> object.offset >> object.bytes >> object.kind;
        std::vector<Tensor> tensors(task.num_tensors = next<uint64_t>());
        std::vector<Bytes> memory;
        for (Tensor& tensor : tensors) {
            std::cin >> tensor.misalignment >> tensor.uninitialised;
            memory.push_back(next_bytes());
            tensor.memory = memory.back().data();
            tensor.bytes = memory.back().size();
        }
        task.num_arguments = next<uint64_t>();
        std::vector<int> tensor_of(task.num_arguments);
        std::vector<uint64_t> offset_of(task.num_arguments);
        std::vector<Bytes> values(task.num_arguments);
        std::vector<void*> arguments(task.num_arguments);
        for (size_t i = 0; i < task.num_arguments; ++i) {
            std::cin >> tensor_of[i] >> offset_of[i];
            values[i] = next_bytes();
            values[i].resize(std::max<size_t>(16, values[i].size()));
            arguments[i] = values[i].data();
        }
        task.objects = objects.data();
        task.tensors = tensors.data();
        task.tensor_of_argument = tensor_of.data();
        task.offset_of_argument = offset_of.data();
        task.arguments = arguments.data();
        const char *result = "", *printed = "";
        if (launch(&task, &result, &printed)) return 3;
        std::cout << result << "\n";
        const std::string text = printed;
        write_bytes(reinterpret_cast<const unsigned char*>(text.data()), text.size());
        for (const Bytes& bytes : memory) write_bytes(bytes.data(), bytes.size());
        std::cout << std::flush;
    }
}
