/* ethosu_submit.h: passes command streams to Arm's driver for Ethos-U.
 *
 * A stream has the format of `ethosu_invoke_v3`: "COP1", the configuration that it was compiled
 * for, and register commands.  The commands address memory as offsets into regions: region 0 holds
 * constants, which the NPU only reads, and region 1 the arena.  The driver replaces region 2 by its
 * own fast memory, so streams do not use it.  Regions begin at multiples of a cache line, and so do
 * their sizes; streams are aligned to 16 bytes.  Source: Arm's ethos-u-core-driver,
 * ethosu_driver.h.
 *
 * If the compiler finds the header of Arm's driver, that is the driver; otherwise it is the
 * functional model in ethosu_functional.c. */
#ifndef ETHOSU_SUBMIT_H
#define ETHOSU_SUBMIT_H

#if defined(__has_include)
#if __has_include(<ethosu_driver.h>)
#define ETHOSU_DRIVER_OF_ARM 1
#endif
#endif

#ifdef ETHOSU_DRIVER_OF_ARM
#include <ethosu_driver.h>
#else
#include "ethosu_functional.h"
#endif

#include <stddef.h>
#include <stdint.h>

/* Runs a stream of `bytes` bytes and waits for its completion; the region of number k consists of
 * sizes[k] bytes at bases[k], and is unused if there are none.  Returns 0 on success. */
static inline int ethosu_submit(const void *stream, int32_t bytes, void *const bases[],
                                const size_t sizes[], int count)
{
    uint64_t addresses[8] = {0};
    struct ethosu_driver *driver = ethosu_reserve_driver();
    int failed;
    for (int k = 0; k < count; ++k)
    {
        addresses[k] = (uint64_t)(uintptr_t)bases[k];
    }
    failed = ethosu_invoke_v3(driver, stream, bytes, addresses, sizes, count, NULL);
    ethosu_release_driver(driver);
    return failed;
}

#endif
