// A crash in a fiber is handled on an alternate stack and leaves by siglongjmp to the scheduler. A timer ticks on each
// worker: past the time limit, or after Ctrl-C, it leaves the kernel as soon as the interrupted instruction is the
// kernel's own. An instruction of the C library or of the runtime is never abandoned: it may hold a lock or have a
// structure half updated.
//
// Handlers use only what is async-signal-safe: atomics, plain fields of `launch`, siglongjmp.
#include "faults.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "state.h"

namespace simt {

constexpr size_t ALTERNATE_STACK_BYTES = 64 * 1024;  // a stack overflow leaves no room on the fiber's own stack
constexpr long TICK_NS = 50'000'000;  // 50 ms
constexpr int CRASHES[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};  // abort: the C library found memory overwritten
constexpr int NUM_CRASHES = sizeof(CRASHES) / sizeof(*CRASHES);

static struct sigaction old_crash[NUM_CRASHES], old_interrupt;
static struct timespec started;
static volatile sig_atomic_t interrupted;
static thread_local timer_t timer;
static thread_local stack_t old_stack;
static thread_local unsigned char* alternate_stack;

// A real-time signal. SIGRTMIN is a function call in glibc, hence no constant.
static int tick_signal() { return SIGRTMIN + 6; }

// The instruction that the signal interrupted.
static uintptr_t code_address(void* context) {
    auto* machine = &static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return static_cast<uintptr_t>(machine->gregs[REG_RIP]);
#else
    return static_cast<uintptr_t>(machine->pc);
#endif
}

// Only an instruction of the kernel's own library may be abandoned.
static bool in_kernel(uintptr_t code) {
    return code >= launch->library.code_low && code < launch->library.code_high;
}

#if defined(__x86_64__)
// A general protection fault is a wrong alignment or an address that no memory can have, and says neither which nor where.
static bool may_be_alignment(uintptr_t code) {
#if defined(__clang__)
    // Only SSE instructions on 16 bytes want alignment: 0F after 66 and REX, without the F2 or F3 of a single number. clang
    // reads single numbers by rax and its kin. g++ often takes rbp, whose faults are SIGBUS: addresses.
    auto* byte = reinterpret_cast<const unsigned char*>(code);
    while (*byte == 0x66 || (*byte & 0xf0) == 0x40) ++byte;
    bool is_unaligned_move = (byte[1] & 0xfe) == 0x10, is_extension = (byte[1] & 0xf6) == 0xb6;
    return byte[0] == 0x0f && !is_unaligned_move && !is_extension;
#else
    (void)code;
    return true;
#endif
}
#endif

// One of CRASHES. The detail tells findings.py which sentence to write.
static void on_crash(int signal_number, siginfo_t* info, void* context) {
    auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    // An overflow can also happen in the runtime, called from the end of a fiber's stack, where `current` may be null.
    bool overflow = signal_number == SIGSEGV && worker && worker->stacks->is_guard(address);
    if (!launch || !worker || (!current && !overflow)) {  // not a kernel's: the earlier handler takes it
        for (int i = 0; i < NUM_CRASHES; ++i)
            if (CRASHES[i] == signal_number) sigaction(signal_number, &old_crash[i], nullptr);
        return;
    }
    uintptr_t code = code_address(context);
    // A crash in a library function, or a call through a bad pointer: the last code address seen gives the line.
    uintptr_t relative = in_kernel(code) ? code - launch->library.base : current ? current->last_code : 0;
    const char* detail = "address";
#if defined(__x86_64__)
    if (signal_number == SIGSEGV && info->si_code == SI_KERNEL && may_be_alignment(code)) detail = "alignment";
#endif
    if (signal_number == SIGFPE) detail = "division";
    if (signal_number == SIGILL) detail = "instruction";
    if (signal_number == SIGABRT) detail = "abort";
    if (overflow) detail = "stack";
    stop_launch(Stop::kernel_fault, relative, address, detail);
}

static double seconds_since_start() {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec - started.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec - started.tv_nsec);
}

// The watchdog's tick, delivered to the worker's own thread.
static void on_tick(int, siginfo_t*, void* context) {
    if (!launch || !worker) return;
    Stop reason = Stop::none;
    if (interrupted) reason = Stop::interrupted;
    else if (launch->time_limit_s > 0 && seconds_since_start() > launch->time_limit_s) reason = Stop::time_limit;
    else if (!launch->stop.load()) return;
    uintptr_t code = code_address(context);
    if (current && in_kernel(code)) stop_launch(reason, code - launch->library.base);
    int expected = 0;  // noticed by the scheduler, by the next basic block or by the next tick
    if (reason != Stop::none) launch->stop.compare_exchange_strong(expected, static_cast<int>(reason));
}

// Ctrl-C: note it for the next tick, and let Python's own handler note it too.
static void on_interrupt(int signal_number, siginfo_t* info, void* context) {
    interrupted = 1;
    if (old_interrupt.sa_flags & SA_SIGINFO) old_interrupt.sa_sigaction(signal_number, info, context);
    else if (old_interrupt.sa_handler != SIG_DFL && old_interrupt.sa_handler != SIG_IGN) old_interrupt.sa_handler(signal_number);
}

// SA_ONSTACK: the handler runs on the alternate stack. SA_RESTART: Python's system calls are not disturbed.
static struct sigaction action(void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction result {};
    result.sa_sigaction = handler;
    result.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&result.sa_mask);
    return result;
}

void install_signal_handlers() {
    interrupted = 0;
    clock_gettime(CLOCK_MONOTONIC, &started);
    struct sigaction crash = action(on_crash), tick = action(on_tick), interrupt = action(on_interrupt);
    for (int i = 0; i < NUM_CRASHES; ++i) sigaction(CRASHES[i], &crash, &old_crash[i]);
    sigaction(tick_signal(), &tick, nullptr);
    sigaction(SIGINT, nullptr, &old_interrupt);
    if ((old_interrupt.sa_flags & SA_SIGINFO) || old_interrupt.sa_handler != SIG_DFL)  // else Ctrl-C ends the process
        sigaction(SIGINT, &interrupt, nullptr);
}

void restore_signal_handlers() {
    for (int i = 0; i < NUM_CRASHES; ++i) sigaction(CRASHES[i], &old_crash[i], nullptr);
    sigaction(SIGINT, &old_interrupt, nullptr);
    // The tick keeps its handler, which does nothing between launches: a late tick must not end the process.
}

void start_watchdog() {
    alternate_stack = new unsigned char[ALTERNATE_STACK_BYTES];
    stack_t stack{};
    stack.ss_sp = alternate_stack;
    stack.ss_size = ALTERNATE_STACK_BYTES;
    sigaltstack(&stack, &old_stack);
    struct sigevent event {};
    event.sigev_notify = SIGEV_THREAD_ID;  // to this worker, whose kernel is to be left
    event.sigev_signo = tick_signal();
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    struct itimerspec every {};
    every.it_value.tv_nsec = every.it_interval.tv_nsec = TICK_NS;
    timer_settime(timer, 0, &every, nullptr);
}

void stop_watchdog() {
    timer_delete(timer);
    sigaltstack(&old_stack, nullptr);
    delete[] alternate_stack;
}

}  // namespace simt
