// tagged_words — eight bytes of data that another card may poll: each half travels in one word with a tag (ld/st.relaxed.sys)
//
// A word of 64 bits holds 32 bits of data and a tag of 32. It is read and written whole, so a reader that finds the tag has the data
// that was written with it: no fence, no flag after the data, and nothing but this word is ordered by it. Two words are one access
// of 16 bytes; either may arrive first. Both functions work on memory of another card that this one maps.
// Device code only, no host headers
// Source    PTX ISA, "ld", "st": each element of a vector access is an access of its own; "Scope"
#pragma once

#ifdef __CUDA_ARCH__
// `words` is a multiple of 16 bytes.
__device__ __forceinline__ void store_tagged(unsigned long long* words, uint2 data, unsigned tag) {
    const unsigned long long high = static_cast<unsigned long long>(tag) << 32;
    asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};\n" ::"l"(words), "l"(high | data.x), "l"(high | data.y) : "memory");
}

// True, and the data, when both words have the tag.
__device__ __forceinline__ bool load_tagged(uint2& data, const unsigned long long* words, unsigned tag) {
    unsigned long long a, b;
    asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];\n" : "=l"(a), "=l"(b) : "l"(words) : "memory");
    data = make_uint2(static_cast<unsigned>(a), static_cast<unsigned>(b));
    return static_cast<unsigned>(a >> 32) == tag && static_cast<unsigned>(b >> 32) == tag;
}
#else
// The same on the SIMT machine, where a thread that has looked in vain lets the others go on.
__device__ __forceinline__ void store_tagged(unsigned long long* words, uint2 data, unsigned tag) {
    const unsigned long long high = static_cast<unsigned long long>(tag) << 32;
    volatile unsigned long long* target = words;
    target[0] = high | data.x;
    target[1] = high | data.y;
}

__device__ __forceinline__ bool load_tagged(uint2& data, const unsigned long long* words, unsigned tag) {
    const volatile unsigned long long* source = words;
    const unsigned long long a = source[0], b = source[1];
    data = make_uint2(static_cast<unsigned>(a), static_cast<unsigned>(b));
    if (static_cast<unsigned>(a >> 32) == tag && static_cast<unsigned>(b >> 32) == tag) return true;
    __nanosleep(1);
    return false;
}
#endif
