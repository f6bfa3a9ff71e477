/* Blocks of two call sites. */
#ifndef TOFT_TESTS_TWO_SITES_H
#define TOFT_TESTS_TWO_SITES_H

#include "common.h"

NOINLINE char *take(size_t size)
{
    char *p = malloc(size);
    NO_TAIL_CALL();
    return p;
}

NOINLINE char *take_another(size_t size)
{
    char *p = malloc(size);
    NO_TAIL_CALL();
    return p;
}

#endif
