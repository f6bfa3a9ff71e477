/* Toft: a memory allocator that checks every free, returns idle memory, and shows which call site
 * holds it.
 *
 * A program needs nothing from this header to run on Toft. libtoft.so replaces malloc and its
 * family, declared in <stdlib.h> and <malloc.h>, through LD_PRELOAD or by linking with -ltoft. This
 * header declares additional functions. All of them are thread-safe.
 */
#ifndef TOFT_H
#define TOFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the library's version, such as "0.1.0". The string is constant and never NULL. */
const char *toft_version(void);

/* Writes the allocator's statistics (live blocks and bytes, slabs, call sites) to a file descriptor
 * as one line of JSON. Bytes are usable bytes; "allocated" counts since the start. Does not
 * allocate. Returns 0, or -1 if the allocator cannot start or the line cannot be written. */
int toft_stats_json(int fd);

/* Writes live memory and all allocated memory, by call site, to a file descriptor, in the format
 * that `toft report` reads. Does not allocate. Returns 0. Returns -1 if the allocator cannot start,
 * if another thread is writing a profile, if there may be a filter of system calls (seccomp), or if
 * the profile cannot be written completely. */
int toft_profile(int fd);

/* Writes the process's metrics to a file descriptor in Prometheus' text format. They are those of
 * `toft metrics PID`, but call sites have their file and offset instead of a function name
 * (docs/metrics.md). Does not allocate. Returns 0, or -1 as toft_profile does. A pipe or socket
 * without a reader raises SIGPIPE, as any write does. A reader that stalls blocks other profiles:
 * for a client that is not trusted, write to a file of memfd_create, and send its content. */
int toft_metrics(int fd);

/* Returns to the OS all memory of the process that holds no live block: free pages in every
 * thread's slabs, whatever those threads are doing, empty slabs, and free large blocks. The slots
 * that other threads allocate next keep their pages (docs/memory.md, term C). Later allocations get
 * memory again, at the cost of page faults. malloc_trim(0) does the same if enough was freed since
 * the last purge (docs/abi.md). Returns the number of bytes of pages returned: resident memory
 * falls by at most that. Never fails. Preserves errno. */
size_t toft_purge(void);

/* Lets slabs of one call site and size that are at most half full share pages, if their blocks do
 * not overlap. Needs TOFT_COMPACT=1 in the environment at the start. Addresses and contents do not
 * change, and other threads continue to run. Returns the number of bytes of pages that this call
 * has saved, by calculation; 0 if compaction is not allowed or not possible. docs/compaction.md
 * lists what must not be done with such memory. */
size_t toft_compact(void);

/* Pages out to swap live memory that was not used since the previous call: pages without a write,
 * in slabs and large blocks without an allocation or a free. The contents stay, and each page is
 * read back when it is touched. The first call only records the state. A page that is only read is
 * paged out once; after it was read back, the next one or two calls skip it, and that number
 * doubles each time.
 *
 * Returns the number of bytes paged out. Returns 0 if there is no swap; then the kernel is advised
 * which pages to reclaim first once there is. Also returns 0 if the kernel does not report written
 * pages (before Linux 6.7), if there may be a filter of system calls (seccomp), or while another
 * thread is in this function. Keeps one descriptor open. Never fails. Preserves errno. */
size_t toft_pageout_cold(void);

/* Verifies the heap of all threads while they run: the allocator's tables; with TOFT_FILL=free and
 * in the full secure build, the contents of freed blocks; in both secure builds, the bytes beside
 * all blocks. An error is reported on stderr and ends the process (TOFT_ON_MISUSE=warn: -1 is
 * returned). Returns 0 if there is no error. Not for a signal handler that may have interrupted
 * malloc or free, which looks like damage. */
int toft_verify(void);

/* malloc, calloc, aligned_alloc and realloc with a token: a number that the program passes in place
 * of the call site. Blocks of one token are in one partition, wherever they are allocated. With
 * exact sites (TOFT_PARTITIONS=exact), no other token and no call site has that partition, for tokens
 * below 2^47. Otherwise the secret hash chooses the partition. free frees such blocks. */
void *toft_malloc_at(size_t size, uint64_t token);
void *toft_calloc_at(size_t count, size_t size, uint64_t token);
void *toft_aligned_alloc_at(size_t alignment, size_t size, uint64_t token);
void *toft_realloc_at(void *ptr, size_t size, uint64_t token);

/* Searches for dangling pointers: words in the program's memory that point into freed blocks.
 * Reports at most 32 of them on stderr, and all in the file that TOFT_REPORT names. The process goes
 * on. Returns the number of dangling pointers. The scan is conservative, and other threads run
 * meanwhile (docs/dangling.md). Does not allocate. */
