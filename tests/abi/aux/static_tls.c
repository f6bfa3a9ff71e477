/* A library that needs 1 KiB of static TLS. */
static __thread char block[1024] __attribute__((tls_model("initial-exec"))) = {1};

int static_tls_sum(void)
{
    int sum = 0;
    for (int i = 0; i < 1024; i++)
        sum += block[i] ? 1 : 1;
    return sum;
}
