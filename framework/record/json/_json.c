/* Parses newline-joined JSON objects of known fields into the buffers of Arrow arrays.
 *
 * In: a tree of kinds and names (compile), then the bytes and how many records they hold (decode). Out: the buffers of every
 * node of the tree, in its order, and the records that are left out since something is met in them that is not plainly what
 * the tree says: an unknown or repeated name, a value of another kind, a number that needs care, no JSON at all. None when
 * these are more than the caller allows. That is no verdict: the caller then asks Arrow's own parser, which this one never
 * contradicts (invariant 9; tests compare the two on random documents).
 *
 * Text of few words may be given as each row's place in a dictionary: less to copy, to sort and to write than the words are.
 *
 * The bytes are UTF-8 without a NUL (framework.record.json.framing has looked). It keeps to Python's limited interface of 3.10.
 */
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030A0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Raised with every change of what the functions take or give: a build of an older checkout is not used. */
#define INTERFACE 4
#define NAME "framework.record.json._json.tree"
#define MOST_OFFSET 0x7fffffff
#define FEW_KEYS 16 /* of a map: each is compared with each */
#define MOST_WORDS 2048 /* of a column of text that is given as places in a dictionary */
#define MOST_WORD_BYTES 32768
#define MOST_PROBES 128 /* for a word: where more of them look alike, the column is no column of few words */
#define BLOCKS_PLAIN 16 /* that a column with more words is given as it is, before a dictionary is tried again */

typedef enum { BOOLEAN, LONG, DOUBLE, STRING, DECIMAL, LIST, MAP, STRUCT } kind_t;

typedef struct {
    uint8_t *bytes;
    size_t length, room;
} grown_t;

typedef struct {
    uint64_t first, last;
    int32_t place; /* plus one; 0 where a slot is free */
    uint32_t length;
} word_t;

typedef struct node {
    kind_t kind;
    int scale;        /* of a decimal */
    int width;        /* of a decimal: 16 or 32 bytes */
    int precision;    /* of a decimal */
    int count;        /* children: of a list one, of a map its keys and items, of a struct its fields */
    struct node *children;
    char **names;     /* of a struct's fields */
    size_t *lengths;
    int *order;       /* which field came at each place in the last record: the next one is likely alike */
    int *slots;       /* names by hash: the field's place plus one, 0 where free; slot_mask + 1 of them */
    uint32_t slot_mask;
    int64_t rows, nulls;
    grown_t valid;    /* one byte a row while parsing */
    grown_t data;     /* values; of text its bytes; of booleans one byte a row */
    grown_t offsets;  /* of text, lists and maps */
    int may_encode;   /* text: where few words come again and again, they are given once, and each row as a word's place */
    int encodes;      /* in this block; `data` are then places, of 4 bytes each */
    int blocks_plain; /* to come */
    /* The words are kept from block to block, since the next one has the same, as a rule. */
    grown_t words, ends, text; /* `text` is of one word with escapes */
    int32_t count_of_words;
    word_t *by_hash;  /* slot_of_word_mask + 1 of them */
    uint32_t slot_of_word_mask;
    PyObject *given;  /* what `decode` gave for the first `given_words` words */
    int32_t given_words;
} node_t;

/* ---- memory ------------------------------------------------------------------------------------------------------- */

static int grow(grown_t *grown, size_t further)
{
    size_t wanted = grown->length + further, room = grown->room ? grown->room : 4096;
    if (wanted <= grown->room)
        return 1;
    while (room < wanted)
        room *= 2;
    uint8_t *bytes = realloc(grown->bytes, room);
    if (bytes == NULL)
        return 0;
    grown->bytes = bytes;
    grown->room = room;
    return 1;
}

static inline int put(grown_t *grown, const void *bytes, size_t length)
{
    if (length == 0)
        return 1; /* there may be no memory yet */
    if (grown->length + length > grown->room && !grow(grown, length))
        return 0;
    memcpy(grown->bytes + grown->length, bytes, length);
    grown->length += length;
    return 1;
}

/* As `put`, where 16 bytes may be read: short text, which most is, is copied without a call. */
static inline int put_near(grown_t *grown, const char *bytes, size_t length)
{
    if (length > 16 || grown->length + 16 > grown->room)
        return put(grown, bytes, length);
    memcpy(grown->bytes + grown->length, bytes, 16);
    grown->length += length;
    return 1;
}

/* What memcmp says of names, which are too short for a call. */
static inline int same(const char *left, const char *right, size_t length)
{
    uint64_t a, b;
    uint32_t c, d;
    if (length >= 8) {
        for (size_t i = 0; i + 8 < length; i += 8) {
            memcpy(&a, left + i, 8);
            memcpy(&b, right + i, 8);
            if (a != b)
                return 0;
        }
        memcpy(&a, left + length - 8, 8);
        memcpy(&b, right + length - 8, 8);
        return a == b;
    }
    if (length >= 4) {
        memcpy(&c, left, 4);
        memcpy(&d, right, 4);
        if (c != d)
            return 0;
        memcpy(&c, left + length - 4, 4);
        memcpy(&d, right + length - 4, 4);
        return c == d;
    }
    for (size_t i = 0; i < length; i++)
        if (left[i] != right[i])
            return 0;
    return 1;
}

