/* Counts executed basic blocks.  The CPU simulator calls on_block() before each one.
 *
 * There is a record for each block (address, size) in each phase.  `first` maps the halfword at
 * which a block begins to a list of records, which nearly always has one element.  A phase begins
 * at the addresses that `phase_at` marks.  A block that does not begin at the end of the previous
 * one was reached by a taken branch.
 *
 * block_hook.py declares the same two structures. */
#include <stdint.h>

typedef struct {
    uint32_t address; /* of the first instruction */
    uint32_t size;    /* bytes */
    uint32_t phase;
    uint32_t next;       /* index + 1 of the next record of this address, or 0 */
    uint32_t sp_lowest;  /* lowest stack pointer with which the block began */
    uint32_t reserved;
    uint64_t executions;
    uint64_t exits_taken; /* number of taken branches at its end */
} Record;

enum { RUNNING = 0, OUTSIDE_CODE = 1, TOO_MANY_RECORDS = 2, BUDGET_SPENT = 3 };

typedef struct {
    int (*read_register)(void *cpu, int name, void *value);
    int (*stop)(void *cpu);
    uint32_t *first;    /* one per halfword of code: index + 1 of a record, or 0 */
    uint32_t *phase_at; /* one per halfword of code: phase that begins here, or 0 */
    Record *records;
    uint64_t budget_halfwords; /* halfwords of code that may still be executed */
    uint32_t code_lower, code_upper;
    uint32_t capacity, used; /* records */
    uint32_t phase;
    uint32_t previous; /* index + 1 of the record of the block before this one, or 0 */
    uint32_t status;
    int32_t sp_name;
} Counters;

static uint32_t record_of(Counters *counters, uint32_t halfword, uint32_t address, uint32_t size) {
    uint32_t at = counters->first[halfword];
    for (; at != 0; at = counters->records[at - 1].next) {
        const Record *record = &counters->records[at - 1];
        if (record->phase == counters->phase && record->size == size) return at;
    }
    if (counters->used == counters->capacity) return 0;
    const Record fresh = {.address = address,
                          .size = size,
                          .phase = counters->phase,
                          .next = counters->first[halfword],
                          .sp_lowest = UINT32_MAX};
    counters->records[counters->used++] = fresh;
    counters->first[halfword] = counters->used;
    return counters->used;
}

static void give_up(Counters *counters, void *cpu, uint32_t status) {
    counters->status = status;
    counters->stop(cpu);
}

void on_block(void *cpu, uint64_t where, uint32_t size, void *state) {
    Counters *counters = state;
    const uint32_t address = (uint32_t)where;
    if (address < counters->code_lower || address >= counters->code_upper) {
        give_up(counters, cpu, OUTSIDE_CODE);
        return;
    }
    const uint32_t halfword = (address - counters->code_lower) >> 1;
    if (counters->previous != 0) {
        Record *before = &counters->records[counters->previous - 1];
        before->exits_taken += before->address + before->size != address;
    }
    if (counters->phase_at[halfword] != 0) counters->phase = counters->phase_at[halfword];
    counters->previous = record_of(counters, halfword, address, size);
    if (counters->previous == 0) {
        give_up(counters, cpu, TOO_MANY_RECORDS);
        return;
    }
    Record *record = &counters->records[counters->previous - 1];
    uint32_t sp = UINT32_MAX;
    counters->read_register(cpu, counters->sp_name, &sp);
    if (sp < record->sp_lowest) record->sp_lowest = sp;
    record->executions++;
    if (counters->budget_halfwords < size / 2) {
        give_up(counters, cpu, BUDGET_SPENT);
        return;
    }
    counters->budget_halfwords -= size / 2;
}

/* Resets all counts; the next run begins in `phase` 0. */
void forget(Counters *counters) {
    for (uint32_t i = 0; i < counters->used; ++i) {
        counters->first[(counters->records[i].address - counters->code_lower) >> 1] = 0;
    }
    counters->used = 0;
    counters->phase = 0;
    counters->previous = 0;
    counters->status = RUNNING;
}
