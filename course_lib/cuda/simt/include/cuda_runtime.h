// What it declares for device code is there without it (machine.h).
#pragma once
