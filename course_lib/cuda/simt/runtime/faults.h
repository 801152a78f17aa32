// Signals: a crash of a kernel, the time limit and Ctrl-C end the launch, not the process. Called by machine.cpp.
#pragma once

namespace simt {

void install_signal_handlers();  // for the process, at the start of a launch
void restore_signal_handlers();  // those of before, at its end
void start_watchdog();           // for the calling worker: alternate signal stack and a timer
void stop_watchdog();

}  // namespace simt
