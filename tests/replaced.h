/* Two libraries with a wrapper of malloc at the same place, of which the frames differ in size: wrap(size, word) puts
 * the word where the first one's return address would lie, in the second one. */
#include <stddef.h>

void *wrap(size_t size, long word);

#define WRAP(frame, place)                                                                         \
    __asm__(".text\n"                                                                              \
            ".globl wrap\n"                                                                        \
            ".type wrap, @function\n"                                                              \
            "wrap:\n"                                                                              \
            ".cfi_startproc\n"                                                                     \
            ".byte 0x48, 0x81, 0xec\n" /* sub rsp, imm32 */                                        \
            ".long " #frame "\n"                                                                   \
            ".cfi_adjust_cfa_offset " #frame "\n"                                                  \
            ".byte 0x48, 0x89, 0xb4, 0x24\n" /* mov [rsp + disp32], rsi */                         \
            ".long " #place "\n"                                                                   \
            "call malloc@plt\n"                                                                    \
            ".byte 0x48, 0x81, 0xc4\n" /* add rsp, imm32 */                                        \
            ".long " #frame "\n"                                                                   \
            ".cfi_adjust_cfa_offset -" #frame "\n"                                                 \
            "ret\n"                                                                                \
            ".cfi_endproc\n"                                                                       \
            ".size wrap, . - wrap\n")
