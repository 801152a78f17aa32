// assert of device code: ends the launch with a finding, never the process. Included again after a change of NDEBUG.
#undef assert
#if defined(NDEBUG)
#define assert(expression) (static_cast<void>(0))
#else
#define assert(expression) ((expression) ? static_cast<void>(0) : simt_assert_fail(#expression, __FILE__, __LINE__))
#endif
