// <cooperative_groups.h> of the SIMT machine; see simt/groups.h.
#pragma once
#include "simt/groups.h"
