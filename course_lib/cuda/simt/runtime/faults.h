// Signals: crashes of a kernel, time limits and Ctrl-C become the end of the launch, never of the process.
#pragma once

namespace simt {

void take_signals();      // for the process, at the start of a launch
void give_back_signals();
void watch_thread();      // this worker: alternate stack and watchdog
void unwatch_thread();

}  // namespace simt
