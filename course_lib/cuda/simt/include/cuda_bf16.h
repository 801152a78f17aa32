// <cuda_bf16.h> of the SIMT machine: __nv_bfloat16, __nv_bfloat162 and their functions. See simt/bf16.h.
#pragma once
#include "cuda_fp16.h"
#include "simt/bf16.h"
using namespace simt_bf16;
