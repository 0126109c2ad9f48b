/* Hashes of many values at once, and the search for hashes among sorted ones.
 *
 * In: the addresses of values one after the other, of where each begins and the last ends, and of room for the results. Out:
 * the results: BLAKE2b of RFC 7693 without a key, 16 bytes each, as `hashlib.blake2b(value, digest_size=16, person=...)`
 * gives them; or the bucket of Iceberg's specification, which is Murmur3. It checks nothing: that the addresses are those of
 * such arrays is the caller's to know (framework.adapters.key_hash, framework.adapters.parquet.buckets). It keeps to Python's
 * limited interface of 3.10, and needs Python's lock only to begin and to end.
 */
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030A0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

/* Raised with every change of what the functions take or give: a build of an older checkout is not used. */
#define INTERFACE 2
#define BLOCK_BYTES 128
#define DIGEST_BYTES 16
#define PERSON_BYTES 16
#define ROUNDS 12

static const uint64_t START[8] = {
    0x6a09e667f3bcc908ULL, 0xbb67ae8584caa73bULL, 0x3c6ef372fe94f82bULL, 0xa54ff53a5f1d36f1ULL,
    0x510e527fade682d1ULL, 0x9b05688c2b3e6c1fULL, 0x1f83d9abfb41bd6bULL, 0x5be0cd19137e2179ULL,
};

static const uint8_t ORDER[ROUNDS][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

static inline uint64_t rotated(uint64_t word, int bits)
{
    return (word >> bits) | (word << (64 - bits));
}

/* A word in little endian, whatever the machine's order is. */
static inline uint64_t read_word(const uint8_t *bytes)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
#else
    uint64_t word = 0;
    for (int i = 7; i >= 0; i--)
        word = word << 8 | bytes[i];
    return word;
#endif
}

#define MIX(a, b, c, d, x, y)             \
    do {                                  \
        v[a] += v[b] + (x);               \
        v[d] = rotated(v[d] ^ v[a], 32);  \
        v[c] += v[d];                     \
        v[b] = rotated(v[b] ^ v[c], 24);  \
        v[a] += v[b] + (y);               \
        v[d] = rotated(v[d] ^ v[a], 16);  \
        v[c] += v[d];                     \
        v[b] = rotated(v[b] ^ v[c], 63);  \
    } while (0)

/* `counted`: bytes up to the end of this block. */
static void compress(uint64_t h[8], const uint8_t *block, uint64_t counted, int is_last)
{
    uint64_t m[16], v[16];
    for (int i = 0; i < 16; i++)
        m[i] = read_word(block + 8 * i);
    for (int i = 0; i < 8; i++) {
        v[i] = h[i];
        v[i + 8] = START[i];
    }
    v[12] ^= counted;
    if (is_last)
        v[14] = ~v[14];
    for (int round = 0; round < ROUNDS; round++) {
        const uint8_t *s = ORDER[round];
        MIX(0, 4, 8, 12, m[s[0]], m[s[1]]);
        MIX(1, 5, 9, 13, m[s[2]], m[s[3]]);
        MIX(2, 6, 10, 14, m[s[4]], m[s[5]]);
        MIX(3, 7, 11, 15, m[s[6]], m[s[7]]);
        MIX(0, 5, 10, 15, m[s[8]], m[s[9]]);
        MIX(1, 6, 11, 12, m[s[10]], m[s[11]]);
        MIX(2, 7, 8, 13, m[s[12]], m[s[13]]);
        MIX(3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < 8; i++)
        h[i] ^= v[i] ^ v[i + 8];
}

static void write_word(uint8_t *bytes, uint64_t word)
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(word >> (8 * i));
}

static void hash_value(const uint64_t start[8], const uint8_t *value, uint64_t length, uint8_t *result)
{
    uint64_t h[8], done = 0;
    memcpy(h, start, sizeof h);
    /* The last block, which may be the only one and may be empty, is told from the others. */
    while (length - done > BLOCK_BYTES) {
        done += BLOCK_BYTES;
        compress(h, value + done - BLOCK_BYTES, done, 0);
    }
    uint8_t last[BLOCK_BYTES] = {0};
    if (length > done)
        memcpy(last, value + done, (size_t)(length - done));
    compress(h, last, length, 1);
    write_word(result, h[0]);
    write_word(result + 8, h[1]);
}

/* Four short values at once, one in each lane of a vector. Where the machine has AVX2 that takes a third of the time; the
 * compiler makes both forms and the loader chooses. Elsewhere the compiler does with narrower vectors what it can. */
#define LANES 4
typedef uint64_t lanes __attribute__((vector_size(8 * LANES)));

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_MACHINE __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EACH_MACHINE
#endif

