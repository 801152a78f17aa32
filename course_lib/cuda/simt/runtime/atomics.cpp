// CUDA's atomic functions: one hook call, one recorded atomic access. Called by include/simt/atomics.h.
//
// Every operation is a compare-and-swap loop on the host, sequentially consistent: blocks of the fast build run on
// several workers at once. An atomic is also where a spinning thread yields, so that the thread it waits for can run.
#include <cstring>

#include "happens_before.h"
#include "shadow.h"

namespace simt {

// The numbers are those of SimtAtomicType and of simt_atomic's `op` in include/simt/hooks.h.
enum Type { I32, U32, I64, U64, F32, F64, F16, BF16, F16X2, BF16X2, U16 };
enum Op { ADD, SUB, EXCHANGE, MIN, MAX, AND, OR, XOR, INCREMENT, DECREMENT, COMPARE };

// Conversions of the 16-bit formats, rounding to nearest even. half_bits.h has the same for kernel code; it cannot be
// included here, since it comes with macros for memcpy and other names.
static float half_to_float(uint16_t bits) {
    uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023, word;
    if (exponent == 31) word = sign | 0x7f800000u | fraction << 13;
    else if (exponent) word = sign | (exponent + 112) << 23 | fraction << 13;
    else {  // subnormal or zero: a multiple of 2^-24
        float value = static_cast<float>(fraction) * 0x1p-24f;
        return sign ? -value : value;
    }
    float result;
    std::memcpy(&result, &word, 4);
    return result;
}

static uint16_t float_to_half(float value) {
    uint32_t word;
    std::memcpy(&word, &value, 4);
    uint32_t sign = word >> 16 & 0x8000, magnitude = word & 0x7fffffff;
    if (magnitude > 0x7f800000u) return static_cast<uint16_t>(0x7fff);          // NaN: CUDA's canonical one
    if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00);  // from 65520 on it rounds to infinity
    if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 rounds to a multiple of 2^-24, in the sum's low bits
        float tiny;
        std::memcpy(&tiny, &magnitude, 4);
        tiny += 0.5f;
        uint32_t bits;
        std::memcpy(&bits, &tiny, 4);
        return static_cast<uint16_t>(sign | (bits - 0x3f000000u));
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000u;  // ties to even; rebias by 112
    return static_cast<uint16_t>(sign | rounded >> 13);
}

static float bfloat_to_float(uint16_t bits) {
    uint32_t word = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
}

