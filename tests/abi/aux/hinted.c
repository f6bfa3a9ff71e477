/* One call of malloc, which returns 9 bytes behind its beginning. */
__asm__(".text\n"
        ".globl hinted_site\n"
        ".type hinted_site, @function\n"
        "hinted_site:\n"
        "sub $8, %rsp\n"
        "call malloc@plt\n"
        "add $8, %rsp\n"
        "ret\n"
        ".size hinted_site, . - hinted_site\n");
