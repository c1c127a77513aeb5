/* deferred_nvdla.c: a driver of NVDLA that runs layers as late as nvdla.h permits, in nvdla_wait.
 * Until then, the outputs of queued layers hold other bytes than before and after. */
#define nvdla_submit run_stream
#define nvdla_wait wait_for_nothing
#include "nvdla.c"
#undef nvdla_submit
#undef nvdla_wait

#include <stdlib.h>

void nvdla_submit(const void *stream, int32_t bytes, void *bases[]);
void nvdla_wait(void);

enum { MOST_STREAMS = 10000, MOST_BASES = 256 };

static struct {
    const void *stream;
    int32_t bytes;
    void *bases[MOST_BASES];
} queue[MOST_STREAMS];
static int32_t queued;

/* The bytes that the outputs of queued layers replaced, in the order of replacement. */
static struct replaced {
    int8_t *at;
    int8_t before;
} *replaced;
static size_t replacements, capacity;

static void replace(int8_t *at) {
    if (replacements == capacity) {
        capacity = 2 * capacity + 1024;
        replaced = realloc(replaced, capacity * sizeof *replaced);
        if (replaced == NULL) {
            abort();
        }
    }
    replaced[replacements].at = at;
    replaced[replacements].before = *at;
    *at = (int8_t)(*at ^ (int8_t)(replacements % 127 + 1));
    replacements++;
}

static void replace_surface(surface target, uint32_t width, uint32_t height, uint32_t channels) {
    const int32_t pack = atoms[run.configuration].pack;
    const int32_t end = ((int32_t)value(channels) + pack) / pack * pack;
    for (int32_t row = 0; row <= (int32_t)value(height); row++) {
        for (int32_t column = 0; column <= (int32_t)value(width); column++) {
            for (int32_t channel = 0; channel < end; channel++) {
                replace(element(&target, row, column, channel));
            }
        }
    }
}

void nvdla_submit(const void *stream, int32_t bytes, void *bases[]) {
    const uint8_t *words = stream;
    if (queued == MOST_STREAMS) {
        abort();
    }
    queue[queued].stream = stream;
    queue[queued].bytes = bytes;
    run.configuration = (int32_t)(word(words) & 0xff);
    run.place_count = (int32_t)word(words + 4);
    run.places = words + 8;
    run.writes = run.places + 8 * run.place_count;
    run.bases = queue[queued].bases;
    for (int32_t k = 0; k < run.place_count; k++) {
        const uint32_t base = word(run.places + 8 * k + 4) & ~IN_CVSRAM;
        if (base >= MOST_BASES) {
            abort();
        }
        queue[queued].bases[base] = bases[base];
    }
    queued++;
    const int32_t writes = (int32_t)(words + bytes - run.writes) / 8;
    for (run.at = 0; run.at < writes; run.at++) {
        const uint32_t address = word(run.writes + 8 * run.at);
        if (address == CDMA_START ||
            (address == SDP_RDMA_START && (value(SDP_FLYING) & 1) == 0)) {
            replace_surface(surface_of(SDP_TARGET, SDP_LINES, SDP_SURFACES), SDP_WIDTH, SDP_HEIGHT,
                            SDP_CHANNELS);
        } else if (address == PDP_RDMA_START) {
            replace_surface(surface_of(PDP_TARGET, PDP_LINES, PDP_SURFACES), PDP_OUT_WIDTH,
                            PDP_OUT_HEIGHT, PDP_CHANNELS);
        }
    }
}

void nvdla_wait(void) {
    while (replacements > 0) {
        replacements--;
        *replaced[replacements].at = replaced[replacements].before;
    }
    for (int32_t k = 0; k < queued; k++) {
        run_stream(queue[k].stream, queue[k].bytes, queue[k].bases);
    }
    queued = 0;
}
