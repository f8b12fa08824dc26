/* Emulation on a CPU: a whole operand rotated, scaled, rounded and decoded in one pass over memory.

   A tensor is cut into tiles of LANES rows by a few whole blocks of the contraction, which fit into
   the first-level cache. In a tile the contraction comes first, whatever the tensor's layout, so
   that the rows fill the vector registers and every step below is a plain loop over lanes:

       load -> rotate -> amax of each block -> stored scale -> draw -> round and multiply -> store

   Each step has the order of additions and the roundings of kernels/reference.py; the compiler must
   not contract a multiplication and an addition into one rounding (-ffp-contract=off).

   Suffixes as in Python: K the contraction, R rows; b counts lanes. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LANES 64
#define GROUP 8 /* consecutive elements that share one call of Philox */
#define ROUNDS 10
#define LEVELS 256
/* Tensors smaller than this are not worth waking another thread for. */
#define SERIAL_ELEMENTS 16384
#define INF_BITS 0x7f800000
#define LARGEST 0x1.fffffep127f
#define FLAT static inline __attribute__((always_inline))

/* A symmetric grid: neighbours of m are max(finest, relative * 2^floor(log2 m)) apart. */
typedef struct {
    float limit, finest, relative;
} Spacing;

/* Any grid: thresholds[i] is the smallest number that rounds to levels[i + 1]. */
typedef struct {
    int32_t count, zero, is_symmetric, has_negative_zero;
    float levels[LEVELS], thresholds[LEVELS - 1];
} Table;

typedef enum { FP32, BF16, MINIFLOAT, POWER_OF_TWO } ScaleKind;

/* These structures have their twins in kernels/cpu.py. */
typedef struct {
    int32_t height, width;
    int32_t is_two_level, is_four_over_six, has_table; /* has_table: element is not a Spacing */
    int32_t scale_kind, round_up_from, max_exponent;   /* the last two of POWER_OF_TWO */
    float largest_element, largest_scale, headroom;
    Spacing element, scale;
    Table table;
} Format;

typedef struct {
    int64_t length_K, length_R, stride_K, stride_R; /* of x; strides in elements */
    int64_t out_length_K, out_stride_K, out_stride_R;
    int64_t unit;              /* depth of a tile: whole blocks, Hadamard pieces and groups */
    int32_t hadamard, threads; /* the transform's size or 0; how many may work */
    int32_t is_stochastic;
    uint32_t key[2], step, stream, first_row, first_group;
    float hadamard_factor;
} Job;

