#include "bridge.h"

#include <stdlib.h>
#include <string.h>

char *thalweg_bridge_text(const char *text, size_t length)
{
    const char *end = memchr(text, 0, length);
    if (end)
        length = (size_t)(end - text);
    else
        while (length && text[length - 1] == ' ') length--;
    char *copy = malloc(length + 1); /* NULL: a null pointer is what the library will complain about */
    if (!copy) return NULL;
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

void thalweg_bridge_forget(char **text) { free(*text); }

int thalweg_bridge_pad(const char *text, char *fortran, size_t length)
{
    size_t have = strlen(text), taken = have < length ? have : length;
    memcpy(fortran, text, taken);
    memset(fortran + taken, ' ', length - taken);
    return have > length;
}
