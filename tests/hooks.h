/* Memory hooks, as libraries for MPI and RDMA install them, and a cache of registrations that the
 * hooks keep. A registration is a range of a block; it is stale if one of its pages has gone and no
 * hook has seen it. */
#ifndef TOFT_TESTS_HOOKS_H
#define TOFT_TESTS_HOOKS_H

#include "common.h"
#include <elf.h>
#include <link.h>
#include <sched.h>
#include <sys/syscall.h>

/* The system call itself: libc's functions may be patched. */
static long raw(long number, long a, long b, long c, long d, long e)
{
    long result;
#if defined __x86_64__
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
#else
#error "hooks.h patches code of x86-64 only"
#endif
    if (result < 0 && result >= -4095) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

/* -- registrations -- */

enum { REGISTRATIONS = 192, SAMPLES = 4, PAGE = 4096 };

static struct registration {
    uintptr_t start;
    size_t len;
} registrations[REGISTRATIONS];
static int registrations_next, registry_taken;
static long events, stale, registered, nested, foreign;
static int pagemap = -1;

static void take_registry(void)
{
    while (__atomic_exchange_n(&registry_taken, 1, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void leave_registry(void)
{
    __atomic_store_n(&registry_taken, 0, __ATOMIC_RELEASE);
}

/* Whether a page is in memory or in swap. */
static int is_there(uintptr_t address)
{
    uint64_t entry = 0;
    CHECK(raw(SYS_pread64, pagemap, (long)&entry, 8, (long)(address / PAGE * 8), 0) == 8);
    return entry >> 62 != 0;
}

static void open_pagemap(void)
{
    pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    CHECK(pagemap >= 0);
}

/* Counts the registrations that have lost a page unseen, and forgets them. */
HELPER void find_stale(void)
{
    take_registry();
    for (int i = 0; i < REGISTRATIONS; i++) {
        struct registration *r = &registrations[i];
        for (size_t k = 0; r->len != 0 && k <= SAMPLES; k++) {
            uintptr_t at = k == SAMPLES ? r->start + r->len - 1 : r->start + r->len / SAMPLES * k;
            if (!is_there(at)) {
                stale++;
                r->len = 0;
            }
        }
    }
    leave_registry();
}

/* Registers a block that has been written to. */
HELPER void register_block(void *block, size_t len)
{
    uintptr_t start = (uintptr_t)block / PAGE * PAGE, end = (uintptr_t)block + len;
    take_registry();
    registrations[registrations_next] = (struct registration){start, end - start};
    registrations_next = (registrations_next + 1) % REGISTRATIONS;
    registered++;
    leave_registry();
}

/* -- what a hook does -- */

static int allocates;
static __thread int in_hook;
static __thread long thread_number;

static void use_block(size_t size, size_t grown)
{
    char *block = malloc(size), *larger = NULL;
    if (block) {
        memset(block, 1, size);
        larger = realloc(block, grown);
    }
    /* Only a limit of the test may refuse it. */
    CHECK(larger || getenv("TOFT_LIMIT"));
    CHECK(!larger || (larger[0] == 1 && larger[size - 1] == 1));
    free(larger ? larger : block);
}

/* The pages of a range are about to go. */
static void seen(void *address, size_t len)
{
    uintptr_t start = (uintptr_t)address, end = start + len;
    long number = raw(SYS_gettid, 0, 0, 0, 0, 0);
    if (thread_number == 0)
        thread_number = number;
    /* A thread that libc does not know has the thread-local storage of another. */
    if (thread_number != number)
        __atomic_add_fetch(&foreign, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&events, 1, __ATOMIC_RELAXED);
    take_registry();
    for (int i = 0; i < REGISTRATIONS; i++) {
        struct registration *r = &registrations[i];
        if (r->len != 0 && r->start < end && start < r->start + r->len)
            r->len = 0;
    }
    leave_registry();
    if (in_hook)
        __atomic_add_fetch(&nested, 1, __ATOMIC_RELAXED);
    if (in_hook || !allocates)
        return;
    in_hook = 1;
    /* In every tier, with what grows and what calls a hook in turn. */
    use_block(40, 5000);
    use_block(300 << 10, 3 << 20);
    in_hook = 0;
}

static int hook_munmap(void *address, size_t len)
{
    seen(address, len);
    errno = 1234; /* a hook need not keep it */
    return (int)raw(SYS_munmap, (long)address, (long)len, 0, 0, 0);
}

static int hook_madvise(void *address, size_t len, int advice)
{
    if (advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE)
        seen(address, len);
    errno = 1235;
    return (int)raw(SYS_madvise, (long)address, (long)len, advice, 0, 0);
}

/* With four arguments, as UCX has it: a fifth one is lost. */
static void *hook_mremap(void *address, size_t len, size_t new_len, int flags)
{
    seen(address, len);
    errno = 1236;
    return (void *)raw(SYS_mremap, (long)address, (long)len, (long)new_len, flags, 0xdead000);
}

/* Prepares the child of a fork, which has another thread number and separate pages. */
HELPER void begin_child(void)
{
    thread_number = 0;
    stale = foreign = 0;
    close(pagemap);
    open_pagemap();
}

/* -- how hooks are installed -- */

static const struct hook {
    const char *name;
    void *function;
} hooks[] = {
    {"munmap", (void *)hook_munmap},
    {"madvise", (void *)hook_madvise},
    {"mremap", (void *)hook_mremap},
};
enum { HOOKS = sizeof hooks / sizeof *hooks };

static void allow(uintptr_t start, size_t len, int rights)
{
    uintptr_t first = start / PAGE * PAGE, end = (start + len + PAGE - 1) / PAGE * PAGE;
    CHECK(raw(SYS_mprotect, (long)first, (long)(end - first), rights, 0, 0) == 0);
}

/* Patches the first instructions of libc's functions: `movabs r11, hook; jmp r11`. */
static void patch_code(void)
{
    for (int i = 0; i < HOOKS; i++) {
        unsigned char code[13] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3};
        memcpy(code + 2, &hooks[i].function, 8);
        unsigned char *at = dlsym(RTLD_DEFAULT, hooks[i].name);
        CHECK(at);
        allow((uintptr_t)at, sizeof code, PROT_READ | PROT_WRITE | PROT_EXEC);
        memcpy(at, code, sizeof code);
        allow((uintptr_t)at, sizeof code, PROT_READ | PROT_EXEC);
    }
}

static void patch_entries(ElfW(Addr) base, ElfW(Addr) table, size_t bytes, ElfW(Sym) *symbols,
                          const char *names)
{
    const ElfW(Rela) *entries = (void *)table;
    for (size_t i = 0; i < bytes / sizeof *entries; i++)
        for (int k = 0; k < HOOKS; k++) {
            const char *name = names + symbols[ELF64_R_SYM(entries[i].r_info)].st_name;
            if (strcmp(name, hooks[k].name) != 0)
                continue;
            void **entry = (void **)(base + entries[i].r_offset);
            allow((uintptr_t)entry, sizeof *entry, PROT_READ | PROT_WRITE);
            __atomic_store_n(entry, hooks[k].function, __ATOMIC_RELAXED);
        }
}

static int patch_object(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size, (void)argument;
    ElfW(Addr) values[DT_NUM] = {0};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        const ElfW(Dyn) *entry = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; entry++)
            if (entry->d_tag < DT_NUM)
                values[entry->d_tag] = entry->d_un.d_val;
    }
    /* The kernel's own object has offsets in place of addresses, and calls nothing. */
    if (values[DT_SYMTAB] < info->dlpi_addr || strstr(info->dlpi_name, "vdso"))
        return 0;
    ElfW(Sym) *symbols = (void *)values[DT_SYMTAB];
    const char *names = (const char *)values[DT_STRTAB];
    patch_entries(info->dlpi_addr, values[DT_JMPREL], values[DT_PLTRELSZ], symbols, names);
    patch_entries(info->dlpi_addr, values[DT_RELA], values[DT_RELASZ], symbols, names);
    return 0;
}

#ifdef DEFINED
/* A program that defines the functions itself. */
int munmap(void *address, size_t len)
{
    return hook_munmap(address, len);
}

int madvise(void *address, size_t len, int advice)
{
    return hook_madvise(address, len, advice);
}

void *mremap(void *address, size_t len, size_t new_len, int flags, ...)
{
    return hook_mremap(address, len, new_len, flags);
}
#endif

/* Installs hooks: `code`, `table`, or `none`; `defined` are there already. */
HELPER void install_hooks(const char *how)
{
    allocates = 1;
    open_pagemap();
    if (!strcmp(how, "code"))
        patch_code();
    else if (!strcmp(how, "table"))
        dl_iterate_phdr(patch_object, NULL);
    else
        CHECK(!strcmp(how, "none") || !strcmp(how, "defined"));
}

#endif