#define ROTATED(words, bits) (((words) >> (bits)) | ((words) << (64 - (bits))))
#define MIX_LANES(a, b, c, d, x, y)           \
    do {                                      \
        v[a] += v[b] + (x);                   \
        v[d] = ROTATED(v[d] ^ v[a], 32);      \
        v[c] += v[d];                         \
        v[b] = ROTATED(v[b] ^ v[c], 24);      \
        v[a] += v[b] + (y);                   \
        v[d] = ROTATED(v[d] ^ v[a], 16);      \
        v[c] += v[d];                         \
        v[b] = ROTATED(v[b] ^ v[c], 63);      \
    } while (0)

/* `blocks` are filled with zeros behind each value, `lengths` are at most BLOCK_BYTES. */
FOR_EACH_MACHINE static void hash_lanes(const uint64_t start[8], const uint64_t blocks[LANES][16],
                                        const uint64_t lengths[LANES], uint64_t results[2][LANES])
{
    lanes m[16], v[16];
    for (int i = 0; i < 16; i++)
        for (int lane = 0; lane < LANES; lane++)
            m[i][lane] = blocks[lane][i];
    for (int i = 0; i < 8; i++)
        for (int lane = 0; lane < LANES; lane++) {
            v[i][lane] = start[i];
            v[i + 8][lane] = START[i];
        }
    for (int lane = 0; lane < LANES; lane++)
        v[12][lane] ^= lengths[lane];
    v[14] = ~v[14];
    for (int round = 0; round < ROUNDS; round++) {
        const uint8_t *s = ORDER[round];
        MIX_LANES(0, 4, 8, 12, m[s[0]], m[s[1]]);
        MIX_LANES(1, 5, 9, 13, m[s[2]], m[s[3]]);
        MIX_LANES(2, 6, 10, 14, m[s[4]], m[s[5]]);
        MIX_LANES(3, 7, 11, 15, m[s[6]], m[s[7]]);
        MIX_LANES(0, 5, 10, 15, m[s[8]], m[s[9]]);
        MIX_LANES(1, 6, 11, 12, m[s[10]], m[s[11]]);
        MIX_LANES(2, 7, 8, 13, m[s[12]], m[s[13]]);
        MIX_LANES(3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < 2; i++)
        for (int lane = 0; lane < LANES; lane++)
            results[i][lane] = start[i] ^ v[i][lane] ^ v[i + 8][lane];
}

/* True where the next values are all short, and done. */
static int hash_short(const uint64_t start[8], const uint8_t *values, const int64_t *bounds, uint8_t *result)
{
    uint64_t blocks[LANES][16], lengths[LANES], results[2][LANES];
    for (int lane = 0; lane < LANES; lane++) {
        lengths[lane] = (uint64_t)(bounds[lane + 1] - bounds[lane]);
        if (lengths[lane] > BLOCK_BYTES)
            return 0;
    }
    memset(blocks, 0, sizeof blocks);
    for (int lane = 0; lane < LANES; lane++) {
        if (lengths[lane])
            memcpy(blocks[lane], values + bounds[lane], (size_t)lengths[lane]);
        for (int i = 0; i < 16; i++)
            blocks[lane][i] = read_word((const uint8_t *)&blocks[lane][i]);
    }
    hash_lanes(start, (const uint64_t(*)[16])blocks, lengths, results);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < 2; i++)
            write_word(result + lane * DIGEST_BYTES + 8 * i, results[i][lane]);
    return 1;
}

