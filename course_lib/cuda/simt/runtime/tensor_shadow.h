// The shadow cells of the tensors, in a mapping that is kept from launch to launch.
//
// Of a launch's cells most are never touched, and a page that is costs more to get from the system than to use. So the
// mapping stays, and a page is cleared when a launch first touches it.
#pragma once
#include "shadow.h"

namespace simt {

class TensorShadow {
public:
    TensorShadow() = default;
    TensorShadow(const TensorShadow&) = delete;
    ~TensorShadow() { release(); }
    bool start(uintptr_t low, uintptr_t high);  // of the arena, at the start of a launch; false: out of memory
    void end();                                 // after a launch; a large mapping is given back
    uintptr_t low() const { return low_; }
    uintptr_t high() const { return high_; }
    // The cells, the first of which shadows the four bytes at low(); those of [address, address + bytes) are of this
    // launch.
    Cell* cells(uintptr_t address, unsigned bytes) {
        for (size_t piece = (address - low_) / PIECE; piece * PIECE < address - low_ + bytes; ++piece)
            if (!touched_[piece]) clear(piece);
        return cells_;
    }

private:
    static constexpr size_t PIECE_CELLS = 64, PIECE = 4 * PIECE_CELLS;  // 4 KB of cells, for as many bytes of tensors
    static constexpr size_t MOST_KEPT = 1 << 14;                        // pieces: 64 MB of cells
    void clear(size_t piece);
    void release();
    uintptr_t low_ = 0, high_ = 0;
    Cell* cells_ = nullptr;
    unsigned char* touched_ = nullptr;  // by piece; behind the cells in the mapping
    size_t num_pieces_ = 0;             // of the mapping
    std::vector<size_t> pieces_;        // touched by this launch
};

}  // namespace simt