size_t toft_dangling(void);

/* Frees a block, and never hands out its address again. The contents are overwritten with zeros,
 * and pages that hold nothing else are returned to the OS. A later free of the pointer is reported
 * as a double free. Other blocks of the slab are used as before; the slab is never released. NULL
 * has no effect. Preserves errno. */
void toft_free_permanently(void *ptr);

/* Private zones: separate memory, all of which is freed when the zone is destroyed (docs/zones.md).
 *
 * Any number of threads may use a zone. Calls for one zone wait for each other. They never wait for
 * malloc, and malloc never waits for them. Each call checks the handle. Zero, the handle of a
 * destroyed zone, and an invented handle are reported on stderr and end the process, as does a bad
 * pointer. (TOFT_ON_MISUSE=warn: the call fails with EINVAL instead.)
 *
 * A signal handler may create and use its own zones. If it interrupts a call for a zone and uses
 * that very zone, allocation fails with EDEADLK, and any other call is reported. */
typedef uint64_t toft_zone;

/* Allows tags in pointers into the zone: see toft_zone_tag. */
#define TOFT_ZONE_TAGGED 1u

struct toft_zone_stats {
    uint64_t live_blocks, live_bytes; /* live blocks, and their usable bytes */
    uint64_t allocations;             /* number of all allocations */
    uint64_t mapped_bytes;            /* address space; untouched pages are not resident */
    uint64_t object_bytes;            /* size of each object, in a zone for one size; else 0 */
    int name_is_shown;                /* true if /proc/PID/maps shows "[anon:toft zone NAME]" */
    char name[64];
};

/* Creates a zone. The name may be NULL. Its first 63 bytes are kept, with a dot for each character
 * that the kernel does not allow in a name. /proc/PID/maps shows the name if the kernel has names
 * (5.17 with CONFIG_ANON_VMA_NAME) and no filter of system calls may forbid them; name_is_shown is
 * true if so. Returns 0 and sets errno if there is no memory. */
toft_zone toft_zone_create(const char *name);

/* Creates a zone with flags. If `object` is not 0, the zone is for objects of that size only: a
 * larger request fails with EINVAL. */
toft_zone toft_zone_create_with(const char *name, size_t object, unsigned flags);

/* malloc, calloc and aligned_alloc from the zone. On failure they return NULL and set errno to
 * ENOMEM, EINVAL or EDEADLK. */
void *toft_zone_malloc(toft_zone zone, size_t size);
void *toft_zone_calloc(toft_zone zone, size_t count, size_t size);
void *toft_zone_aligned_alloc(toft_zone zone, size_t alignment, size_t size);

/* Frees a block of this zone. No other function frees such a block. NULL has no effect. Preserves
 * errno. */
void toft_zone_free(toft_zone zone, void *ptr);

/* Returns the usable size of a block, as malloc_usable_size does. */
size_t toft_zone_usable_size(toft_zone zone, const void *ptr);

/* Verifies the zone's tables and, in the secure build, that free memory was not written to. An
 * error is reported and ends the process. Returns 0, or -1. */
int toft_zone_verify(toft_zone zone);

/* Destroys the zone and frees every block in it. Each access through a remaining pointer faults,
 * and the addresses are not in use. Returns 0, or -1. */
int toft_zone_destroy(toft_zone zone);

/* Renames the zone. Returns 0, or -1. */
int toft_zone_rename(toft_zone zone, const char *name);

/* Writes the zone's statistics to `stats`. Returns 0, or -1. */
int toft_zone_stats(toft_zone zone, struct toft_zone_stats *stats);

/* Software pointer tags, for zones created with TOFT_ZONE_TAGGED. toft_zone_tag returns a word of a
 * pointer into a live block and the block's tag, which is in the top byte. toft_zone_resolve
 * returns the pointer of such a word. A block's tag changes when the block is freed: an earlier
 * word is reported as a use after free and ends the process (TOFT_ON_MISUSE=warn: NULL and EINVAL).
 * Words can be stored, compared, and moved within their block by addition. A tag repeats after its
 * block was freed 255 times. Both calls take no lock and cost some nanoseconds. */
uint64_t toft_zone_tag(const void *ptr);
void *toft_zone_resolve(uint64_t tagged);

/* The C23 functions, for systems whose headers lack them: free a block whose size (and alignment)
 * the caller knows. */
void free_sized(void *ptr, size_t size);
void free_aligned_sized(void *ptr, size_t alignment, size_t size);

#ifdef __cplusplus
}
#endif

#endif
