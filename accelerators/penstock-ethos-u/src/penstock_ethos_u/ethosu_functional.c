/* ethosu_functional.c: a functional model of Ethos-U with the interface of Arm's driver.
 *
 * Checks what Arm's driver and the hardware require of a submission.  On a POSIX system, a Python
 * process executes the stream and checks its accesses: `python3 -m penstock_ethos_u.functional`, or
 * the Python that the environment variable PENSTOCK_PYTHON names.  On a simulated processor, the
 * simulator does.  Compiles to nothing beside Arm's driver. */
#if !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif
#include "ethosu_submit.h"

#ifndef ETHOSU_DRIVER_OF_ARM

#include <string.h>

#define FAST_MEMORY_REGION 2
#define STREAM_ALIGNMENT 16

#if defined(__unix__) || defined(__APPLE__)
#include <stdio.h>
#define REFUSE(text, k) \
    (fprintf(stderr, "ethosu_functional: region %d (-1: the stream): %s\n", k, text), -1)
#else
#define REFUSE(text, k) ((void)(k), -1)
#endif

static struct ethosu_driver *registered;

int ethosu_init(struct ethosu_driver *drv, void *base_address, const void *fast_memory,
                size_t fast_memory_size, uint32_t secure_enable, uint32_t privilege_enable)
{
    (void)base_address;
    (void)secure_enable;
    (void)privilege_enable;
    if (drv == NULL)
    {
        return -1;
    }
    memset(drv, 0, sizeof *drv);
    drv->fast_memory = (uint64_t)(uintptr_t)fast_memory;
    drv->fast_memory_size = fast_memory_size;
    registered = drv;
    return 0;
}

void ethosu_deinit(struct ethosu_driver *drv)
{
    if (registered == drv)
    {
        registered = NULL;
    }
}

struct ethosu_driver *ethosu_reserve_driver(void)
{
    static struct ethosu_driver own;
    struct ethosu_driver *drv = registered != NULL ? registered : &own;
    if (drv->reserved)
    {
        return NULL;
    }
    drv->reserved = true;
    return drv;
}

void ethosu_release_driver(struct ethosu_driver *drv)
{
    if (drv != NULL)
    {
        drv->reserved = false;
    }
}

/* What Arm's driver checks, and what its cache maintenance and the bus require. */
static int checked(const struct ethosu_functional_job *job, int count)
{
    if (job->bytes < 4 || job->bytes % 4 != 0)
    {
        return REFUSE("its size is no multiple of 4", -1);
    }
    if (job->stream % STREAM_ALIGNMENT != 0)
    {
        return REFUSE("it is not aligned to 16 bytes", -1);
    }
    for (int k = 0; k < count; ++k)
    {
        if (job->bases[k] % ETHOSU_CACHE_LINE_BYTES != 0)
        {
            return REFUSE("it does not begin at a cache line", k);
        }
        if (job->sizes[k] % ETHOSU_CACHE_LINE_BYTES != 0)
        {
            return REFUSE("its size is no multiple of a cache line", k);
        }
        if (job->sizes[k] > INT32_MAX || (job->sizes[k] != 0 && job->bases[k] == 0))
        {
            return REFUSE("its size is not that of memory", k);
        }
    }
    return 0;
}

int ethosu_invoke_async(struct ethosu_driver *drv, const void *custom_data_ptr,
                        int custom_data_size, uint64_t *base_addr, const size_t *base_addr_size,
                        int num_base_addr, void *user_arg)
{
    (void)user_arg;
    if (drv == NULL || custom_data_ptr == NULL || base_addr == NULL || base_addr_size == NULL ||
        drv->running || num_base_addr < 0 || num_base_addr > ETHOSU_REGIONS)
    {
        return REFUSE("wrong arguments, or a stream is running", -1);
    }
    if (drv->fast_memory != 0 && num_base_addr > FAST_MEMORY_REGION)
    {
        if (base_addr_size[FAST_MEMORY_REGION] > drv->fast_memory_size)
        {
            return REFUSE("the fast memory is too small", FAST_MEMORY_REGION);
        }
        base_addr[FAST_MEMORY_REGION] = drv->fast_memory;
    }
    memset(&drv->job, 0, sizeof drv->job);
    drv->job.stream = (uint64_t)(uintptr_t)custom_data_ptr;
    drv->job.bytes = custom_data_size > 0 ? (uint64_t)custom_data_size : 0;
    for (int k = 0; k < num_base_addr; ++k)
    {
        drv->job.bases[k] = base_addr[k];
        drv->job.sizes[k] = base_addr_size[k];
    }
    if (checked(&drv->job, num_base_addr) != 0)
    {
        return -1;
    }
    drv->result = ethosu_functional_execute(&drv->job);
    drv->running = true;
    return 0;
}

