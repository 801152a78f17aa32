// attention_macros — the macros that every attention kernel is compiled with
//
// HEAD_DIM is the width of a head, ELEMENT the type of q, k, v (or of their pages) and out. What a kernel takes besides, its own
// file asks for. Included before the headers that use them. Device code only, no host headers.
#pragma once
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64 or 128"
#endif
#ifndef ELEMENT
#error "ELEMENT: type of q, k, v or their pages, and of out; pass -DELEMENT=__half or __nv_bfloat16"
#endif
