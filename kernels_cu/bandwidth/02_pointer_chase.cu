// 02_pointer_chase — how long does one load take? One thread follows a chain in which each number names the next place
//
// Idea      no load can begin before the one before it has arrived, so time over steps is the latency
// Contract  next (any,) int, next[i] the place after i · out (2,) long long: clock cycles, last place · num_steps >= 1
//           the chain is walked twice; the first walk brings it into the nearest memory that can hold it
// Launch    grid 1 · block 1 · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton: a program is never a single thread
// Source    H. Wong et al., "Demystifying GPU Microarchitecture through Microbenchmarking", ISPASS 2010, section III

extern "C" __global__ void pointer_chase_kernel(const int* next, long long* out, int num_steps) {
    int place = 0;
    for (int step = 0; step < num_steps; ++step) place = next[place];
    // region: chase
    const long long start = clock64();
    for (int step = 0; step < num_steps; ++step) place = next[place];
    const long long cycles = clock64() - start;
    // endregion
    out[0] = cycles;
    out[1] = place;
}
