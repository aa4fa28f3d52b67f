/* Writes files of known contents, with thalweg_file_ calls: acknowledged FOLDER FIRST. Prints the number of each file after its close. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "thalweg.h"

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const long first = atol(argv[2]);
    for (long k = first; k < first + 100000; k++) {
        char path[4096], word[32];
        snprintf(path, sizeof path, "%s/%ld", argv[1], k);
        const size_t length = (size_t)snprintf(word, sizeof word, "%ld ", k), times = (size_t)(k * 7919 % 8999 + 1);
        char *body = malloc(length * times);
        for (size_t n = 0; n < times; n++)
            memcpy(body + n * length, word, length);
        thalweg_file *file = NULL;
        if (thalweg_file_open(&file, path, THALWEG_FILE_WRITE | THALWEG_FILE_CREATE, 0) ||
            thalweg_file_write(file, body, length * times, 0) || thalweg_file_close(file)) {
            fprintf(stderr, "Error: %s\n", thalweg_last_error()->text);
            return 1;
        }
        free(body);
        printf("%ld\n", k);
        fflush(stdout);
    }
    return 0;
}