static uint16_t float_to_bfloat(float value) {
    uint32_t word;
    std::memcpy(&word, &value, 4);
    if ((word & 0x7fffffff) > 0x7f800000u) return 0x7fff;
    return static_cast<uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

// The new value. COMPARE is atomicCAS; INCREMENT and DECREMENT wrap as atomicInc and atomicDec do.
template <class T>
static T combine_integers(int op, T old, T operand, T compare) {
    switch (op) {
        case ADD: return static_cast<T>(old + operand);
        case SUB: return static_cast<T>(old - operand);
        case EXCHANGE: return operand;
        case MIN: return operand < old ? operand : old;
        case MAX: return operand > old ? operand : old;
        case AND: return old & operand;
        case OR: return old | operand;
        case XOR: return old ^ operand;
        case INCREMENT: return old >= operand ? 0 : static_cast<T>(old + 1);
        case DECREMENT: return old == 0 || old > operand ? operand : static_cast<T>(old - 1);
        default: return old == compare ? operand : old;
    }
}

// EXCHANGE is the default; COMPARE never comes here, since it compares bits.
template <class T>
static T combine_floats(int op, T old, T operand) {
    switch (op) {
        case ADD: return old + operand;
        case SUB: return old - operand;
        case MIN: return operand < old ? operand : old;
        case MAX: return operand > old ? operand : old;
        default: return operand;
    }
}

// 16-bit floats are computed in float and rounded once.
static uint16_t combine_small(int op, int type, uint16_t old, uint16_t operand, uint16_t compare) {
    if (op == EXCHANGE) return operand;
    if (type == F16) return float_to_half(combine_floats(op, half_to_float(old), half_to_float(operand)));
    if (type == BF16) return float_to_bfloat(combine_floats(op, bfloat_to_float(old), bfloat_to_float(operand)));
    return combine_integers<uint16_t>(op, old, operand, compare);
}

// Operands come as untyped addresses of values on the kernel's stack. A null one (no compare value) is 0.
template <class T>
static T load(const void* from) {
    T value{};
    if (from) std::memcpy(&value, from, sizeof(T));
    return value;
}

template <class To, class From>
static To bits_as(From from) {
    To to;
    static_assert(sizeof(To) == sizeof(From), "same size");
    std::memcpy(&to, &from, sizeof(To));
    return to;
}

// The word to store in place of `old`: one overload for each width in memory.
static uint16_t next_word(int op, int type, uint16_t old, const void* operand, const void* compare) {
    return combine_small(op, type, old, load<uint16_t>(operand), load<uint16_t>(compare));
}

static uint32_t next_word(int op, int type, uint32_t old, const void* operand, const void* compare) {
    auto value = load<uint32_t>(operand);
    if (type == I32) return static_cast<uint32_t>(combine_integers<int32_t>(op, static_cast<int32_t>(old), static_cast<int32_t>(value), load<int32_t>(compare)));
    if (type == F32 && op != COMPARE) return bits_as<uint32_t>(combine_floats(op, bits_as<float>(old), bits_as<float>(value)));
    if (type == F16X2 || type == BF16X2) {  // each half on its own; CUDA does not promise that both happen at once
        int half = type == F16X2 ? F16 : BF16;
        auto low = combine_small(op, half, static_cast<uint16_t>(old), static_cast<uint16_t>(value), 0);
        auto high = combine_small(op, half, static_cast<uint16_t>(old >> 16), static_cast<uint16_t>(value >> 16), 0);
        return uint32_t(high) << 16 | low;
    }
    return combine_integers<uint32_t>(op, old, value, load<uint32_t>(compare));
}

static uint64_t next_word(int op, int type, uint64_t old, const void* operand, const void* compare) {
    auto value = load<uint64_t>(operand);
    if (type == I64) return static_cast<uint64_t>(combine_integers<int64_t>(op, static_cast<int64_t>(old), static_cast<int64_t>(value), load<int64_t>(compare)));
    if (type == F64 && op != COMPARE) return bits_as<uint64_t>(combine_floats(op, bits_as<double>(old), bits_as<double>(value)));
    return combine_integers<uint64_t>(op, old, value, load<uint64_t>(compare));
}

// Replaces the word at `address` and stores what it held in *old.
template <class Word>
static void apply(int op, int type, void* address, const void* operand, const void* compare, void* old) {
    auto* word = static_cast<Word*>(address);
    Word seen = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n(word, &seen, next_word(op, type, seen, operand, compare), false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
    if (old) std::memcpy(old, &seen, sizeof(Word));
}

// Bytes in memory.
static unsigned width_of(int type) {
    if (type == I64 || type == U64 || type == F64) return 8;
    return type == F16 || type == BF16 || type == U16 ? 2 : 4;
}

}  // namespace simt

using namespace simt;

SIMT_EXPORT void simt_atomic(int op, int type, int scope, void* address, const void* operand, const void* compare, void* old) {
    uintptr_t code = SIMT_CODE();
    yield_on_atomic();  // before the access: what other threads do meanwhile must be seen by it
    unsigned bytes = width_of(type);
    SIMT_OF_CLANG(current->stored_at = 0;)
    if (launch->checked) {
        // A read-modify-write is recorded as one strong write; update_cell counts the atomic as a read too.
        if (op == COMPARE) excuse_recent_reads(reinterpret_cast<uintptr_t>(address));
        on_access(reinterpret_cast<uintptr_t>(address), bytes, true,
                  static_cast<Scope>(scope) == Scope::block ? Order::atomic_in_block : Order::atomic, code);
        atomic_synchronise(reinterpret_cast<uintptr_t>(address), static_cast<Scope>(scope));
    }
    if (bytes == 2) apply<uint16_t>(op, type, address, operand, compare, old);
    else if (bytes == 4) apply<uint32_t>(op, type, address, operand, compare, old);
    else apply<uint64_t>(op, type, address, operand, compare, old);
}
