/* Law 4, as a program can reckon it: what it may have resident, term by term, as docs/memory.md says under "The
 * bound". A test adds up what it has itself asked for, and asks the kernel whether more is resident; and it
 * shows that the term it is about was nearly used up, so that a bound that is dead is seen. */
#ifndef TOFT_TESTS_BOUND_H
#define TOFT_TESTS_BOUND_H

#include "../common.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* What is not ours: code and data of the program and of libraries that it touches, its stack, and
 * what of each thread's stack it touches. And of ours, what does not grow: tables, the reclaimer's
 * stack. */
enum { OWN = 640 << 10, OWN_OF_THREAD = 32 << 10 };

/* The terms, in bytes; those that a test says nothing about are zero. */
struct bound {
    size_t live;     /* pages that live blocks lie on */
    size_t claims;   /* slots that malloc hands out next */
    size_t dirty;    /* pages of free slots that wait for their next use, or for the time to pass */
    size_t kept;     /* the same, of large blocks, and their slack */
    size_t metadata; /* descriptors, heaps */
    size_t threads;
};

enum { CLASSES = 63, SMALL_MOST = 1024, MEDIUM_MOST = 128 << 10 };

/* The slot sizes, as docs/memory.md has them. */
HELPER size_t slot_of_class(int class)
{
    /* The class of 36 KiB has no slots. */
    int i = class < 55 ? class : class + 1;
    if (i < 16)
        return 16 * ((size_t)i + 1);
    if (i < 24)
        return 256 + 32 * ((size_t)i - 15);
    if (i < 32)
        return 512 + 64 * ((size_t)i - 23);
    if (i < 40)
        return ((size_t)1024 << ((i - 32) / 4)) / 4 * (5 + (size_t)(i - 32) % 4);
    if (i < 60 && i % 5 == 0)
        return ((size_t)4096 << ((i - 40) / 5)) / 8 * 9;
    if (i < 60)
        return ((size_t)4096 << ((i - 40) / 5)) / 4 * (4 + (size_t)(i - 40) % 5);
    return 65536 / 4 * (5 + (size_t)(i - 60));
}

HELPER size_t slot_of(size_t bytes)
{
    int class = 0;
    while (slot_of_class(class) < bytes)
        class++;
    return slot_of_class(class);
}

HELPER size_t whole_pages(size_t bytes)
{
    return (bytes + page_size() - 1) & ~(page_size() - 1);
}

HELPER size_t slots_of_slab(size_t slot)
{
    if (slot <= SMALL_MOST)
        return 64 * KIB / slot < 256 ? 64 * KIB / slot : 256;
    size_t slots = 256 * KIB / slot;
    return slots < 4 ? 4 : slots < 64 ? slots : 64;
}

HELPER size_t slab_bytes(size_t slot)
{
    return whole_pages(slots_of_slab(slot) * slot);
}

/* Slots of the slab that a bin gets after one of `before` slots, or first. */
HELPER size_t slots_after(size_t before, size_t slot)
{
    size_t most = slots_of_slab(slot), bytes = before ? 2 * before * slot : most * slot / 8;
    size_t slots = (bytes + 4095) / 4096 * 4096 / slot;
    return slots < 4 ? 4 : slots < most ? slots : most;
}

/* Slabs that `blocks` blocks need, if one thread has allocated them without a free in between. */
HELPER size_t slabs_for(size_t blocks, size_t slot)
{
    size_t slabs = 0, all = 0;
    for (size_t slots = 0; all < blocks; all += slots, slabs++)
        slots = slots_after(slots, slot);
    return slabs;
}

/* Bytes of the slots of those slabs. */
HELPER size_t slab_bytes_for(size_t blocks, size_t slot)
{
    size_t all = 0;
    for (size_t slots = 0; all < blocks; all += slots)
        slots = slots_after(slots, slot);
    return all * slot;
}

/* Pages of adjacent slots of `bytes` bytes together, wherever they begin. */
HELPER size_t pages_of_run(size_t bytes)
{
    return whole_pages(bytes) + page_size();
}

