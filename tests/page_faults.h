/* How many page faults without a disk the process has had. */
#ifndef TOFT_TESTS_PAGE_FAULTS_H
#define TOFT_TESTS_PAGE_FAULTS_H

#include "common.h"

#include <sys/resource.h>

HELPER long page_faults(void)
{
    struct rusage used;
    CHECK(!getrusage(RUSAGE_SELF, &used));
    return used.ru_minflt;
}

#endif
