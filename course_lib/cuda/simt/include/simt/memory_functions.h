// memcpy and memset of device code: loops of the widest word that size and both addresses allow.
//
// The C library's own would move data without instrumentation. Macros, because a host header may have declared the C
// functions before. NVRTC has both without an include. Included by math.h.
#pragma once

template <class Word>
SIMT_INLINE void simt_memcpy_words(void* to, const void* from, size_t bytes) {
    for (size_t i = 0; i < bytes / sizeof(Word); ++i) static_cast<Word*>(to)[i] = static_cast<const Word*>(from)[i];
}

SIMT_INLINE void* simt_memcpy(void* to, const void* from, size_t bytes) {
    size_t bits = reinterpret_cast<size_t>(to) | reinterpret_cast<size_t>(from) | bytes;
    if (bits % 8 == 0) {
        simt_memcpy_words<simt_word8>(to, from, bytes);
    } else if (bits % 4 == 0) {
        simt_memcpy_words<simt_word4>(to, from, bytes);
    } else {
        simt_memcpy_words<unsigned char>(to, from, bytes);
    }
    return to;
}

SIMT_INLINE void* simt_memset(void* to, int value, size_t bytes) {
    unsigned char byte = static_cast<unsigned char>(value);
    if ((reinterpret_cast<size_t>(to) | bytes) % 4 == 0) {
        for (size_t i = 0; i < bytes / 4; ++i) static_cast<simt_word4*>(to)[i] = byte * 0x01010101u;
    } else {
        for (size_t i = 0; i < bytes; ++i) static_cast<unsigned char*>(to)[i] = byte;
    }
    return to;
}

#define memcpy(to, from, bytes) simt_memcpy(to, from, bytes)
#define memset(to, value, bytes) simt_memset(to, value, bytes)