/* What a thread claims of one partition and class, at most. */
HELPER size_t claim_of(size_t slot)
{
    size_t slots = slots_of_slab(slot) < 64 ? slots_of_slab(slot) : 64;
    return pages_of_run(slots * slot);
}

/* Descriptors of slabs, which are side by side. */
HELPER size_t descriptors_of(size_t slabs)
{
    return pages_of_run(slabs * 512) + page_size();
}

/* A heap, if all its bins are touched. */
HELPER size_t heap_of(size_t partitions)
{
    return pages_of_run(3 * KIB + partitions * CLASSES * 16);
}

/* Empty slabs and free pages of others, where nothing else gives them back: they and what is in use may together be
 * so much larger than the most that slabs ever had in use. */
HELPER size_t room_over(size_t peak)
{
    return peak / 8 + 256 * KIB;
}

/* Exact, where statm is not: the kernel counts a page late there. */
HELPER size_t resident(void)
{
    char text[4096];
    slurp("/proc/self/smaps_rollup", text, sizeof text);
    char *line = strstr(text, "\nRss:");
    CHECK(line);
    return strtoul(line + 5, NULL, 10) * KIB;
}

static size_t resident_at_first;

/* Before anything else: the library is there, and nothing is allocated. */
HELPER void bound_begin(void)
{
    free(launder(malloc(1)));
    /* Whether there is a filter of system calls is found out once, by reading a file. */
    purge_all();
    resident();
    resident_at_first = resident();
}

HELPER size_t bound_sum(struct bound b)
{
    return b.live + b.claims + b.dirty + b.kept + b.metadata + OWN + b.threads * OWN_OF_THREAD;
}

HELPER size_t grown(void)
{
    size_t r = resident();
    return r > resident_at_first ? r - resident_at_first : 0;
}

__attribute__((noreturn)) HELPER void bound_failed(const char *stage, const char *what, size_t grew,
                                                   size_t limit)
{
    char text[300];
    int n = snprintf(text, sizeof text, "%s: %zu KiB are resident, %s %zu KiB\n", stage, grew / KIB, what,
                     limit / KIB);
    if (write(2, text, (size_t)n) < 0) {
    }
    _exit(1);
}

/* With -DSHOW a test tells how near it comes. */
HELPER void show(const char *stage, const char *is, size_t grew, size_t limit)
{
#ifdef SHOW
    fprintf(stderr, "%-40s %7zu KiB, %s %7zu\n", stage, grew / KIB, is, limit / KIB);
#else
    (void)stage, (void)is, (void)grew, (void)limit;
#endif
}

/* Now. */
HELPER void within(const char *stage, struct bound b)
{
    size_t grew = grown();
    show(stage, "most", grew, bound_sum(b));
    if (grew > bound_sum(b))
        bound_failed(stage, "which is more than", grew, bound_sum(b));
}

/* Seconds. */
#ifndef WAIT
#define WAIT 120
#endif

/* As soon as the library's thread has done what it has to do: the machine may be busy with other things. */
HELPER void comes_within(const char *stage, struct bound b)
{
    double end = now() + WAIT;
    while (grown() > bound_sum(b)) {
        if (now() > end)
            bound_failed(stage, "and it does not come down to", grown(), bound_sum(b));
        usleep(5000);
    }
    show(stage, "most", grown(), bound_sum(b));
}

/* What is resident if the term counts for half of its bound and all others for all of theirs. */
HELPER size_t half_driven(struct bound b, size_t term)
{
    return bound_sum(b) - term / 2;
}

/* The term was driven: whatever the others are, half of it is resident. */
HELPER void driven(const char *stage, struct bound b, size_t term)
{
    size_t grew = grown();
    show(stage, "least", grew, half_driven(b, term));
    if (grew < half_driven(b, term))
        bound_failed(stage, "so this drives nothing: it takes", grew, half_driven(b, term));
}

#endif
