// dependent_launch — a kernel that starts before the one in front of it has ended (griddepcontrol.*)
//
// A launch with the attribute "programmatic stream serialization" may start as soon as every block of the kernel before it has
// called griddepcontrol_launch_dependents() or ended, and there is room. Until griddepcontrol_wait() returns it may read only what
// no kernel in flight writes (weights), and write nothing in global memory; afterwards everything that the kernels before it wrote
// is visible. Every kernel of such a chain waits, since "the one before has ended" includes its own wait.
// A launch without the attribute starts when the kernel before it has ended: both calls then have no effect, and so have they on
// the SIMT machine, which runs one kernel at a time, and below compute capability 9.0.
// Device code only, no host headers.
// Source    PTX ISA, "griddepcontrol"; CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"
#pragma once

// Asks for the line of an address to be brought into L2; no value depends on it.
#ifdef __CUDA_ARCH__
__device__ __forceinline__ void prefetch_l2(const void* address) { asm volatile("prefetch.global.L2 [%0];\n" ::"l"(address)); }
#else
__device__ __forceinline__ void prefetch_l2(const void*) {}
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ __forceinline__ void griddepcontrol_launch_dependents() { asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory"); }
__device__ __forceinline__ void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;\n" ::: "memory"); }
#else
__device__ __forceinline__ void griddepcontrol_launch_dependents() {}
__device__ __forceinline__ void griddepcontrol_wait() {}
#endif
