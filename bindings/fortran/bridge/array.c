#include "bridge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_of_unknown_size(const CFI_cdesc_t *a) { return a->rank > 0 && a->dim[a->rank - 1].extent == -1; }

int64_t thalweg_bridge_elements(const CFI_cdesc_t *a)
{
    if (is_of_unknown_size(a)) return -1;
    int64_t elements = 1;
    for (int d = 0; d < a->rank; d++) elements *= a->dim[d].extent > 0 ? a->dim[d].extent : 0;
    return elements;
}

static int is_in_one_piece(const CFI_cdesc_t *a)
{
    int64_t stride = (int64_t)a->elem_len;
    if (is_of_unknown_size(a)) return 1;
    for (int d = 0; d < a->rank; d++) {
        if (a->dim[d].extent <= 0) return 1;
        if (a->dim[d].extent > 1 && a->dim[d].sm != stride) return 0;
        stride *= a->dim[d].extent;
    }
    return 1;
}

/* Copies one run along the fastest dimension. The sizes of all kinds are constants, so that an element is copied by one
 * instruction. */
static void copy_run(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t count, size_t size)
{
#define RUN(n)                                                                              \
    case n:                                                                                 \
        for (int64_t i = 0; i < count; i++) memcpy(to + i * to_stride, from + i * from_stride, n); \
        return
    switch (size) {
        RUN(1);
        RUN(2);
        RUN(4);
        RUN(8);
        RUN(16);
    default:
        for (int64_t i = 0; i < count; i++) memcpy(to + i * to_stride, from + i * from_stride, size);
    }
#undef RUN
}

/* Copies between an argument with gaps and contiguous memory. */
static void copy(const CFI_cdesc_t *a, char *piece, int gather)
{
    int64_t at[CFI_MAX_RANK] = {0}, size = (int64_t)a->elem_len, count = a->rank ? a->dim[0].extent : 1;
    int64_t stride = a->rank ? a->dim[0].sm : size;
    if (thalweg_bridge_elements(a) <= 0) return;
    for (;;) {
        char *run = a->base_addr;
        for (int d = 1; d < a->rank; d++) run += at[d] * a->dim[d].sm;
        if (gather)
            copy_run(piece, size, run, stride, count, a->elem_len);
        else
            copy_run(run, stride, piece, size, count, a->elem_len);
        piece += count * size;
        int d = 1;
        while (d < a->rank && ++at[d] == a->dim[d].extent) at[d++] = 0;
        if (d >= a->rank) return;
    }
}

int thalweg_bridge_array(const CFI_cdesc_t *a, struct array *array)
{
    int64_t elements = thalweg_bridge_elements(a);
    uint64_t bytes = elements < 0 ? UNKNOWN_ROOM : (uint64_t)elements * a->elem_len;
    *array = (struct array){.start = a->base_addr, .room = a->rank ? bytes : UNKNOWN_ROOM, .text_room = bytes};
    if (is_in_one_piece(a)) return 0;
    array->start = array->copy = malloc(bytes);
    if (!array->copy) {
        char text[96];
        snprintf(text, sizeof text, "no memory for a copy of an array section of %llu bytes", (unsigned long long)bytes);
        thalweg_core_error(err_no_memory, text);
        return err_no_memory;
    }
    copy(a, array->copy, 1);
    return 0;
}

void thalweg_bridge_free(struct array *array)
{
    free(array->copy);
    array->copy = NULL;
}

void thalweg_bridge_scatter(const CFI_cdesc_t *argument, const void *from) { copy(argument, (char *)from, 0); }
