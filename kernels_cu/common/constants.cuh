// constants — numbers that every kernel of the course spells the same way. Device code only, no host headers.
#pragma once

#define WARP_SIZE 32                              // lanes of one warp
#define ALL_LANES 0xffffffffu                     // mask of a shuffle in which the whole warp takes part
#define NEG_INF (-__int_as_float(0x7f800000))     // as bits: no host header needed
#define LOG2_E 1.4426950408889634f                // exp(x) == exp2(x * LOG2_E)
#define LN_2 0.6931471805599453f                  // log(x) == log2(x) * LN_2

#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
