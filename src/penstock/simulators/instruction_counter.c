/* Counts executed instructions by phase: a QEMU plugin, plugin interface version 1.
 *
 * QEMU calls on_block() before each translated block.  A phase begins at the addresses that
 * `phase_at` marks.  The counts are in a file that instruction_counter.py maps, too; it declares the
 * same structure.  QEMU ships no header of this interface; the prototypes are from its manual, "QEMU
 * TCG Plugins". */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef uint64_t qemu_plugin_id_t;
typedef void (*on_translation)(qemu_plugin_id_t id, void *block);
typedef void (*on_execution)(unsigned int processor, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, on_translation call);
void qemu_plugin_register_vcpu_tb_exec_cb(void *block, on_execution call, int flags, void *data);
size_t qemu_plugin_tb_n_insns(const void *block);
uint64_t qemu_plugin_tb_vaddr(const void *block);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { PHASES = 1024, SPENT = 3 };

typedef struct {
    uint64_t budget; /* instructions that may still be executed */
    uint64_t spent;  /* 1 when there are none left */
    uint64_t phase;
    uint64_t instructions[PHASES];
    uint64_t code_lower, code_upper;
    uint16_t phase_at[]; /* one per halfword of code: phase that begins here, or 0 */
} Counters;

static Counters *counters;

/* `data`: the block's address, and its instructions in the upper half. */
static void on_block(unsigned int processor, void *data) {
    const uint64_t address = (uintptr_t)data & UINT32_MAX;
    const uint64_t instructions = (uint64_t)(uintptr_t)data >> 32;
    (void)processor;
    if (address >= counters->code_lower && address < counters->code_upper) {
        const uint64_t phase = counters->phase_at[(address - counters->code_lower) / 2];
        counters->phase = phase ? phase : counters->phase;
    }
    counters->instructions[counters->phase] += instructions;
    if (counters->budget < instructions) {
        counters->spent = 1;
        _exit(SPENT);
    }
    counters->budget -= instructions;
}

static void on_translated(qemu_plugin_id_t id, void *block) {
    const uint64_t data = qemu_plugin_tb_vaddr(block) | (uint64_t)qemu_plugin_tb_n_insns(block) << 32;
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, 0, (void *)(uintptr_t)data);
}

/* The only argument is `counts=FILE`. */
__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id,
                                                               const void *about, int count,
                                                               char **arguments) {
    static const char name[] = "counts=";
    (void)about;
    if (count != 1 || strncmp(arguments[0], name, sizeof name - 1) != 0) {
        return 1;
    }
    const int file = open(arguments[0] + sizeof name - 1, O_RDWR);
    const off_t bytes = file < 0 ? -1 : lseek(file, 0, SEEK_END);
    if (bytes < (off_t)sizeof(Counters)) {
        return 1;
    }
    void *mapped = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) {
        return 1;
    }
    counters = mapped;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translated);
    return 0;
}