int ethosu_wait(struct ethosu_driver *drv, bool block)
{
    (void)block;
    if (drv == NULL || !drv->running)
    {
        return drv == NULL ? -1 : -2;
    }
    drv->running = false;
    return drv->result;
}

int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, int custom_data_size,
                     uint64_t *base_addr, const size_t *base_addr_size, int num_base_addr,
                     void *user_arg)
{
    const int failed = ethosu_invoke_async(drv, custom_data_ptr, custom_data_size, base_addr,
                                           base_addr_size, num_base_addr, user_arg);
    return failed != 0 ? failed : ethosu_wait(drv, true);
}

#if defined(__unix__) || defined(__APPLE__)

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

/* A socket to the process that executes streams; -1 before the first one. */
static int interpreter = -1;

static int start(void)
{
    int ends[2];
    const char *python = getenv("PENSTOCK_PYTHON");
    pid_t child;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
    {
        return -1;
    }
    child = fork();
    if (child == 0)
    {
        dup2(ends[1], STDIN_FILENO); /* both directions: the model's output is the caller's */
        close(ends[0]);
        close(ends[1]);
        python = python != NULL ? python : "python3";
        execlp(python, python, "-m", "penstock_ethos_u.functional", (char *)NULL);
        perror(python);
        _exit(127);
    }
    close(ends[1]);
    interpreter = ends[0];
    return child < 0 ? -1 : 0;
}

static int put(const void *bytes, size_t size)
{
    for (const char *at = bytes; size != 0;)
    {
        const ssize_t sent = send(interpreter, at, size, 0);
        if (sent <= 0)
        {
            return -1;
        }
        at += sent;
        size -= (size_t)sent;
    }
    return 0;
}

static int get(void *bytes, size_t size)
{
    for (char *at = bytes; size != 0;)
    {
        const ssize_t received = recv(interpreter, at, size, 0);
        if (received <= 0)
        {
            return -1;
        }
        at += received;
        size -= (size_t)received;
    }
    return 0;
}

/* Sends the job, the stream and the regions; receives a status and, after success, the regions that
 * may be written.  Region 0 is only read, so it is sent when it differs from the last one. */
int ethosu_functional_execute(const struct ethosu_functional_job *job)
{
    static uint64_t base, size;
    struct ethosu_functional_job sent = *job;
    int32_t status = -1;
    if (interpreter < 0 && start() != 0)
    {
        return -1;
    }
    if (sent.sizes[0] != 0 && sent.bases[0] == base && sent.sizes[0] == size)
    {
        sent.bases[0] = 0; /* as before */
    }
    if (put(&sent, sizeof sent) != 0 || put((const void *)(uintptr_t)job->stream, job->bytes) != 0)
    {
        return -1;
    }
    for (int k = sent.bases[0] == 0; k < ETHOSU_REGIONS; ++k)
    {
        if (put((const void *)(uintptr_t)job->bases[k], job->sizes[k]) != 0)
        {
            return -1;
        }
    }
    if (job->sizes[0] != 0)
    {
        base = job->bases[0];
        size = job->sizes[0];
    }
    if (get(&status, sizeof status) != 0 || status != 0)
    {
        return -1;
    }
    for (int k = 1; k < ETHOSU_REGIONS; ++k)
    {
        if (get((void *)(uintptr_t)job->bases[k], job->sizes[k]) != 0)
        {
            return -1;
        }
    }
    return 0;
}

#else

/* Set by a call that no simulator has executed; volatile, so that the compiler keeps the call. */
static const struct ethosu_functional_job *volatile refused;

#if defined(__GNUC__)
__attribute__((noinline))
#endif
int ethosu_functional_execute(const struct ethosu_functional_job *job)
{
    refused = job;
    return refused != NULL ? -1 : 0;
}

#endif

#else

typedef int ethosu_functional_is_unused; /* a translation unit must not be empty */

#endif