static inline int put_byte(grown_t *grown, uint8_t byte)
{
    if (grown->length == grown->room && !grow(grown, 1))
        return 0;
    grown->bytes[grown->length++] = byte;
    return 1;
}

static void clear(node_t *node)
{
    grown_t *all[] = {&node->valid, &node->data, &node->offsets, &node->text};
    for (int i = 0; i < 4; i++) {
        free(all[i]->bytes);
        memset(all[i], 0, sizeof(grown_t));
    }
    node->rows = node->nulls = 0;
    for (int i = 0; i < node->count; i++)
        clear(&node->children[i]);
}

static void forget_words(node_t *node)
{
    node->words.length = node->ends.length = 0;
    node->count_of_words = 0;
    free(node->by_hash);
    node->by_hash = NULL;
    node->slot_of_word_mask = 0;
    Py_CLEAR(node->given);
}

static void drop(node_t *node)
{
    clear(node);
    forget_words(node);
    free(node->words.bytes);
    free(node->ends.bytes);
    for (int i = 0; i < node->count; i++) {
        if (node->names != NULL)
            free(node->names[i]);
        drop(&node->children[i]);
    }
    free(node->children);
    free(node->names);
    free(node->lengths);
    free(node->order);
    free(node->slots);
    memset(node, 0, sizeof *node);
}

static void drop_tree(PyObject *capsule)
{
    node_t *root = PyCapsule_GetPointer(capsule, NAME);
    if (root != NULL) {
        drop(root);
        free(root);
    }
}

/* ---- the tree ------------------------------------------------------------------------------------------------------ */

/* Of this process alone: who sends records cannot make names that meet in one slot. */
static uint64_t secret[2];

#define TURN(value, by) ((value) << (by) | (value) >> (64 - (by)))
#define SIP_ROUND(a, b, c, d)                                                                                       \
    do {                                                                                                            \
        a += b, c += d, b = TURN(b, 13) ^ a, d = TURN(d, 16) ^ c, a = TURN(a, 32);                                  \
        c += b, a += d, b = TURN(b, 17) ^ c, d = TURN(d, 21) ^ a, c = TURN(c, 32);                                  \
    } while (0)

/* SipHash-1-3 (Aumasson and Bernstein 2012), which Python has for its own text. */
static uint32_t hash(const char *name, size_t length)
{
    uint64_t a = secret[0] ^ 0x736f6d6570736575ull, b = secret[1] ^ 0x646f72616e646f6dull;
    uint64_t c = secret[0] ^ 0x6c7967656e657261ull, d = secret[1] ^ 0x7465646279746573ull;
    uint64_t word, last = (uint64_t)length << 56;
    size_t rest = length & 7;
    for (const char *end = name + length - rest; name < end; name += 8) {
        memcpy(&word, name, 8);
        d ^= word;
        SIP_ROUND(a, b, c, d);
        a ^= word;
    }
    for (size_t i = 0; i < rest; i++)
        last |= (uint64_t)(uint8_t)name[i] << 8 * i;
    d ^= last;
    SIP_ROUND(a, b, c, d);
    a ^= last;
    c ^= 0xff;
    SIP_ROUND(a, b, c, d);
    SIP_ROUND(a, b, c, d);
    SIP_ROUND(a, b, c, d);
    return (uint32_t)(a ^ b ^ c ^ d);
}

/* The secret, from the operating system; 0 with an exception. */
static int draw_secret(void)
{
    PyObject *os = PyImport_ImportModule("os");
    PyObject *drawn = os == NULL ? NULL : PyObject_CallMethod(os, "urandom", "n", (Py_ssize_t)sizeof secret);
    char *bytes = drawn == NULL ? NULL : PyBytes_AsString(drawn);
    if (bytes != NULL)
        memcpy(secret, bytes, sizeof secret);
    Py_XDECREF(drawn);
    Py_XDECREF(os);
    return bytes != NULL;
}

static int find(const node_t *node, const char *name, size_t length)
{
    for (uint32_t slot = hash(name, length) & node->slot_mask;; slot = (slot + 1) & node->slot_mask) {
        int field = node->slots[slot] - 1;
        if (field < 0 || (node->lengths[field] == length && memcmp(node->names[field], name, length) == 0))
            return field;
    }
}

static int build(node_t *node, PyObject *spec);

static int build_fields(node_t *node, PyObject *fields)
{
    Py_ssize_t count = PyTuple_Size(fields);
    uint32_t slots = 4;
    if (count < 0)
        return 0;
    while (slots < 2 * (uint32_t)count + 2)
        slots *= 2;
    node->children = calloc(count ? count : 1, sizeof(node_t));
    node->names = calloc(count ? count : 1, sizeof(char *));
    node->lengths = calloc(count ? count : 1, sizeof(size_t));
    node->order = calloc(count ? count : 1, sizeof(int));
    node->slots = calloc(slots, sizeof(int));
    node->slot_mask = slots - 1;
    if (!node->children || !node->names || !node->lengths || !node->order || !node->slots) {
        PyErr_NoMemory();
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *field = PyTuple_GetItem(fields, i), *spec;
        const char *name;
        Py_ssize_t length;
        if (field == NULL || !PyArg_ParseTuple(field, "y#O", &name, &length, &spec))
            return 0;
        if (find(node, name, length) >= 0) {
            PyErr_SetString(PyExc_ValueError, "two fields have one name");
            return 0;
        }
        node->names[i] = malloc(length + 1);
        if (node->names[i] == NULL) {
            PyErr_NoMemory();
            return 0;
        }
        memcpy(node->names[i], name, length);
        node->lengths[i] = length;
        node->order[i] = (int)i;
        node->count = (int)i + 1;
        uint32_t slot = hash(name, length) & node->slot_mask;
        while (node->slots[slot])
            slot = (slot + 1) & node->slot_mask;
        node->slots[slot] = (int)i + 1;
        if (!build(&node->children[i], spec))
            return 0;
    }
    return 1;
}

