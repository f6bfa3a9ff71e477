/* Toft: a memory allocator in which every call site gets its own plot of memory.
 *
 * Programs need nothing of this header to run on Toft: libtoft.so replaces malloc and its family,
 * declared in <stdlib.h> and <malloc.h>, by LD_PRELOAD or by linking with -ltoft. What is declared
 * here comes on top. All functions are safe from any thread.
 */
#ifndef TOFT_H
#define TOFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, such as "0.1.0". A constant string, never NULL. */
const char *toft_version(void);

/* Writes the allocator's figures (live blocks and bytes, slabs, call sites) to a file descriptor as
 * one line of JSON. Bytes are usable bytes; "allocated" counts since the start. Allocates nothing.
 * Returns 0, or -1 when no allocator could be started or the descriptor does not take the line. */
int toft_stats_json(int fd);

/* Writes who has how much memory, and has ever had, by call site, to a file descriptor, in the form that `toft report`
 * reads. Allocates nothing. Returns 0; or -1 when no allocator could be started, when another thread writes a profile just then, where
 * there may be a filter of system calls (seccomp), or when the descriptor does not take all of it. */
int toft_profile(int fd);

/* Writes the process's figures to a file descriptor in Prometheus' text format: the metrics that `toft metrics PID` writes,
 * with the places of call sites in their files in place of the names of functions (docs/metrics.md). Allocates nothing.
 * Returns 0, or -1 as toft_profile does. A pipe or socket without a reader raises SIGPIPE, as any write does; one whose
 * reader stalls holds up other profiles: for a client that is not trusted write to a memfd_create, and send that. */
int toft_metrics(int fd);

/* Gives back to the system everything of the whole process that holds no live block: pages of free
 * memory in every thread's slabs, whatever those threads are doing, empty slabs, and free large
 * blocks. Memory is had again when it is needed, at the price of page faults. malloc_trim(0) does the
 * same. Returns the number of bytes of pages that went: at most that much less is resident. Never
 * fails; leaves errno alone. */
size_t toft_purge(void);

/* Where the environment said TOFT_COMPACT=1 at the start: lets slabs of one call site and size that are at
 * most half full share pages, where their blocks do not overlap. Addresses and contents stay what they are,
 * and other threads go on. Returns the number of bytes of pages that this has saved, by calculation; 0 where
 * it is not allowed or not possible. What must not be done with such memory is in docs/compaction.md. */
size_t toft_compact(void);

/* Sends live memory out to swap that nobody has used since the previous call: slabs and large blocks
 * in which nothing was allocated or freed, and of these the pages that nobody has written to. It is
 * all still there, and comes back page by page when it is touched. The first call only takes note.
 * What is only read goes out once; having come back, it is left alone for the next call or two, and
 * for twice as many each time. Returns the number of bytes that went: 0 where there is no swap (then
 * the kernel is told which pages may go first, once there is), where the kernel does not tell of
 * pages (before Linux 6.7), where there may be a filter of system calls (seccomp), or while another thread is
 * in this. Keeps one descriptor open. Never fails; leaves errno alone. */
size_t toft_pageout_cold(void);

/* Verifies the whole heap, of every thread, while they go on: the allocator's own tables; with TOFT_FILL=free, and in the
 * hardened build, what was left in freed blocks; in the hardened build, what lies beside large blocks. What is wrong is
 * named on stderr and ends the process (TOFT_ON_MISUSE=warn: -1 is returned). Returns 0 when nothing is wrong. */
int toft_verify(void);

/* As malloc, calloc, aligned_alloc and realloc, with a number of the program's own in place of the call site:
 * blocks of one token are of one partition, wherever they are asked for. Where sites are exact (TOFT_SITES=exact) no
 * other token and no call site has that partition, for numbers below 2^47; otherwise it is chosen by the secret
 * hash. Such blocks are freed by free. */
void *toft_malloc_at(size_t size, uint64_t token);
void *toft_calloc_at(size_t count, size_t size, uint64_t token);
void *toft_aligned_alloc_at(size_t alignment, size_t size, uint64_t token);
void *toft_realloc_at(void *ptr, size_t size, uint64_t token);

/* Looks for dangling pointers: words of the program's memory that lead into blocks which were freed. Each is named on
 * stderr, at most 32 of them, and in the file of TOFT_REPORT_FILE, all; nothing ends. Returns how many there are. It is a
 * conservative look, and other threads go on meanwhile: docs/dangling.md. Allocates nothing. */
