// 08.4 ping_pong — consumers take turns: named barriers pass the turn from one warpgroup to the next
//
// Idea      a consumer waits at the barrier of its own number and arrives at that of the next: waiting and arriving threads together
//           are the barrier's count
// Builds on flash_attention_3/05_ping_pong. Changed: a turn writes a log in place of products; the consumers' steps differ.
// Contract  num_steps (NUM_CONSUMERS,) int, 0 or more · log (sum of num_steps,) int: in the order of the turns, 1000 * consumer + step
//           state (CONSUMER_THREADS,) unsigned · worked (NUM_CONSUMERS * CONSUMER_THREADS,) unsigned
//           no Triton twin: Triton has no named barriers
// Launch    grid 1 · block NUM_CONSUMERS * CONSUMER_THREADS · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// gate: -DNUM_CONSUMERS=2 -DCONSUMER_THREADS=128
// gate: -DNUM_CONSUMERS=3 -DCONSUMER_THREADS=128
// Source    PTX ISA, "bar.sync", "bar.arrive"
#ifndef NUM_CONSUMERS
#error "NUM_CONSUMERS: how many take turns; pass -DNUM_CONSUMERS=2, 3 or 4"
#endif
#ifndef CONSUMER_THREADS
#error "CONSUMER_THREADS: threads of a consumer, a multiple of 32; pass -DCONSUMER_THREADS=128"
#endif
#include "common/named_barrier.cuh"  // named_barrier_sync(barrier_idx, num_threads), named_barrier_arrive(…)
#define WORK 40                      // rounds of the work between two turns

// What the consumers share. Only the one whose turn it is may touch it: there are no atomics and no locks.
struct Shared {
    int num_turns;                    // so far
    unsigned state[CONSUMER_THREADS];
};

// One turn, by all threads of a consumer: the next line of the log, and a step of the state, which takes in `number`, what
// the thread's work has given so far. Returns what the work of this step begins with.
__device__ __forceinline__ unsigned take_turn(Shared& shared, int* log, int consumer, int step, int thread, unsigned number) {
    if (thread == 0) log[shared.num_turns++] = 1000 * consumer + step;
    shared.state[thread] = shared.state[thread] * 3 + consumer + 1 + number;
    return shared.state[thread];
}

// What a consumer does between two turns, on its own numbers.
__device__ __noinline__ unsigned work(unsigned number, int step) {
    for (int i = 0; i < WORK; ++i) number = number * 1664525u + (number >> 16) + step;
    return number;
}

extern "C" __global__ void __launch_bounds__(NUM_CONSUMERS * CONSUMER_THREADS)
ping_pong_kernel(const int* num_steps, int* log, unsigned* state, unsigned* worked) {
    __shared__ Shared shared;
    const int consumer = threadIdx.x / CONSUMER_THREADS, thread = threadIdx.x % CONSUMER_THREADS;
    if (consumer == 0) shared.state[thread] = thread;
    if (threadIdx.x == 0) shared.num_turns = 0;
    __syncthreads();  // separates the first contents from the first turn
    unsigned number = threadIdx.x;
    int max_steps = 0;
    for (int other = 0; other < NUM_CONSUMERS; ++other) max_steps = max(max_steps, num_steps[other]);

    // BEGIN SOLUTION
    const int own_turn = 1 + consumer, next_turn = 1 + (consumer + 1) % NUM_CONSUMERS;  // 0 is __syncthreads
    const bool is_last = consumer == NUM_CONSUMERS - 1;
    if (is_last && max_steps > 0) named_barrier_arrive(next_turn, 2 * CONSUMER_THREADS);  // consumer 0 begins
    for (int round = 0; round < max_steps; ++round) {
        named_barrier_sync(own_turn, 2 * CONSUMER_THREADS);
        if (round < num_steps[consumer]) number = take_turn(shared, log, consumer, round, thread, number);
        const bool someone_waits = !is_last || round + 1 < max_steps;
        if (someone_waits) named_barrier_arrive(next_turn, 2 * CONSUMER_THREADS);
        if (round < num_steps[consumer]) number = work(number, round);
    }
    // END SOLUTION

    __syncthreads();  // separates the last turn from the reads of what the turns have left
    if (consumer == 0) state[thread] = shared.state[thread];
    worked[threadIdx.x] = number;
}
