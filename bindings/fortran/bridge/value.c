#include "bridge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A number that can represent all types: if `whole`, an integer with a separate sign; else two doubles. */
struct number {
    int is_whole, is_negative;
    uint64_t size; /* of an integer, without its sign */
    double real, imaginary;
};

static struct number whole(int64_t n)
{
    return (struct number){.is_whole = 1, .is_negative = n < 0, .size = n < 0 ? -(uint64_t)n : (uint64_t)n, .real = (double)n};
}

static struct number natural(uint64_t n) { return (struct number){.is_whole = 1, .size = n, .real = (double)n}; }

static int read_number(const void *from, enum ADIOS_DATATYPES type, struct number *n)
{
#define READ(adios, c, make)          \
    case adios: {                     \
        c v;                          \
        memcpy(&v, from, sizeof v);   \
        *n = make(v);                 \
        return 1;                     \
    }
#define REAL(v) (struct number){.real = (double)(v)}
#define COMPLEX(v) (struct number){.real = (v)[0], .imaginary = (v)[1]}
    typedef float float_pair[2];
    typedef double double_pair[2];
    switch (type) {
        READ(adios_byte, int8_t, whole)
        READ(adios_short, int16_t, whole)
        READ(adios_integer, int32_t, whole)
        READ(adios_long, int64_t, whole)
        READ(adios_unsigned_byte, uint8_t, natural)
        READ(adios_unsigned_short, uint16_t, natural)
        READ(adios_unsigned_integer, uint32_t, natural)
        READ(adios_unsigned_long, uint64_t, natural)
        READ(adios_real, float, REAL)
        READ(adios_double, double, REAL)
        READ(adios_long_double, long double, REAL)
        READ(adios_complex, float_pair, COMPLEX)
        READ(adios_double_complex, double_pair, COMPLEX)
    default: return 0;
    }
}

/* Size of an integer in bytes; 0 for other types. Unsigned integers are stored as the signed integers of Fortran with the
 * same bits. */
static int width(enum ADIOS_DATATYPES type)
{
    switch (type) {
    case adios_byte:
    case adios_unsigned_byte: return 1;
    case adios_short:
    case adios_unsigned_short: return 2;
    case adios_integer:
    case adios_unsigned_integer: return 4;
    case adios_long:
    case adios_unsigned_long: return 8;
    default: return 0;
    }
}

static int write_whole(const struct number *n, int bytes, void *to)
{
    struct number as = *n;
    if (!as.is_whole) {
        if (as.imaginary != 0 || floor(as.real) != as.real || fabs(as.real) >= 9.2e18) return 0;
        as = whole((int64_t)as.real);
    }
    if (as.size > (UINT64_MAX >> (65 - 8 * bytes)) + (uint64_t)as.is_negative) return 0;
    uint64_t bits = as.is_negative ? -as.size : as.size;
    memcpy(to, &bits, (size_t)bytes); /* the low bytes come first on machines that this is built for */
    return 1;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "write_whole copies the low bytes of a number");

static int write_number(const struct number *n, void *to, enum ADIOS_DATATYPES kind)
{
    if (width(kind)) return write_whole(n, width(kind), to);
    double parts[2] = {n->real, n->imaginary};
    float halves[2] = {(float)n->real, (float)n->imaginary};
    switch (kind) {
    case adios_real: memcpy(to, halves, sizeof(float)); return n->imaginary == 0;
    case adios_double: memcpy(to, parts, sizeof(double)); return n->imaginary == 0;
    case adios_complex: memcpy(to, halves, sizeof halves); return 1;
    case adios_double_complex: memcpy(to, parts, sizeof parts); return 1;
    default: return 0;
    }
}

static const char *declared(enum ADIOS_DATATYPES kind)
{
    switch (kind) {
    case adios_byte: return "integer(int8)";
    case adios_short: return "integer(int16)";
    case adios_integer: return "integer(int32)";
    case adios_long: return "integer(int64)";
    case adios_real: return "real(real32)";
    case adios_double: return "real(real64)";
    case adios_complex: return "complex(real32)";
    case adios_double_complex: return "complex(real64)";
    default: return "another kind";
    }
}

int thalweg_bridge_value(const void *from, enum ADIOS_DATATYPES type, void *to, enum ADIOS_DATATYPES kind,
                         const char *name)
{
    struct number n;
    if (width(type) && width(type) == width(kind)) {
        memcpy(to, from, (size_t)width(type));
        return 0;
    }
    if (read_number(from, type, &n) && write_number(&n, to, kind)) return 0;
    char text[256];
    snprintf(text, sizeof text, "%s: its value, of type %s, does not go into %s", name, adios_type_to_string(type),
             declared(kind));
    thalweg_core_error(err_invalid_data, text);
    return err_invalid_data;
}