static PyObject *hash_values(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned long long data, offsets, results;
    Py_ssize_t count, length;
    const char *person;
    if (!PyArg_ParseTuple(args, "KKnKy#", &data, &offsets, &count, &results, &person, &length))
        return NULL;
    if (length > PERSON_BYTES || count < 0) {
        PyErr_SetString(PyExc_ValueError, "at most 16 bytes of a person, and no less than no values");
        return NULL;
    }
    uint8_t personal[PERSON_BYTES] = {0};
    memcpy(personal, person, (size_t)length);
    uint64_t start[8];
    memcpy(start, START, sizeof start);
    start[0] ^= 0x01010000ULL ^ DIGEST_BYTES; /* depth and fan-out of 1, no key */
    start[6] ^= read_word(personal);
    start[7] ^= read_word(personal + 8);
    const uint8_t *values = (const uint8_t *)(uintptr_t)data;
    const int64_t *bounds = (const int64_t *)(uintptr_t)offsets;
    uint8_t *result = (uint8_t *)(uintptr_t)results;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count; i++) {
        if (count - i >= LANES && hash_short(start, values, bounds + i, result + i * DIGEST_BYTES)) {
            i += LANES - 1;
            continue;
        }
        uint64_t size = (uint64_t)(bounds[i + 1] - bounds[i]);
        hash_value(start, size ? values + bounds[i] : NULL, size, result + i * DIGEST_BYTES);
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* ---- buckets ---------------------------------------------------------------------------------------------------- */

static inline uint32_t mixed_word(uint32_t word)
{
    word *= 0xcc9e2d51U;
    word = word << 15 | word >> 17;
    return word * 0x1b873593U;
}

/* Murmur3 of 32 bits (x86), seed 0; of a long value the length counts modulo 2^32, as everywhere. */
static uint32_t murmur3(const uint8_t *value, uint64_t length)
{
    uint32_t hash = 0, rest = 0;
    uint64_t whole = length & ~(uint64_t)3;
    for (uint64_t i = 0; i < whole; i += 4) {
        uint32_t word = (uint32_t)value[i] | (uint32_t)value[i + 1] << 8 | (uint32_t)value[i + 2] << 16
                        | (uint32_t)value[i + 3] << 24;
        hash ^= mixed_word(word);
        hash = hash << 13 | hash >> 19;
        hash = hash * 5 + 0xe6546b64U;
    }
    for (uint64_t i = length; i > whole; i--)
        rest = rest << 8 | value[i - 1];
    hash ^= mixed_word(rest); /* of nothing it is 0 */
    hash ^= (uint32_t)length;
    hash = (hash ^ hash >> 16) * 0x85ebca6bU;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35U;
    return hash ^ hash >> 16;
}

static PyObject *bucket_values(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned long long data, offsets, results;
    Py_ssize_t count;
    int buckets;
    if (!PyArg_ParseTuple(args, "KKniK", &data, &offsets, &count, &buckets, &results))
        return NULL;
    if (buckets < 1 || count < 0) {
        PyErr_SetString(PyExc_ValueError, "at least one bucket, and no less than no values");
        return NULL;
    }
    const uint8_t *values = (const uint8_t *)(uintptr_t)data;
    const int64_t *bounds = (const int64_t *)(uintptr_t)offsets;
    int32_t *result = (int32_t *)(uintptr_t)results;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count; i++) {
        uint64_t size = (uint64_t)(bounds[i + 1] - bounds[i]);
        uint32_t hash = murmur3(size ? values + bounds[i] : NULL, size);
        result[i] = (int32_t)((hash & 0x7fffffffU) % (uint32_t)buckets);
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* ---- the search for hashes -------------------------------------------------------------------------------------- */

/* The first of `held`, from `first` on, that is not below `word`; all before `first` are. Hashes lie evenly, so where one is
 * can be guessed to within a few; from there on steps double. */
static size_t first_not_below(const uint64_t *held, size_t count, size_t first, uint64_t word)
{
    if (first >= count || held[first] >= word)
        return first;
    double ahead = (double)(word - held[first]) * ((double)count / 18446744073709551616.0);
    size_t left = count - first;
    size_t guess = first + (ahead < (double)left ? (size_t)ahead : left - 1);
    size_t low, high, step = 1; /* held[low] < word, and `high` is the end or held[high] >= word */
    if (guess >= count)
        guess = count - 1;
    if (held[guess] < word) {
        low = guess;
        while (step < count - low && held[low + step] < word) {
            low += step;
            step *= 2;
        }
        high = step < count - low ? low + step : count;
    } else {
        high = guess;
        while (step < high - first && held[high - step] >= word) {
            high -= step;
            step *= 2;
        }
        low = step < high - first ? high - step : first;
    }
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (held[middle] < word)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static PyObject *find_hashes(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned long long held_high, held_low, wanted_high, wanted_low, rows, entries;
    Py_ssize_t held_count, count, room;
    if (!PyArg_ParseTuple(args, "KKnKKnKKn", &held_high, &held_low, &held_count, &wanted_high, &wanted_low, &count, &rows,
                          &entries, &room))
        return NULL;
    if (held_count < 0 || count < 0 || room < 0) {
        PyErr_SetString(PyExc_ValueError, "no count is below nothing");
        return NULL;
    }
    const uint64_t *in_high = (const uint64_t *)(uintptr_t)held_high, *in_low = (const uint64_t *)(uintptr_t)held_low;
    const uint64_t *high = (const uint64_t *)(uintptr_t)wanted_high, *low = (const uint64_t *)(uintptr_t)wanted_low;
    int64_t *row_of = (int64_t *)(uintptr_t)rows, *entry_of = (int64_t *)(uintptr_t)entries;
    size_t at = 0;
    Py_ssize_t found = 0;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count; i++) {
        at = first_not_below(in_high, (size_t)held_count, at, high[i]);
        for (size_t entry = at; entry < (size_t)held_count && in_high[entry] == high[i]; entry++) {
            if (in_low[entry] != low[i])
                continue;
            if (found < room) {
                row_of[found] = (int64_t)i;
                entry_of[found] = (int64_t)entry;
            }
            found++;
        }
    }
    Py_END_ALLOW_THREADS
    return PyLong_FromSsize_t(found);
}

static PyMethodDef methods[] = {
    {"hash_values", hash_values, METH_VARARGS, NULL},
    {"bucket_values", bucket_values, METH_VARARGS, NULL},
    {"find_hashes", find_hashes, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_key_hash", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__key_hash(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