/* A spec is (kind,), ("words",) of text that may be given by a dictionary, ("decimal", width, precision, scale), ("list", spec),
 * ("map", spec of the items), whose keys are text, or ("struct", ((name, spec), ...)). */
static int build(node_t *node, PyObject *spec)
{
    const char *kind;
    PyObject *first = PyTuple_GetItem(spec, 0);
    if (first == NULL || (kind = PyUnicode_AsUTF8AndSize(first, NULL)) == NULL)
        return 0;
    if (strcmp(kind, "boolean") == 0)
        node->kind = BOOLEAN;
    else if (strcmp(kind, "long") == 0)
        node->kind = LONG;
    else if (strcmp(kind, "double") == 0)
        node->kind = DOUBLE;
    else if (strcmp(kind, "string") == 0)
        node->kind = STRING;
    else if (strcmp(kind, "words") == 0) {
        node->kind = STRING;
        node->may_encode = 1;
    } else if (strcmp(kind, "decimal") == 0) {
        node->kind = DECIMAL;
        return PyArg_ParseTuple(spec, "Oiii", &first, &node->width, &node->precision, &node->scale);
    } else if (strcmp(kind, "list") == 0) {
        node->kind = LIST;
        PyObject *element = PyTuple_GetItem(spec, 1);
        node->children = calloc(1, sizeof(node_t));
        if (element == NULL || node->children == NULL)
            return 0;
        node->count = 1;
        return build(&node->children[0], element);
    } else if (strcmp(kind, "map") == 0) {
        node->kind = MAP;
        PyObject *item = PyTuple_GetItem(spec, 1);
        node->children = calloc(2, sizeof(node_t));
        if (item == NULL || node->children == NULL)
            return 0;
        node->children[0].kind = STRING;
        node->count = 2;
        return build(&node->children[1], item);
    } else if (strcmp(kind, "struct") == 0) {
        node->kind = STRUCT;
        PyObject *fields = PyTuple_GetItem(spec, 1);
        return fields != NULL && build_fields(node, fields);
    } else {
        PyErr_Format(PyExc_ValueError, "no kind %s", kind);
        return 0;
    }
    return 1;
}

PyDoc_STRVAR(compile_doc, "compile(spec) -> tree: what `decode` takes; the spec is described in _json.pyi.");
static PyObject *compile(PyObject *self, PyObject *spec)
{
    node_t *root = calloc(1, sizeof(node_t));
    (void)self;
    if (root == NULL)
        return PyErr_NoMemory();
    if (!build(root, spec) || root->kind != STRUCT) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "the root is a struct");
        drop(root);
        free(root);
        return NULL;
    }
    return PyCapsule_New(root, NAME, drop_tree);
}

/* ---- values -------------------------------------------------------------------------------------------------------- */

static const char *skip(const char *at)
{
    /* A newline ends the record; the bytes end with a NUL, which stops every loop here. */
    while (*at == ' ' || *at == '\t' || *at == '\r')
        at++;
    return at;
}

static int put_offset(node_t *node, size_t length)
{
    int32_t offset = (int32_t)length;
    return length <= MOST_OFFSET && put(&node->offsets, &offset, sizeof offset);
}

static int put_null(node_t *node)
{
    static const uint8_t zeros[32];
    node->rows++;
    node->nulls++;
    if (!put_byte(&node->valid, 0))
        return 0;
    switch (node->kind) {
    case BOOLEAN:
        return put_byte(&node->data, 0);
    case LONG:
    case DOUBLE:
        return put(&node->data, zeros, 8);
    case DECIMAL:
        return put(&node->data, zeros, node->width);
    case STRING:
        return node->encodes ? put(&node->data, zeros, 4) : put_offset(node, node->data.length);
    case LIST:
    case MAP:
        return put_offset(node, node->children[0].rows);
    case STRUCT:
        for (int i = 0; i < node->count; i++)
            if (!put_null(&node->children[i]))
                return 0;
        return 1;
    }
    return 0;
}

#define ONES 0x0101010101010101ull
#define HIGHS 0x8080808080808080ull
#define HAS_ZERO(word) (((word) - ONES) & ~(word) & HIGHS)

/* The first quote, backslash or control character. */
static const char *plain(const char *at, const char *end)
{
    while (end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        uint64_t stop = HAS_ZERO(word ^ (ONES * '"')) | HAS_ZERO(word ^ (ONES * '\\'))
            | ((word - ONES * 0x20) & ~word & HIGHS);
        if (stop) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            return at + (__builtin_ctzll(stop) >> 3);
#else
            break;
#endif
        }
        at += 8;
    }
    while (*at != '"' && *at != '\\' && (uint8_t)*at >= 0x20)
        at++;
    return at;
}

