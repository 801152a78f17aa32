// Mapping and clearing the tensors' shadow cells. See tensor_shadow.h.
#include "tensor_shadow.h"

#include <sys/mman.h>

#include <cstring>

namespace simt {

// Mapped without reserve: what no launch touches takes no memory.
bool TensorShadow::start(uintptr_t low, uintptr_t high) {
    end();  // a launch that ran out of memory has not come to it
    low_ = low;
    high_ = high;
    size_t needed = (high - low) / PIECE + 1;
    if (needed <= num_pieces_) return true;
    release();
    size_t bytes = needed * (PIECE_CELLS * sizeof(Cell) + 1);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    cells_ = static_cast<Cell*>(memory);
    touched_ = reinterpret_cast<unsigned char*>(cells_ + needed * PIECE_CELLS);
    num_pieces_ = needed;
    return true;
}

void TensorShadow::clear(size_t piece) {
    std::memset(static_cast<void*>(cells_ + piece * PIECE_CELLS), 0, PIECE_CELLS * sizeof(Cell));
    touched_[piece] = 1;
    pieces_.push_back(piece);
}

void TensorShadow::end() {
    if (num_pieces_ > MOST_KEPT) return release();
    for (size_t piece : pieces_) touched_[piece] = 0;
    pieces_.clear();
}

void TensorShadow::release() {
    if (cells_) munmap(cells_, num_pieces_ * (PIECE_CELLS * sizeof(Cell) + 1));
    cells_ = nullptr;
    num_pieces_ = 0;
    pieces_.clear();
}

}  // namespace simt
