// <mma.h> of the SIMT machine: nvcuda::wmma. See simt/wmma.h.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "simt/wmma.h"
using namespace simt_wmma;
