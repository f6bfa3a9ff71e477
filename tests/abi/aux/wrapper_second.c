/* The library that comes in its place. */
#include "replaced.h"

WRAP(0x108, 0x88);
