/* The library that is unloaded. */
#include "replaced.h"

WRAP(0x88, 0x80);