static int hex4(const char *at)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            return -1; /* the NUL at the end is no digit: nothing behind it is read */
        value = value * 16 + digit;
    }
    return value;
}

static const char *put_escape(grown_t *text, const char *at)
{
    char simple = 0;
    switch (*at) {
    case '"': case '\\': case '/': simple = *at; break;
    case 'b': simple = '\b'; break;
    case 'f': simple = '\f'; break;
    case 'n': simple = '\n'; break;
    case 'r': simple = '\r'; break;
    case 't': simple = '\t'; break;
    }
    if (simple)
        return put_byte(text, simple) ? at + 1 : NULL;
    if (*at != 'u')
        return NULL;
    int code = hex4(at + 1);
    at += 5;
    if (code <= 0)
        return NULL;
    if (code >= 0xd800 && code < 0xe000) {
        if (code >= 0xdc00 || at[0] != '\\' || at[1] != 'u')
            return NULL;
        int low = hex4(at + 2);
        if (low < 0xdc00 || low >= 0xe000)
            return NULL;
        at += 6;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    uint8_t utf8[4];
    int length;
    if (code < 0x80) {
        utf8[0] = code;
        length = 1;
    } else if (code < 0x800) {
        utf8[0] = 0xc0 | code >> 6;
        utf8[1] = 0x80 | (code & 0x3f);
        length = 2;
    } else if (code < 0x10000) {
        utf8[0] = 0xe0 | code >> 12;
        utf8[1] = 0x80 | (code >> 6 & 0x3f);
        utf8[2] = 0x80 | (code & 0x3f);
        length = 3;
    } else {
        utf8[0] = 0xf0 | code >> 18;
        utf8[1] = 0x80 | (code >> 12 & 0x3f);
        utf8[2] = 0x80 | (code >> 6 & 0x3f);
        utf8[3] = 0x80 | (code & 0x3f);
        length = 4;
    }
    return put(text, utf8, length) ? at : NULL;
}

/* ---- words ---------------------------------------------------------------------------------------------------------- */

/* A word by its first and its last 8 bytes, which may overlap; of a shorter one all bytes are in `first`. */
static inline word_t word_of(const char *bytes, size_t length, const char *end)
{
    word_t word = {0, 0, 0, (uint32_t)length};
    if (length >= 8) {
        memcpy(&word.first, bytes, 8);
        memcpy(&word.last, bytes + length - 8, 8);
    } else if (end - bytes >= 8) {
        memcpy(&word.first, bytes, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        word.first &= (1ull << 8 * length) - 1;
#else
        word.first &= ~(~0ull >> 8 * length);
#endif
    } else if (length > 0)
        memcpy(&word.first, bytes, length);
    return word;
}

static inline uint32_t slot_of(const node_t *node, word_t word)
{
    uint64_t value = (word.first ^ word.last * 0x9e3779b97f4a7c15ull ^ word.length) * 0xff51afd7ed558ccdull;
    return (uint32_t)((value ^ value >> 29) * 0xc4ceb9fe1a85ec53ull >> 40) & node->slot_of_word_mask;
}

/* From now on this block's texts are given as they are; those before too. */
static int give_plain(node_t *node)
{
    grown_t texts = {0}, offsets = {0};
    const int32_t *places = (const int32_t *)node->data.bytes, *ends = (const int32_t *)node->ends.bytes;
    int32_t offset = 0;
    int done = put(&offsets, &offset, sizeof offset);
    for (size_t i = 0; done && i < node->data.length / sizeof offset; i++) {
        if (node->valid.bytes[i]) {
            int32_t first = places[i] ? ends[places[i] - 1] : 0;
            done = put(&texts, node->words.bytes + first, ends[places[i]] - first) && texts.length <= MOST_OFFSET;
        }
        offset = (int32_t)texts.length;
        done = done && put(&offsets, &offset, sizeof offset);
    }
    if (!done) {
        free(texts.bytes);
        free(offsets.bytes);
        return 0;
    }
    free(node->data.bytes);
    free(node->offsets.bytes);
    node->data = texts;
    node->offsets = offsets;
    node->encodes = 0;
    node->blocks_plain = BLOCKS_PLAIN;
    forget_words(node);
    return 1;
}

static int grow_words(node_t *node)
{
    uint32_t room = node->by_hash == NULL ? 64 : 2 * (node->slot_of_word_mask + 1);
    word_t *words = calloc(room, sizeof(word_t));
    const int32_t *ends = (const int32_t *)node->ends.bytes;
    if (words == NULL)
        return 0;
    node->slot_of_word_mask = room - 1;
    for (int32_t i = 0; i < node->count_of_words; i++) {
        int32_t first = i ? ends[i - 1] : 0;
        const char *bytes = (const char *)node->words.bytes;
        word_t word = word_of(bytes + first, ends[i] - first, bytes + ends[i]);
        uint32_t slot = slot_of(node, word);
        while (words[slot].place) /* as long as words look alike, at most; put_word lets few of these in */
            slot = (slot + 1) & node->slot_of_word_mask;
        words[slot] = word;
        words[slot].place = i + 1;
    }
    free(node->by_hash);
    node->by_hash = words;
    return 1;
}

/* The place of a word, before `end` of what may be read: 1 and the place is put, 0 where the words are too many or too long,
 * -1 without memory. */
static inline int put_word(node_t *node, const char *bytes, size_t length, const char *end)
{
    if (2 * (uint32_t)node->count_of_words >= node->slot_of_word_mask && !grow_words(node))
        return -1;
    if (length > MOST_WORD_BYTES)
        return 0;
    word_t word = word_of(bytes, length, end);
    uint32_t slot = slot_of(node, word);
    int probes = 0;
    for (const word_t *known; (known = &node->by_hash[slot])->place; slot = (slot + 1) & node->slot_of_word_mask) {
        int32_t place = known->place - 1;
        if (++probes > MOST_PROBES)
            return 0;
        if (known->first == word.first && known->last == word.last && known->length == word.length
            && (length <= 16
                || same(bytes, (const char *)node->words.bytes + ((int32_t *)node->ends.bytes)[place] - length, length)))
            return put(&node->data, &place, sizeof place) ? 1 : -1;
    }
    int32_t place = node->count_of_words, until = (int32_t)(node->words.length + length);
    if (place == MOST_WORDS || length > MOST_WORD_BYTES - node->words.length)
        return 0;
    if (!put(&node->words, bytes, length) || !put(&node->ends, &until, sizeof until)
        || !put(&node->data, &place, sizeof place)) {
        node->words.length = until - length; /* no half of a word stays */
        node->ends.length = place * sizeof until;
        return -1;
    }
    word.place = ++node->count_of_words;
    node->by_hash[slot] = word;
    return 1;
}

/* As `put_text`, of a column that gives words. */
static const char *put_text_as_word(node_t *node, const char *at, const char *end)
{
    const char *stop = plain(at, end), *word = at, *until = end;
    size_t length = stop - at;
    if (*stop != '"') {
        node->text.length = 0;
        for (;;) {
            if (!put(&node->text, at, stop - at))
                return NULL;
            if (*stop == '"')
                break;
            if (*stop != '\\' || (at = put_escape(&node->text, stop + 1)) == NULL)
                return NULL;
            stop = plain(at, end);
        }
        word = (const char *)node->text.bytes;
        length = node->text.length;
        until = word + length;
    }
    int found = put_word(node, word, length, until);
    if (found == 0)
        found = give_plain(node) && put(&node->data, word, length) && put_offset(node, node->data.length);
    return found > 0 ? stop + 1 : NULL;
}

/* `at` is behind the opening quote. */
static const char *put_text(node_t *node, const char *at, const char *end)
{
    if (node->encodes)
        return put_text_as_word(node, at, end);
    for (;;) {
        const char *stop = plain(at, end);
        if (!(end - at >= 16 ? put_near(&node->data, at, stop - at) : put(&node->data, at, stop - at)))
            return NULL;
        if (*stop == '"') {
            if (!put_offset(node, node->data.length))
                return NULL;
            return stop + 1;
        }
        if (*stop != '\\' || (at = put_escape(&node->data, stop + 1)) == NULL)
            return NULL;
    }
}

/* A number's text: whole digits, digits behind the point, exponent. Up to 19 significant digits are kept in `digits`. */
typedef struct {
    uint64_t digits;
    int count;     /* significant digits met; more than 19 are not in `digits` */
    int fraction;  /* digits behind the point */
    int exponent;
    int is_negative, is_whole;
} number_t;

static const char *read_number(number_t *number, const char *at)
{
    memset(number, 0, sizeof *number);
    number->is_whole = 1;
    if (*at == '-') {
        number->is_negative = 1;
        at++;
    }
    if (*at < '0' || *at > '9')
        return NULL;
    if (*at == '0' && at[1] >= '0' && at[1] <= '9')
        return NULL;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (number->count || *at != '0') {
            if (++number->count <= 19)
                number->digits = number->digits * 10 + (*at - '0');
        }
    }
    if (*at == '.') {
        number->is_whole = 0;
        at++;
        if (*at < '0' || *at > '9')
            return NULL;
        for (; *at >= '0' && *at <= '9'; at++) {
            number->fraction++;
            if (number->count || *at != '0') {
                if (++number->count <= 19)
                    number->digits = number->digits * 10 + (*at - '0');
            }
        }
    }
    if (*at == 'e' || *at == 'E') {
        int is_negative = 0, exponent = 0;
        number->is_whole = 0;
        at++;
        if (*at == '+' || *at == '-')
            is_negative = *at++ == '-';
        if (*at < '0' || *at > '9')
            return NULL;
        for (; *at >= '0' && *at <= '9'; at++)
            if (exponent < 100000)
                exponent = exponent * 10 + (*at - '0');
        number->exponent = is_negative ? -exponent : exponent;
    }
    return at;
}

static const char *put_long(node_t *node, const char *at)
{
    number_t number;
    const char *behind = read_number(&number, at);
    if (behind == NULL || !number.is_whole || number.count > 19)
        return NULL;
    /* 19 digits fit 64 bits without a sign; with one, what is beyond the range is Arrow's to refuse. */
    if (number.digits > (uint64_t)INT64_MAX)
        return NULL;
    int64_t value = number.is_negative ? -(int64_t)number.digits : (int64_t)number.digits;
    return put(&node->data, &value, sizeof value) ? behind : NULL;
}

static const double TENS[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Whether the column is to have the number's nearest value is not for this parser to say where digits of a whole one are lost. */
static int loses_digits(const number_t *number)
{
    if (!number->is_whole || number->count <= 15)
        return 0;
    return number->count > 19 || number->digits > (uint64_t)INT64_MAX ||
           (uint64_t)(double)number->digits != number->digits;
}

static const char *put_double(node_t *node, const char *at)
{
    number_t number;
    const char *behind = read_number(&number, at);
    double value;
    if (behind == NULL || loses_digits(&number))
        return NULL;
    int exponent = number.exponent - number.fraction;
    if (number.count <= 15 && exponent >= -22 && exponent <= 22) {
        /* Both are exact as doubles, so the one operation rounds right (Clinger 1990). */
        value = (double)number.digits;
        value = exponent < 0 ? value / TENS[-exponent] : value * TENS[exponent];
        if (number.is_negative)
            value = -value;
    } else {
        char text[64];
        size_t length = behind - at;
        if (length >= sizeof text)
            return NULL;
        memcpy(text, at, length);
        text[length] = 0;
        value = PyOS_string_to_double(text, NULL, NULL);
        if (value == -1.0 && PyErr_Occurred()) {
            PyErr_Clear();
            return NULL;
        }
        if (!(value - value == 0)) /* too large for a double */
            return NULL;
    }
    return put(&node->data, &value, sizeof value) ? behind : NULL;
}

static const char *put_decimal(node_t *node, const char *at)
{
    number_t number;
    const char *behind = read_number(&number, at);
    if (behind == NULL || number.exponent != 0 || number.count > 18 || number.fraction > node->scale)
        return NULL;
    int further = node->scale - number.fraction;
    if (number.count + further > 37 || number.count + further > node->precision)
        return NULL;
    __int128 value = number.digits;
    for (int i = 0; i < further; i++)
        value *= 10;
    if (number.is_negative)
        value = -value;
    uint8_t wide[32];
    memset(wide, value < 0 ? 0xff : 0, sizeof wide);
    memcpy(wide, &value, sizeof value);
    return put(&node->data, wide, node->width) ? behind : NULL;
}

/* ---- structure ------------------------------------------------------------------------------------------------------ */

static const char *put_value(node_t *node, const char *at, const char *end);

static const char *put_list(node_t *node, const char *at, const char *end)
{
    node_t *element = &node->children[0];
    at = skip(at);
    if (*at == ']')
        at++;
    else
        for (;;) {
            if ((at = put_value(element, skip(at), end)) == NULL)
                return NULL;
            at = skip(at);
            if (*at == ',')
                at++;
            else if (*at++ == ']')
                break;
            else
                return NULL;
        }
    return put_offset(node, element->rows) ? at : NULL;
}

/* Whether two of the texts from row `first` on are the same. */
static int repeats(const node_t *texts, int64_t first)
{
    const uint8_t *bytes = texts->data.bytes;
    const int32_t *offsets = (const int32_t *)texts->offsets.bytes;
    int64_t count = texts->rows - first;
    if (count <= FEW_KEYS) {
        for (int64_t i = first; i < texts->rows; i++) {
            size_t length = offsets[i + 1] - offsets[i];
            for (int64_t j = first; j < i; j++)
                if ((size_t)(offsets[j + 1] - offsets[j]) == length
                    && (length == 0 || memcmp(bytes + offsets[j], bytes + offsets[i], length) == 0))
                    return 1;
        }
        return 0;
    }
    uint32_t slots = 4;
    while (slots < 2 * (uint64_t)count)
        slots *= 2;
    int64_t *places = calloc(slots, sizeof(int64_t));
    int found = places == NULL; /* without memory the record is left to the caller */
    for (int64_t i = first; !found && i < texts->rows; i++) {
        size_t length = offsets[i + 1] - offsets[i];
        uint32_t slot = hash((const char *)bytes + offsets[i], length) & (slots - 1);
        for (; !found && places[slot]; slot = (slot + 1) & (slots - 1)) {
            int64_t j = places[slot] - 1;
            found = (size_t)(offsets[j + 1] - offsets[j]) == length
                && (length == 0 || memcmp(bytes + offsets[j], bytes + offsets[i], length) == 0);
        }
        places[slot] = i + 1;
    }
    free(places);
    return found;
}

/* `at` is behind the opening brace. */
static const char *put_map(node_t *node, const char *at, const char *end)
{
    node_t *keys = &node->children[0], *items = &node->children[1];
    int64_t first = keys->rows;
    at = skip(at);
    if (*at == '}')
        at++;
    else
        for (;;) {
            if (*at != '"')
                return NULL;
            keys->rows++;
            if (!put_byte(&keys->valid, 1) || (at = put_text(keys, at + 1, end)) == NULL)
                return NULL;
            at = skip(at);
            if (*at++ != ':')
                return NULL;
            if ((at = put_value(items, skip(at), end)) == NULL)
                return NULL;
            at = skip(at);
            if (*at == ',')
                at = skip(at + 1);
            else if (*at++ == '}')
                break;
            else
                return NULL;
        }
    return !repeats(keys, first) && put_offset(node, keys->rows) ? at : NULL;
}

/* `at` is behind the opening brace; `rows` of the node counts this one already. */
static const char *put_fields(node_t *node, const char *at, const char *end)
{
    int place = 0, seen = 0;
    at = skip(at);
    if (*at == '}')
        at++;
    else
        for (;; place++) {
            if (*at++ != '"')
                return NULL;
            int field = place < node->count ? node->order[place] : -1;
            size_t length = field < 0 ? 0 : node->lengths[field];
            if (field < 0 || (size_t)(end - at) <= length || at[length] != '"' || !same(at, node->names[field], length)) {
                const char *stop = plain(at, end);
                if (*stop != '"')
                    return NULL;
                length = stop - at;
                field = find(node, at, length);
                if (field < 0)
                    return NULL;
                if (place < node->count)
                    node->order[place] = field;
            }
            node_t *child = &node->children[field];
            if (child->rows != node->rows - 1)
                return NULL; /* the name came twice */
            at = skip(at + length + 1);
            if (*at++ != ':')
                return NULL;
            if ((at = put_value(child, skip(at), end)) == NULL)
                return NULL;
            seen++;
            at = skip(at);
            if (*at == ',')
                at = skip(at + 1);
            else if (*at++ == '}')
                break;
            else
                return NULL;
        }
    if (seen < node->count)
        for (int i = 0; i < node->count; i++)
            if (node->children[i].rows < node->rows && !put_null(&node->children[i]))
                return NULL;
    return at;
}

static const char *put_value(node_t *node, const char *at, const char *end)
{
    if (*at == 'n') {
        if (end - at < 4 || memcmp(at, "null", 4) != 0)
            return NULL;
        return put_null(node) ? at + 4 : NULL;
    }
    node->rows++;
    if (!put_byte(&node->valid, 1))
        return NULL;
    switch (node->kind) {
    case BOOLEAN:
        if (end - at >= 4 && memcmp(at, "true", 4) == 0)
            return put_byte(&node->data, 1) ? at + 4 : NULL;
        if (end - at >= 5 && memcmp(at, "false", 5) == 0)
            return put_byte(&node->data, 0) ? at + 5 : NULL;
        return NULL;
    case LONG:
        return put_long(node, at);
    case DOUBLE:
        return put_double(node, at);
    case DECIMAL:
        return put_decimal(node, at);
    case STRING:
        return *at == '"' ? put_text(node, at + 1, end) : NULL;
    case LIST:
        return *at == '[' ? put_list(node, at + 1, end) : NULL;
    case MAP:
        return *at == '{' ? put_map(node, at + 1, end) : NULL;
    case STRUCT:
        return *at == '{' ? put_fields(node, at + 1, end) : NULL;
    }
    return NULL;
}

/* ---- what comes out ------------------------------------------------------------------------------------------------- */

static PyObject *bits(const grown_t *bytes)
{
    PyObject *packed = PyBytes_FromStringAndSize(NULL, (bytes->length + 7) / 8);
    if (packed == NULL)
        return NULL;
    uint8_t *to = (uint8_t *)PyBytes_AsString(packed);
    memset(to, 0, (bytes->length + 7) / 8);
    for (size_t i = 0; i < bytes->length; i++)
        to[i >> 3] |= bytes->bytes[i] << (i & 7);
    return packed;
}

static PyObject *plain_bytes(const grown_t *bytes)
{
    return PyBytes_FromStringAndSize((const char *)bytes->bytes, bytes->length);
}

/* (how many words, their ends, their bytes): the same object while there are no more of them. */
static PyObject *given_words(node_t *node)
{
    if (node->given == NULL || node->given_words != node->count_of_words) {
        Py_CLEAR(node->given);
        PyObject *ends = plain_bytes(&node->ends), *words = plain_bytes(&node->words);
        if (ends != NULL && words != NULL)
            node->given = Py_BuildValue("iOO", (int)node->count_of_words, ends, words);
        node->given_words = node->count_of_words;
        Py_XDECREF(ends);
        Py_XDECREF(words);
    }
    return Py_XNewRef(node->given);
}

/* (rows, nulls, validity or None, offsets or None, data or None, words or None) of the node and then of its children, depth
 * first. */
static int give(node_t *node, PyObject *list)
{
    PyObject *valid = NULL, *offsets = NULL, *data = NULL, *words = NULL, *tuple = NULL;
    int done = 0;
    if (node->encodes && node->count_of_words == 0 && !give_plain(node)) {
        PyErr_NoMemory();
        return 0;
    }
    valid = node->nulls ? bits(&node->valid) : Py_NewRef(Py_None);
    words = node->encodes ? given_words(node) : Py_NewRef(Py_None);
    offsets = (node->kind == STRING && !node->encodes) || node->kind == LIST || node->kind == MAP
        ? plain_bytes(&node->offsets) : Py_NewRef(Py_None);
    data = node->kind == LIST || node->kind == MAP || node->kind == STRUCT ? Py_NewRef(Py_None)
        : node->kind == BOOLEAN ? bits(&node->data) : plain_bytes(&node->data);
    if (valid && offsets && data && words
        && (tuple = Py_BuildValue("LLOOOO", (long long)node->rows, (long long)node->nulls, valid, offsets, data, words)) != NULL
        && PyList_Append(list, tuple) == 0) {
        done = 1;
        for (int i = 0; done && i < node->count; i++)
            done = give(&node->children[i], list);
    }
    Py_XDECREF(valid);
    Py_XDECREF(offsets);
    Py_XDECREF(data);
    Py_XDECREF(words);
    Py_XDECREF(tuple);
    return done;
}

static int begin(node_t *node)
{
    if (node->may_encode) {
        node->encodes = node->blocks_plain == 0;
        node->blocks_plain -= node->blocks_plain > 0;
        if (2 * node->count_of_words > MOST_WORDS || 2 * node->words.length > MOST_WORD_BYTES)
            forget_words(node); /* words that are new now and then do not fill it up in the end */
    }
    if (((node->kind == STRING && !node->encodes) || node->kind == LIST || node->kind == MAP) && !put_offset(node, 0))
        return 0;
    for (int i = 0; i < node->count; i++)
        if (!begin(&node->children[i]))
            return 0;
    return 1;
}

/* Takes back what lies behind the first `rows` rows: of a record that was given up half way. */
static void cut(node_t *node, int64_t rows)
{
    int32_t length;
    for (size_t i = rows; i < node->valid.length; i++)
        node->nulls -= node->valid.bytes[i] == 0;
    if (node->valid.length > (size_t)rows)
        node->valid.length = rows;
    node->rows = rows;
    switch (node->kind) {
    case BOOLEAN:
    case LONG:
    case DOUBLE:
    case DECIMAL: {
        size_t width = node->kind == BOOLEAN ? 1 : node->kind == DECIMAL ? node->width : 8;
        if (node->data.length > rows * width)
            node->data.length = rows * width;
        return;
    }
    case STRING:
        if (node->encodes) {
            if (node->data.length > rows * sizeof length)
                node->data.length = rows * sizeof length;
            return;
        }
        /* fall through */
    case LIST:
    case MAP:
        /* There is an offset more than rows, and the text or the elements of a row end where its offset says. */
        node->offsets.length = (rows + 1) * sizeof length;
        memcpy(&length, node->offsets.bytes + rows * sizeof length, sizeof length);
        if (node->kind == STRING)
            node->data.length = length;
        else
            for (int i = 0; i < node->count; i++)
                cut(&node->children[i], length);
        return;
    case STRUCT:
        for (int i = 0; i < node->count; i++)
            cut(&node->children[i], rows);
    }
}

/* One record; what is behind it, or NULL. */
static const char *put_record(node_t *root, const char *at, const char *end)
{
    at = skip(at);
    if (*at != '{')
        return NULL;
    root->rows++;
    if ((at = put_fields(root, at + 1, end)) == NULL)
        return NULL;
    at = skip(at);
    return at == end || *at == '\n' ? at : NULL;
}

/* 1 when all is done, 0 when Arrow must be asked, -1 with an exception. */
static int parse(node_t *root, const char *at, const char *end, Py_ssize_t records, Py_ssize_t most, PyObject *odd)
{
    for (Py_ssize_t record = 0; record < records; record++) {
        int64_t rows = root->rows;
        const char *behind = put_record(root, at, end);
        if (behind == NULL) {
            if (most-- <= 0)
                return 0;
            cut(root, rows);
            PyObject *place = PyLong_FromSsize_t(record);
            int added = place != NULL && PyList_Append(odd, place) == 0;
            Py_XDECREF(place);
            if (!added)
                return -1;
            /* No record holds a newline, and no loop above goes past one. */
            behind = memchr(at, '\n', end - at);
            behind = behind == NULL ? end : behind;
        }
        if (record + 1 < records && behind == end)
            return 0;
        at = behind == end ? end : behind + 1;
        if (record + 1 == records && behind != end)
            return 0;
    }
    return at == end;
}

PyDoc_STRVAR(decode_doc, "decode(tree, data, records, most) -> buffers of every node and the places of up to `most` records "
                         "that are left out, or None where Arrow must be asked.");
static PyObject *decode(PyObject *self, PyObject *arguments)
{
    PyObject *capsule, *bytes, *nodes = NULL, *odd = NULL, *found = NULL;
    char *data;
    Py_ssize_t length, records, most;
    (void)self;
    /* A bytes object, which ends with a NUL: the loops above rely on it. */
    if (!PyArg_ParseTuple(arguments, "OSnn", &capsule, &bytes, &records, &most)
        || PyBytes_AsStringAndSize(bytes, &data, &length) != 0)
        return NULL;
    node_t *root = PyCapsule_GetPointer(capsule, NAME);
    if (root == NULL || (odd = PyList_New(0)) == NULL)
        return NULL;
    clear(root);
    int done = begin(root) ? parse(root, data, data + length, records, most, odd) : 0;
    if (done > 0) {
        nodes = PyList_New(0);
        if (nodes != NULL && give(root, nodes))
            found = PyTuple_Pack(2, nodes, odd);
    } else if (done == 0)
        found = Py_NewRef(Py_None);
    Py_XDECREF(nodes);
    Py_DECREF(odd);
    clear(root);
    return found;
}

static PyMethodDef FUNCTIONS[] = {
    {"compile", compile, METH_O, compile_doc},
    {"decode", decode, METH_VARARGS, decode_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "framework.record.json._json", "JSON objects of known fields to Arrow buffers.", -1, FUNCTIONS,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__json(void)
{
    PyObject *module = draw_secret() ? PyModule_Create(&MODULE) : NULL;
    if (module != NULL && PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) != 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
