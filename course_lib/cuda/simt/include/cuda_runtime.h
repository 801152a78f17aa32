// <cuda_runtime.h> of the SIMT machine: empty, since machine.h declares its device-side names for every kernel.
#pragma once
