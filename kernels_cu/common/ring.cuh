// ring — where a thread is in a ring of buffers: the stage, and the parity of the barriers' phase
//
// A ring of RING_STAGES buffers is walked round and round. Each stage has two mbarriers: `full` completes when the buffer has been
// filled, `empty` when it may be filled again. Both complete once a round, so the parity to wait for flips when the ring wraps.
//     consumer   mbarrier_wait_parity(&full[ring.stage], ring.parity); … mbarrier_arrive(&empty[ring.stage]); ring.advance();
//     producer   mbarrier_wait_parity(&empty[ring.stage], ring.parity ^ 1); fill with full[ring.stage]; ring.advance();
// In the first round the producer waits for parity 1: the phase before the first, which counts as completed.
// Device code only, no host headers.
#pragma once

template <int RING_STAGES>
struct Ring {
    int stage = 0;
    unsigned parity = 0;
    __device__ __forceinline__ void advance() {
        if (++stage == RING_STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};
