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

/* Verifies what belongs to the calling thread: the allocator's own tables of its slabs and lists, while other threads go
 * on. What is wrong is named on stderr and ends the process (TOFT_ON_MISUSE=warn: -1 is returned). Returns 0 when nothing is
 * wrong. It does not look at what is in blocks. Some microseconds for each MiB of small blocks. */
int toft_verify(void);

/* As malloc, calloc, aligned_alloc and realloc, with a number of the program's own in place of the call site:
 * blocks of one token are of one partition, wherever they are asked for. Where sites are exact (TOFT_SITES=exact) no
 * other token and no call site has that partition, for numbers below 2^47; otherwise it is chosen by the secret
 * hash. Such blocks are freed by free. */
void *toft_malloc_at(size_t size, uint64_t token);
void *toft_calloc_at(size_t count, size_t size, uint64_t token);
void *toft_aligned_alloc_at(size_t alignment, size_t size, uint64_t token);
void *toft_realloc_at(void *ptr, size_t size, uint64_t token);

/* C23, for headers that lack them: free a block whose size (and alignment) the caller knows. */
void free_sized(void *ptr, size_t size);
void free_aligned_sized(void *ptr, size_t alignment, size_t size);

#ifdef __cplusplus
}
#endif

#endif