FLAT int32_t bits_of(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

FLAT float float_of(int32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

FLAT float smaller(float a, float b) { return a < b ? a : b; }

/* Nearest integer, ties to even, of 0 <= x < 2^22: the sum has no room for a fraction. */
FLAT float nearest(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

/* Distance of neighbours: a power of two, as is its reciprocal. */
FLAT float spacing(float magnitude, Spacing grid) {
    float wide = float_of(bits_of(magnitude) & INF_BITS) * grid.relative;
    return wide > grid.finest ? wide : grid.finest;
}

FLAT float reciprocal(float power_of_two) {
    return float_of((254 << 23) - bits_of(power_of_two));
}

FLAT float round_nearest(float t, Spacing grid) {
    float magnitude = smaller(fabsf(t), grid.limit), step = spacing(magnitude, grid);
    return copysignf(nearest(magnitude * reciprocal(step)) * step, t);
}

FLAT float round_stochastic(float t, Spacing grid, uint32_t bits16) {
    float magnitude = smaller(fabsf(t), grid.limit), step = spacing(magnitude, grid);
    float position = magnitude * reciprocal(step), low = nearest(position);
    low -= low > position ? 1.0f : 0.0f;
    float up = (float)(int32_t)bits16 + 0.5f < (position - low) * 65536.0f ? 1.0f : 0.0f;
    return copysignf((low + up) * step, t);
}

FLAT float table_nearest(float t, const Table *grid) {
    float value = grid->levels[0];
    for (int i = 1; i < grid->count; i++)
        value = t >= grid->thresholds[i - 1] ? grid->levels[i] : value;
    return value == 0 && grid->has_negative_zero ? copysignf(0.0f, t) : value;
}

FLAT float table_stochastic(float t, const Table *grid, uint32_t bits16) {
    const float *levels = grid->levels + (grid->is_symmetric ? grid->zero : 0);
    int last = grid->count - 1 - (grid->is_symmetric ? grid->zero : 0);
    float position = grid->is_symmetric ? fabsf(t) : t;
    position = position > levels[0] ? smaller(position, levels[last]) : levels[0];
    float low = levels[0], high = levels[1];
    for (int i = 1; i < last; i++) {
        low = position >= levels[i] ? levels[i] : low;
        high = position >= levels[i] ? levels[i + 1] : high;
    }
    float fraction = (position - low) / (high - low);
    float value = (float)(int32_t)bits16 + 0.5f < fraction * 65536.0f ? high : low;
    if (grid->is_symmetric)
        value = t < 0 ? -value : value;
    return value == 0 && grid->has_negative_zero ? copysignf(0.0f, t) : value;
}

/* The tile as [unit][LANES], with zeros beyond the tensor. */
static void load(float *restrict tile, const float *x, const Job *job, int64_t k0, int64_t r0) {
    int64_t deep = job->length_K - k0, wide = job->length_R - r0;
    if (deep < job->unit || wide < LANES)
        memset(tile, 0, sizeof(float) * job->unit * LANES);
    deep = deep < job->unit ? deep : job->unit;
    wide = wide < LANES ? wide : LANES;
    x += k0 * job->stride_K + r0 * job->stride_R;
    if (job->stride_R == 1) {
        for (int64_t k = 0; k < deep; k++)
            memcpy(tile + k * LANES, x + k * job->stride_K, sizeof(float) * wide);
        return;
    }
    for (int64_t b = 0; b < wide; b++)
        for (int64_t k = 0; k < deep; k++)
            tile[k * LANES + b] = x[k * job->stride_K + b * job->stride_R];
}

static void store(const float *restrict tile, float *out, const Job *job, int64_t k0, int64_t r0) {
    int64_t deep = job->out_length_K - k0, wide = job->length_R - r0;
    deep = deep < job->unit ? deep : job->unit;
    wide = wide < LANES ? wide : LANES;
    out += k0 * job->out_stride_K + r0 * job->out_stride_R;
    if (job->out_stride_R == 1) {
        for (int64_t k = 0; k < deep; k++)
            memcpy(out + k * job->out_stride_K, tile + k * LANES, sizeof(float) * wide);
        return;
    }
    for (int64_t b = 0; b < wide; b++)
        for (int64_t k = 0; k < deep; k++)
            out[k * job->out_stride_K + b * job->out_stride_R] = tile[k * LANES + b];
}

/* Signs, then the radix-2 butterfly over strides 1, 2, 4, ..., then the factor. */
static void rotate(float *restrict tile, const int8_t *signs, const Job *job) {
    int64_t size = job->hadamard;
    for (int64_t k = 0; k < job->unit; k++) {
        float sign = signs[k % size];
        for (int b = 0; b < LANES; b++)
            tile[k * LANES + b] *= sign;
    }
    for (int64_t stride = 1; stride < size; stride *= 2)
        for (int64_t k = 0; k < job->unit; k++) {
            if (k & stride)
                continue;
            float *restrict low = tile + k * LANES, *restrict high = low + stride * LANES;
            for (int b = 0; b < LANES; b++) {
                float sum = low[b] + high[b], difference = low[b] - high[b];
                low[b] = sum;
                high[b] = difference;
            }
        }
    for (int64_t i = 0; i < job->unit * LANES; i++)
        tile[i] *= job->hadamard_factor;
}

/* Bits of each lane's largest magnitude over its block: as integers they order as magnitudes do,
   with Inf and NaN above all others. */
static void amax(int32_t *restrict largest, const float *restrict block, const Format *format) {
    memset(largest, 0, sizeof(int32_t) * LANES);
    for (int64_t n = 0; n < format->width; n++)
        for (int b = 0; b < LANES; b++) {
            int32_t bits = bits_of(block[n * LANES + b]) & INT32_MAX;
            largest[b] = bits > largest[b] ? bits : largest[b];
        }
    for (int b = 0; b < LANES && format->height > 1; b += format->height) {
        int32_t of_block = 0;
        for (int i = 0; i < format->height; i++)
            of_block = largest[b + i] > of_block ? largest[b + i] : of_block;
        for (int i = 0; i < format->height; i++)
            largest[b + i] = of_block;
    }
}

FLAT float power_of_two(float amax, const Format *format) {
    int is_subnormal = amax < 0x1p-126f;
    int32_t bits = bits_of(is_subnormal ? amax * 0x1p23f : amax);
    int32_t up = (bits & 0x7fffff) >= format->round_up_from;
    int32_t exponent = (bits >> 23) - 127 - (is_subnormal ? 23 : 0) + up - format->max_exponent;
    exponent = exponent < -127 || amax == 0 ? -127 : exponent > 127 ? 127 : exponent;
    return float_of(exponent == -127 ? 1 << 22 : (exponent + 127) << 23);
}

FLAT float to_bf16(float x) {
    int32_t bits = bits_of(x);
    return float_of((bits + 0x7fff + (bits >> 16 & 1)) & (int32_t)0xffff0000);
}

/* Stored scales that map amax to a target (kernels/scaling.py), NaN for blocks with NaN or Inf.
   Each kind has loops of its own, without branches. */
static void choose_scales(float *restrict stored, const int32_t *restrict largest,
                          const Format *format, float target, float encode) {
    float amax[LANES], to_scale = smaller(encode * (1.0f / target), LARGEST);
    for (int b = 0; b < LANES; b++)
        amax[b] = float_of(largest[b] < INF_BITS ? largest[b] : 0);
    for (int b = 0; b < LANES && format->headroom != 1.0f; b++)
        amax[b] = smaller(amax[b] * format->headroom, LARGEST);
    if (format->scale_kind == POWER_OF_TWO)
        for (int b = 0; b < LANES; b++)
            stored[b] = power_of_two(amax[b], format);
    else if (format->is_two_level)
        for (int b = 0; b < LANES; b++)
            stored[b] = amax[b] * to_scale;
    else
        for (int b = 0; b < LANES; b++)
            stored[b] = amax[b] / target;
    if (format->scale_kind == MINIFLOAT)
        for (int b = 0; b < LANES; b++)
            stored[b] = round_nearest(stored[b], format->scale);
    for (int b = 0; b < LANES && format->scale_kind == BF16; b++)
        stored[b] = to_bf16(stored[b]);
    for (int b = 0; b < LANES; b++)
        stored[b] = largest[b] < INF_BITS ? smaller(stored[b], format->largest_scale) : NAN;
}

/* Philox-4x32-10 for LANES neighbouring rows (kernels/rounding.py). */
static void draw(uint32_t words[GROUP / 2][LANES], const Job *job, uint32_t group, uint32_t row) {
    for (int b = 0; b < LANES; b++) {
        uint32_t c0 = group, c1 = row + b, c2 = job->step, c3 = job->stream;
        uint32_t k0 = job->key[0], k1 = job->key[1];
#pragma GCC unroll 10
        for (int turn = 0; turn < ROUNDS; turn++) {
            uint64_t product0 = (uint64_t)c0 * 0xD2511F53u, product1 = (uint64_t)c2 * 0xCD9E8D57u;
            c0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;
            c1 = (uint32_t)product1;
            c2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
            c3 = (uint32_t)product0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        words[0][b] = c0;
        words[1][b] = c1;
        words[2][b] = c2;
        words[3][b] = c3;
    }
}

/* What a row of the tile is divided by to be in units of the grid. */
typedef struct {
    float stored[LANES], inverse[LANES];
} Scales;

static void invert(Scales *scales, float decode) {
    for (int b = 0; b < LANES; b++)
        scales->inverse[b] = smaller(1.0f / (scales->stored[b] * decode), LARGEST);
}

FLAT float encode_element(float x, const Scales *scales, int b, int is_two_level) {
    if (is_two_level)
        return x * scales->inverse[b];
    return scales->stored[b] == 0 ? 0.0f : x / scales->stored[b];
}

/* Element times block scale for one row; inlined for each kind, so that loops have no branches.
   words is NULL for rounding to nearest. */
FLAT void round_row(float *restrict row, const Scales *scales, const Format *format,
                    const uint32_t *restrict words, int shift, int is_two_level, int has_table) {
    for (int b = 0; b < LANES; b++) {
        float t = encode_element(row[b], scales, b, is_two_level), value;
        uint32_t bits16 = words ? words[b] >> shift & 0xffff : 0;
        if (has_table)
            value = words ? table_stochastic(t, &format->table, bits16)
                          : table_nearest(t, &format->table);
        else
            value = words ? round_stochastic(t, format->element, bits16)
                          : round_nearest(t, format->element);
        row[b] = value * scales->stored[b];
    }
}

static void round_any(float *restrict row, const Scales *scales, const Format *format,
                      const uint32_t *restrict words, int shift) {
    if (format->has_table)
        round_row(row, scales, format, words, shift, format->is_two_level, 1);
    else if (words && format->is_two_level)
        round_row(row, scales, format, words, shift, 1, 0);
    else if (words)
        round_row(row, scales, format, words, shift, 0, 0);
    else if (format->is_two_level)
        round_row(row, scales, format, NULL, 0, 1, 0);
    else
        round_row(row, scales, format, NULL, 0, 0, 0);
}

/* Squared error of each block under these scales, added up by halving: rows first, as they lie
   outside in a block. */
static void squared_error(float *restrict error, float *restrict squares, const float *block,
                          const Scales *scales, const Format *format, float decode) {
    for (int64_t i = 0; i < format->width * LANES; i++) {
        float t = encode_element(block[i], scales, i % LANES, 1);
        float difference =
            round_nearest(t, format->element) * scales->stored[i % LANES] * decode - block[i];
        squares[i] = difference * difference;
    }
    for (int half = format->height / 2; half; half /= 2)
        for (int64_t i = 0; i < format->width * LANES; i++)
            if (i % format->height < half)
                squares[i] += squares[i + half];
    for (int64_t half = format->width / 2; half; half /= 2)
        for (int64_t i = 0; i < half * LANES; i++)
            squares[i] += squares[i + half * LANES];
    for (int b = 0; b < LANES; b++)
        error[b] = squares[b - b % format->height];
}

/* Map amax to 4 instead of the grid's largest element where that leaves less error. */
static void four_over_six(Scales *scales, float *restrict scratch, const float *block,
                          const int32_t *largest, const Format *format, float encode,
                          float decode) {
    Scales to_four;
    float error[LANES], error_to_four[LANES];
    choose_scales(to_four.stored, largest, format, 4.0f, encode);
    invert(&to_four, decode);
    squared_error(error, scratch, block, scales, format, decode);
    squared_error(error_to_four, scratch, block, &to_four, format, decode);
    for (int b = 0; b < LANES; b++)
        if (error_to_four[b] < error[b]) {
            scales->stored[b] = to_four.stored[b];
            scales->inverse[b] = to_four.inverse[b];
        }
}

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int threads_for(const Job *job) {
    return job->length_K * job->length_R < SERIAL_ELEMENTS ? 1 : job->threads;
}

/* The largest magnitude in any block that is finite throughout, after rotation. */
float largest_finite(const float *x, const int8_t *signs, const Format *format, const Job *job) {
    int64_t across = ceil_div(job->length_R, LANES), down = ceil_div(job->out_length_K, job->unit);
    int32_t result = 0;
#pragma omp parallel num_threads(threads_for(job)) reduction(max : result)
    {
        float *tile = malloc(sizeof(float) * job->unit * LANES);
        int32_t largest[LANES];
#pragma omp for
        for (int64_t i = 0; i < across * down; i++) {
            load(tile, x, job, i / across * job->unit, i % across * LANES);
            if (job->hadamard)
                rotate(tile, signs, job);
            for (int64_t k = 0; k < job->unit; k += format->width) {
                amax(largest, tile + k * LANES, format);
                for (int b = 0; b < LANES; b++) {
                    int32_t finite = largest[b] < INF_BITS ? largest[b] : 0;
                    result = finite > result ? finite : result;
                }
            }
        }
        free(tile);
    }
    return float_of(result);
}

/* Values of the whole operand: elements times block scales. In a format of two levels the tensor's
   scale and its inverse are at encode_at and decode_at. */
void emulate(const float *x, float *out, const int8_t *signs, const Format *format, const Job *job,
             const float *encode_at, const float *decode_at) {
    float encode = format->is_two_level ? *encode_at : 1;
    float decode = format->is_two_level ? *decode_at : 1;
    int64_t across = ceil_div(job->length_R, LANES), down = ceil_div(job->out_length_K, job->unit);
    int64_t scratch = format->is_four_over_six ? format->width : 0;
#pragma omp parallel num_threads(threads_for(job))
    {
        float *tile = malloc(sizeof(float) * (job->unit + scratch) * LANES);
        int32_t largest[LANES];
        uint32_t words[GROUP / 2][LANES];
        Scales scales;
#pragma omp for
        for (int64_t i = 0; i < across * down; i++) {
            int64_t k0 = i / across * job->unit, r0 = i % across * LANES;
            load(tile, x, job, k0, r0);
            if (job->hadamard)
                rotate(tile, signs, job);
            for (int64_t k = 0; k < job->unit; k++) {
                if (k % format->width == 0) {
                    float *block = tile + k * LANES;
                    amax(largest, block, format);
                    choose_scales(scales.stored, largest, format, format->largest_element, encode);
                    if (format->is_two_level)
                        invert(&scales, decode);
                    if (format->is_four_over_six)
                        four_over_six(&scales, tile + job->unit * LANES, block, largest, format,
                                      encode, decode);
                }
                if (job->is_stochastic && k % GROUP == 0)
                    draw(words, job, job->first_group + (k0 + k) / GROUP, job->first_row + r0);
                const uint32_t *word = job->is_stochastic ? words[k % GROUP / 2] : NULL;
                round_any(tile + k * LANES, &scales, format, word, k % 2 * 16);
            }
            store(tile, out, job, k0, r0);
        }
        free(tile);
    }
}
