// The result of a launch as JSON. See result.h.
//
// Addresses are decimal numbers; a code address is relative to the kernel's library.
#include "result.h"

#include <cstdio>
#include <initializer_list>

#include "findings.h"
#include "requests.h"
#include "timeline.h"

namespace simt {

// A JSON string. Details may hold any text of the kernel's, such as an asserted expression.
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

// A JSON list of numbers, and an index as [x, y, z].
static std::string list(std::initializer_list<uint64_t> numbers) {
    std::string text;
    for (uint64_t number : numbers) text += (text.empty() ? "[" : ",") + std::to_string(number);
    return text + "]";
}

static std::string list(const SimtIndex& i) { return list({i.x, i.y, i.z}); }

// `"name":value,` with a value that is JSON already, a number or a bool.
static std::string field(const char* name, const std::string& value) {
    return "\"" + std::string(name) + "\":" + value + ",";
}

static std::string field(const char* name, uint64_t value) { return field(name, std::to_string(value)); }

static std::string field(const char* name, bool value) { return field(name, std::string(value ? "true" : "false")); }

static std::string text_of(const Finding& f) {
    return "{" + field("kind", static_cast<uint64_t>(f.kind)) + field("space", static_cast<uint64_t>(f.space)) +
           field("code", f.code) + field("other_code", f.other_code) + field("count", f.count) +
           field("is_write", f.is_write) + field("other_is_write", f.other_is_write) +
           field("issues_async", static_cast<uint64_t>(f.issues_async)) + field("thread", list(f.thread)) +
           field("block", list(f.block)) + field("other_thread", list(f.other_thread)) +
           field("other_block", list(f.other_block)) + field("address", f.address) +
           field("bytes", static_cast<uint64_t>(f.bytes)) + "\"detail\":" + quoted(f.detail) + "}";
}

// Withdrawn and excused findings are left out.
static std::string findings_text() {
    std::string text;
    for (const Finding& finding : all_findings())
        if (finding.count && !is_excused(finding)) text += (text.empty() ? "" : ",") + text_of(finding);
    return "[" + text + "]";
}

// One list for each instruction, in the order in which machine.py unpacks it.
static std::string counters_text() {
    std::string text;
    for (const auto& [key, c] : all_counters()) {
        text += (text.empty() ? "" : ",") + list({key & 0xffffffff, c.flags, c.requests, c.bytes, c.sectors, c.ideal_sectors,
                                                  c.wavefronts, c.conflicts});
    }
    return "[" + text + "]";
}

// The addresses of the copies, which findings speak of.
static std::string tensors_text(const std::vector<Placement>& tensors) {
    std::string text;
    for (const Placement& tensor : tensors)
        text += (text.empty() ? "" : ",") + std::to_string(reinterpret_cast<uintptr_t>(tensor.device));
    return "[" + text + "]";
}

std::string result_text(const Launch& task, const std::vector<Placement>& tensors, const Worker& first) {
    const uint64_t *shares = largest_shares(), *products = mma_counts();
    return "{" + field("stop", static_cast<uint64_t>(task.stop.load())) + field("stop_code", task.stop_code) +
           field("stop_address", task.stop_address) + field("stop_detail", quoted(task.stop_detail)) +
           field("stop_thread", list(task.stop_thread)) + field("stop_block", list(task.stop_block)) +
           field("exact", counts_are_exact()) + field("base", task.library.base) +
           field("data", list({task.library.data_low, task.library.data_high})) +
           field("shared", list({reinterpret_cast<uintptr_t>(first.shared_low),
                                 reinterpret_cast<uintptr_t>(first.dynamic_low)})) +
           field("tensors", tensors_text(tensors)) + field("findings", findings_text()) +
           field("shares", list({shares[0], shares[1], shares[2], shares[3]})) +
           field("mma", list({products[0], products[1], products[2]})) +
           field("timeline", task.timeline ? timeline_text() : std::string("[]")) +
           "\"counters\":" + (task.checked ? counters_text() : std::string("[]")) + "}";
}

}  // namespace simt
