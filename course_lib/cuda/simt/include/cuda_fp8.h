// <cuda_fp8.h> of the SIMT machine: __nv_fp8_e4m3, __nv_fp8_e5m2 and their conversions. See simt/fp8.h.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "simt/fp8.h"
using namespace simt_fp8;
