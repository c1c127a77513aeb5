/* ethosu_submit.h: passes command streams to Arm's driver for Ethos-U.
 *
 * A stream has the format of `ethosu_invoke_v3`: "COP1", the configuration that it was compiled
 * for, and register commands.  The commands address memory as offsets into regions; base k is the
 * address of region k.  Streams, weights and tensors are aligned to 16 bytes.  Source: Arm's
 * ethos-u-core-driver, ethosu_driver.h. */
#ifndef ETHOSU_SUBMIT_H
#define ETHOSU_SUBMIT_H

#include <ethosu_driver.h>
#include <stdint.h>

/* Runs a stream of `bytes` bytes and waits for its completion.  Returns 0 on success. */
static inline int ethosu_submit(const void *stream, int32_t bytes, void *const bases[], int count)
{
    uint64_t addresses[8] = {0};
    size_t sizes[8];
    struct ethosu_driver *driver = ethosu_reserve_driver();
    int failed;
    for (int k = 0; k < count; ++k)
    {
        addresses[k] = (uint64_t)(uintptr_t)bases[k];
        sizes[k] = SIZE_MAX;
    }
    failed = ethosu_invoke_v3(driver, stream, bytes, addresses, sizes, count, NULL);
    ethosu_release_driver(driver);
    return failed;
}

#endif
