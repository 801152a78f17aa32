// <cuda_fp16.h> of the SIMT machine: __half, __half2 and their functions. See simt/fp16.h.
#pragma once
#include "simt/fp16.h"
using namespace simt_fp16;
