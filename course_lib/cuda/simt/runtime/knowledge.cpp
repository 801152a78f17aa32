// How knowledge moves: see knowledge.h for what it is and simt.md for the programs that forced these rules.
//
// More lenient than the CUDA memory model in four ways: an atomic acquires without a fence behind it; shuffles and votes
// order memory among the lanes named (ldmatrix, mma and wmma do not); a fence of any scope counts for every scope; atomics to one address form one chain
// whatever their order.
#include "knowledge.h"

namespace simt {

static std::unordered_map<uintptr_t, KnowPtr> carried;  // atomic's address -> what atomics have left there

void forget_knowledge() { carried.clear(); }

void fence_publishes() {
    Fiber& self = *current;
    Block& block = *self.block;
    auto published = std::make_shared<Know>();
    if (block.know) published->add(*block.know);
    if (self.know) published->add(*self.know);
    published->add_epoch(block.id, block.epoch);
    published->add_thread(Know::thread_key(block.id, self.linear), self.clock);
    Warp& warp = block.warps[self.warp];
    if (warp.exchanged)
        for (unsigned lane = 0; lane < warp.lanes; ++lane)
            if (uint32_t clock = warp.known[self.lane][lane])
                published->add_thread(Know::thread_key(block.id, warp.first + lane), clock);
    self.release = std::move(published);  // includes everything published earlier
    ++self.clock;
}

void atomic_carries(uintptr_t address) {
    Fiber& self = *current;
    KnowPtr& here = carried[address];
    KnowPtr before = here;
    join(here, self.release);
    join(here, self.block->release);
    join(self.know, before);
}

void volatile_carries(uintptr_t address, bool is_write) {
    if (is_write) {
        if (current->release || current->block->release) {
            KnowPtr& here = carried[address];
            here = current->release;  // a plain store: it carries its own thread's knowledge, nobody else's
            join(here, current->block->release);
        }
    } else if (!carried.empty()) {
        auto found = carried.find(address);
        if (found != carried.end()) join(current->know, found->second);
    }
}

// into = into and all that the block's threads hold in `member`, which they give up.
static void collect(Block& block, KnowPtr& into, KnowPtr Fiber::*member) {
    std::shared_ptr<Know> sum;
    const Know* last = into.get();
    for (Fiber& fiber : block.fibers) {
        KnowPtr mine = std::move(fiber.*member);
        (fiber.*member).reset();
        if (!mine || mine.get() == last) continue;
        last = mine.get();
        if (!into) {
            into = std::move(mine);
            continue;
        }
        if (!sum) sum = std::make_shared<Know>(*into);
        sum->add(*mine);
    }
    if (sum) into = std::move(sum);
}

void barrier_joins(Block& block) {
    collect(block, block.know, &Fiber::know);
    collect(block, block.release, &Fiber::release);
    ++block.epoch;
}

void syncwarp_joins(Block& block, Warp& warp, unsigned mask) {
    uint32_t joined[LANES] = {};
    KnowPtr know, release;
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        Fiber& fiber = block.fibers[warp.first + lane];
        warp.known[lane][lane] = fiber.clock;
        for (unsigned other = 0; other < LANES; ++other)
            joined[other] = std::max(joined[other], warp.known[lane][other]);
        join(know, fiber.know);
        join(release, fiber.release);
    }
    for (unsigned lane = 0; lane < warp.lanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        Fiber& fiber = block.fibers[warp.first + lane];
        std::copy(joined, joined + LANES, warp.known[lane]);
        fiber.know = know;
        fiber.release = release;
        ++fiber.clock;
    }
    warp.exchanged = true;
}

}  // namespace simt
