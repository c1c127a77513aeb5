/* ethosu_functional.h: a functional model of Ethos-U with the interface of Arm's driver, as its
 * header ethosu_driver.h declares it.  penstock's interpreter of command streams computes; see
 * ethosu_functional.c.  For tests without hardware. */
#ifndef ETHOSU_FUNCTIONAL_H
#define ETHOSU_FUNCTIONAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ETHOSU_CACHE_LINE_BYTES 32 /* addresses and sizes of regions are multiples of it */
#define ETHOSU_REGIONS 8           /* the most regions of a submission */

/* A stream to be executed: its address and size, and those of the regions, unused ones 0. */
struct ethosu_functional_job {
    uint64_t stream, bytes;
    uint64_t bases[ETHOSU_REGIONS], sizes[ETHOSU_REGIONS];
};

struct ethosu_driver {
    struct ethosu_functional_job job;
    uint64_t fast_memory, fast_memory_size;
    int result;
    bool reserved, running;
};

int ethosu_init(struct ethosu_driver *drv, void *base_address, const void *fast_memory,
                size_t fast_memory_size, uint32_t secure_enable, uint32_t privilege_enable);
void ethosu_deinit(struct ethosu_driver *drv);

/* Without a driver that was initialised, the result is one without fast memory.  NULL if all are
 * reserved; Arm's driver would wait. */
struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *drv);

/* These return 0 on success, a negative number otherwise.  `ethosu_invoke_async` executes the
 * stream; `ethosu_wait` returns its result. */
int ethosu_invoke_async(struct ethosu_driver *drv, const void *custom_data_ptr,
                        int custom_data_size, uint64_t *base_addr, const size_t *base_addr_size,
                        int num_base_addr, void *user_arg);
int ethosu_wait(struct ethosu_driver *drv, bool block);
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, int custom_data_size,
                     uint64_t *base_addr, const size_t *base_addr_size, int num_base_addr,
                     void *user_arg);

/* Executes a stream; returns 0 on success.  A simulator of the processor may execute it instead
 * when this function is called. */
int ethosu_functional_execute(const struct ethosu_functional_job *job);

#ifdef __cplusplus
}
#endif

#endif