size_t toft_dangling(void);

/* Frees a block for good: as free, and its address is never handed out again. What it held is overwritten with zeros, and
 * pages on which there is nothing else go back to the system. A free of it later on is a double free and named. Its slab's
 * other blocks are used as before; the slab is never given up. NULL does nothing. Leaves errno alone. */
void toft_free_permanently(void *ptr);

/* Private zones: memory apart from all other, which goes at once when the zone is destroyed (docs/zones.md).
 *
 * A zone is used by any number of threads; calls about one zone wait for each other, and never for malloc, nor malloc
 * for them. A handle is checked in each call: zero, one of a zone that was destroyed, or one that was made up is named
 * on stderr and ends the process, as is a bad pointer. (TOFT_ON_MISUSE=warn: the call fails with EINVAL instead.) A
 * signal handler may make and use zones of its own; in a call about the very zone that it has interrupted one
 * about, allocation fails with EDEADLK, and anything else is named. */
typedef uint64_t toft_zone;

/* Pointers into the zone can have tags: see toft_zone_tag. */
#define TOFT_ZONE_TAGGED 1u

struct toft_zone_stats {
    uint64_t live_blocks, live_bytes; /* what the program has; usable bytes */
    uint64_t allocations;             /* blocks ever handed out */
    uint64_t mapped_bytes;            /* addresses; what was never touched is not resident */
    uint64_t object_bytes;            /* of each object, where the zone is of one kind; else 0 */
    int name_is_shown;                /* whether /proc/PID/maps shows "[anon:toft zone NAME]" */
    char name[64];
};

/* Makes a zone. The name may be NULL; 63 bytes of it are kept, and what the kernel takes in no name is a dot there.
 * /proc/PID/maps shows it where the kernel knows names (5.17 with CONFIG_ANON_VMA_NAME) and no filter of system
 * calls may forbid that; name_is_shown says whether. Returns 0 and sets errno where there is no memory. */
toft_zone toft_zone_create(const char *name);

/* The same; with `object` not 0 for objects of that size alone: anything larger is refused (EINVAL). */
toft_zone toft_zone_create_with(const char *name, size_t object, unsigned flags);

/* As malloc, calloc and aligned_alloc, from the zone. NULL and errno on failure: ENOMEM, EINVAL, EDEADLK. */
void *toft_zone_malloc(toft_zone zone, size_t size);
void *toft_zone_calloc(toft_zone zone, size_t count, size_t size);
void *toft_zone_aligned_alloc(toft_zone zone, size_t alignment, size_t size);

/* Takes back a block of this zone; nothing else does. NULL is no block, and no mistake. Leaves errno alone. */
void toft_zone_free(toft_zone zone, void *ptr);

/* As malloc_usable_size. */
size_t toft_zone_usable_size(toft_zone zone, const void *ptr);

/* Verifies the zone's tables and, in the hardened build, that nobody has written to what is free. What is wrong is named
 * and ends the process. Returns 0, or -1. */
int toft_zone_verify(toft_zone zone);

/* Ends the zone and every block in it: each access through a pointer that is left faults, and its addresses are
 * nobody's. Returns 0, or -1. */
int toft_zone_destroy(toft_zone zone);

/* Gives the zone another name. Returns 0, or -1. */
int toft_zone_rename(toft_zone zone, const char *name);

/* Writes the zone's figures. Returns 0, or -1. */
int toft_zone_stats(toft_zone zone, struct toft_zone_stats *stats);

/* Software pointer tags, for zones made with TOFT_ZONE_TAGGED: toft_zone_tag makes a word of a pointer into a live
 * block and the block's tag, which is in the top byte; toft_zone_resolve makes the pointer of the word again. A
 * block's tag changes when it is freed: a word of before that is named as a use after free and ends the process
 * (TOFT_ON_MISUSE=warn: NULL and EINVAL). Words can be kept, compared and moved within their block by addition.
 * A tag comes round when its block was freed 255 times. Without a lock; costs some nanoseconds. */
uint64_t toft_zone_tag(const void *ptr);
void *toft_zone_resolve(uint64_t tagged);

/* C23, for headers that lack them: free a block whose size (and alignment) the caller knows. */
void free_sized(void *ptr, size_t size);
void free_aligned_sized(void *ptr, size_t alignment, size_t size);

#ifdef __cplusplus
}
#endif

#endif
