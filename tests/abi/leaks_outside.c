// Large blocks outside the windows: a block that nothing points to is lost. One to which a variable
// or another such block points is not.
// env: TOFT_LEAKS=1
// env: TOFT_REPORT=line
// stderr: toft: leaks: {size} bytes in 1 blocks, of 1 call sites; {re:2097\d\d\d bytes in [23]} blocks can still be reached
// stderr: toft:   {size} bytes in 1 blocks, from {re:.*}
// stderr: toft:   process {n}, thread {n}; {re:.*}
// libc: skip asks for the library's leaks
#include "address_space.h"
#include "two_sites.h"

enum { MIB = 1 << 20, HOLE = 64 * MIB };

static void *volatile first;

NOINLINE void allocate(const char *hole)
{
    void **block = (void **)take(MIB), *second = take(MIB), *lost = take_another(2 * MIB);
    CHECK(block && second && lost);
    CHECK((char *)block >= hole && (char *)lost < hole + HOLE);
    block[77] = second;
    first = block;
}

/* Nothing is left of what calls have had on the stack. */
NOINLINE void clear_stack(void)
{
    char bytes[64 << 10];
    memset(bytes, 0, sizeof bytes);
    launder(bytes);
}

int main(void)
{
    char *hole = (char *)((uintptr_t)1 << 36);
    announce_number("size", 2 * MIB);
    take_everything();
    make_hole(hole, HOLE);
    allocate(hole);
    give_everything_back();
    clear_stack();
    return 0;
}
