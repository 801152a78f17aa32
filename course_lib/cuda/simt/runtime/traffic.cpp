// Sectors of a request to global memory, wavefronts of a request to shared memory. Called by requests.cpp.
//
// Agrees with the counters of an H200: tests/simt/data/h200_counters.csv holds them, test_counters_h200.py compares.
#include <algorithm>

#include "requests.h"

namespace simt {

namespace {

constexpr uint64_t SECTOR_BYTES = 32;
constexpr unsigned BANKS = 32;  // of 4 bytes

struct Piece {  // of one lane
    uint64_t address;
    unsigned bytes;
};

// Distinct sectors that the pieces touch, and the fewest that their distinct bytes would fit in.
void count_sectors(std::vector<Piece>& pieces, Counters& sum) {
    auto before = [](const Piece& a, const Piece& b) { return a.address < b.address; };
    if (!std::is_sorted(pieces.begin(), pieces.end(), before)) std::sort(pieces.begin(), pieces.end(), before);
    uint64_t next_sector = 0, covered = 0, distinct = 0;  // first sector, and first byte, not counted yet
    for (const Piece& piece : pieces) {
        uint64_t first = std::max(piece.address / SECTOR_BYTES, next_sector);
        uint64_t last = (piece.address + piece.bytes - 1) / SECTOR_BYTES;
        if (last >= first) {
            sum.sectors += last - first + 1;
            next_sector = last + 1;
        }
        uint64_t begin = std::max(piece.address, covered), end = piece.address + piece.bytes;
        if (end > begin) {
            distinct += end - begin;
            covered = end;
        }
    }
    sum.ideal_sectors += (distinct + SECTOR_BYTES - 1) / SECTOR_BYTES;
}

// True when every lane has the address of lane ^ distance. A lane outside the request agrees with any.
bool lanes_share_addresses(const Request& request, unsigned distance) {
    for (unsigned lane = 0; lane < LANES; ++lane) {
        unsigned other = lane ^ distance;
        if (!(request.lanes >> lane & 1) || !(request.lanes >> other & 1)) continue;
        if (request.offset[lane] != request.offset[other]) return false;
    }
    return true;
}

// A wavefront serves one word from each bank; equal words are broadcast. 8-byte accesses go in half-warps, 16-byte ones
// in quarter-warps. Two halves (or quarters) go in one pass when neighbours share addresses: all lanes i and i ^ 1, or
// all i and i ^ 2 (the shared_index rows of h200_counters.csv). ldmatrix: each tile of eight rows of 16 bytes is one
// pass, whatever the rows of the other tiles are.
void count_wavefronts(const Request& request, Counters& sum) {
    unsigned per_pass = request.bytes <= 4 ? 32 : request.bytes == 8 ? 16 : 8;
    bool is_matrix = (request.flags & FLAG_MATRIX) != 0;
    bool merges = lanes_share_addresses(request, 1) || lanes_share_addresses(request, 2);
    if (per_pass < LANES && !is_matrix && merges) per_pass *= 2;
    for (unsigned first = 0; first < LANES; first += per_pass) {
        uint64_t words[BANKS][LANES];  // distinct words of each bank
        unsigned in_bank[BANKS] = {}, most = 0;
        for (unsigned lane = first; lane < first + per_pass; ++lane) {
            if (!(request.lanes >> lane & 1)) continue;
            uint64_t from = request.address(lane) / 4, to = (request.address(lane) + request.bytes - 1) / 4;
            for (uint64_t word = from; word <= to; ++word) {
                unsigned bank = word % BANKS, i = 0;
                while (i < in_bank[bank] && words[bank][i] != word) ++i;
                if (i == in_bank[bank] && i < LANES) words[bank][in_bank[bank]++] = word;
                most = std::max(most, in_bank[bank]);
            }
        }
        sum.wavefronts += most;
        if (most > 1) sum.conflicts += most - 1;
    }
}

}  // namespace

void count_request(const Request& request, Counters& sum) {
    sum.flags = request.flags;
    ++sum.requests;
    static std::vector<Piece> pieces;  // reused: one worker in the checked build
    pieces.clear();
    for (unsigned lane = 0; lane < LANES; ++lane) {
        if (!(request.lanes >> lane & 1)) continue;
        pieces.push_back({request.address(lane), request.bytes});
        sum.bytes += request.bytes;
    }
    if (request.flags & FLAG_SHARED) count_wavefronts(request, sum);
    else count_sectors(pieces, sum);
}

}  // namespace simt
