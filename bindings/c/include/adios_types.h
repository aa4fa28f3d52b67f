/* Types of values and settings of groups; the numbers are those of ADIOS 1.13 and of BP files. */
#ifndef THALWEG_ADIOS_TYPES_H
#define THALWEG_ADIOS_TYPES_H

#ifdef __cplusplus
extern "C" {
#endif

enum ADIOS_DATATYPES {
    adios_unknown = -1,
    /* integers of 1, 2, 4, 8 bytes */
    adios_byte = 0,
    adios_short = 1,
    adios_integer = 2,
    adios_long = 4,
    adios_unsigned_byte = 50,
    adios_unsigned_short = 51,
    adios_unsigned_integer = 52,
    adios_unsigned_long = 54,
    /* floating point of 4, 8, 16 bytes */
    adios_real = 5,
    adios_double = 6,
    adios_long_double = 7,
    /* two floats or two doubles: real part first */
    adios_complex = 10,
    adios_double_complex = 11,
    /* a text ended by a zero byte; several texts, for attributes only */
    adios_string = 9,
    adios_string_array = 12
};

enum ADIOS_FLAG { adios_flag_unknown = 0, adios_flag_yes = 1, adios_flag_no = 2 };

enum ADIOS_STATISTICS_FLAG {
    adios_stat_no = -1,
    adios_stat_minmax = 0,
    adios_stat_full = 1, /* also count, sum, sum of squares */
    adios_stat_default = adios_stat_minmax,
    adios_stat_no_do_not_use_this = 2 /* the value of adios_flag_no, which some programs pass */
};

enum ADIOS_BUFFER_ALLOC_WHEN { ADIOS_BUFFER_ALLOC_UNKNOWN, ADIOS_BUFFER_ALLOC_NOW, ADIOS_BUFFER_ALLOC_LATER };

#ifdef __cplusplus
}
#endif

#endif
