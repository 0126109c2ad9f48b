/* Puts rows of many tables apart, column by column, so that those of one table are together when they are asked for.
 *
 * In: a tree of kinds (create), then the buffers of Arrow arrays with a number for each row, its slot (add). Out: the buffers
 * of the rows of one slot, in the order in which they came (take). It decides nothing: what a slot is, and that the arrays are
 * of the kinds it was told, is the caller's to know (framework.record.rows.scatter).
 *
 * What a slot holds is kept in pages, which are used again: rows are copied once when they come and once when they go, and no
 * memory is fetched anew for the next table. It keeps to Python's limited interface of 3.10, and to its lock all the time.
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
#define INTERFACE 2
#define NAME "framework.record.rows._scatter.rows"
#define PAGE_BYTES 4096
/* Pages are filled at about one pace: were they a power of two apart, the places written to would be in each other's way in the
 * processor's cache. */
#define LINE_BYTES 64 /* of the processor's cache */
#define PAGE_STEP (PAGE_BYTES + LINE_BYTES)
#define PAGES_AT_ONCE 256
#define MOST_OFFSET 0x7fffffff
#define SHORT_TEXT 32 /* below what is left between two pages */

typedef enum { FIXED, CODES, BITS, TEXT, LIST, STRUCT } kind_t;

/* ---- pages ---------------------------------------------------------------------------------------------------------- */

typedef struct page {
    struct page *next;
} page_t;

/* Of all that is scattered in this process: the next task's pages are those of the last one. */
static page_t *unused;
static uint8_t **chunks;
static size_t chunks_count, chunks_room, pages_used;

static uint8_t *new_page(void)
{
    if (unused == NULL) {
        if (chunks_count == chunks_room) {
            size_t room = chunks_room ? 2 * chunks_room : 64;
            uint8_t **more = realloc(chunks, room * sizeof *chunks);
            if (more == NULL)
                return NULL;
            chunks = more;
            chunks_room = room;
        }
        uint8_t *chunk = malloc((size_t)PAGE_STEP * PAGES_AT_ONCE);
        if (chunk == NULL)
            return NULL;
        chunks[chunks_count++] = chunk;
        for (int i = PAGES_AT_ONCE - 1; i >= 0; i--) {
            page_t *page = (page_t *)(chunk + (size_t)i * PAGE_STEP);
            page->next = unused;
            unused = page;
        }
    }
    page_t *page = unused;
    unused = page->next;
    pages_used++;
    return (uint8_t *)page;
}

static void give_back(uint8_t *bytes)
{
    page_t *page = (page_t *)bytes;
    page->next = unused;
    unused = page;
    pages_used--;
}

/* ---- strips: bytes in pages, all of them full but the last one --------------------------------------------------------- */

typedef struct {
    uint8_t *at, *end; /* in the last page */
    uint8_t **pages;
    uint32_t count, room;
} strip_t;

/* What is written next to a strip goes behind this: asked for now, the line is there by then. Rows of a hundred tables go to as many
 * lines by turns, which the processor does not see coming. */
static inline void look_ahead(const strip_t *strip)
{
    __builtin_prefetch(strip->at + LINE_BYTES, 1, 3);
}

static int turn(strip_t *strip)
{
    if (strip->count == strip->room) {
        uint32_t room = strip->room ? 2 * strip->room : 4;
        uint8_t **more = realloc(strip->pages, room * sizeof *more);
        if (more == NULL)
            return 0;
        strip->pages = more;
        strip->room = room;
    }
    uint8_t *page = new_page();
    if (page == NULL)
        return 0;
    strip->pages[strip->count++] = page;
    strip->at = page;
    strip->end = page + PAGE_BYTES;
    return 1;
}

static size_t length(const strip_t *strip)
{
    return (size_t)strip->count * PAGE_BYTES - (size_t)(strip->end - strip->at);
}

static int put_bytes(strip_t *strip, const uint8_t *bytes, size_t count)
{
    while (count > 0) {
        if (strip->at == strip->end && !turn(strip))
            return 0;
        size_t fits = (size_t)(strip->end - strip->at) < count ? (size_t)(strip->end - strip->at) : count;
        memcpy(strip->at, bytes, fits);
        strip->at += fits;
        bytes += fits;
        count -= fits;
    }
    return 1;
}

static inline int put_byte(strip_t *strip, uint8_t byte)
{
    if (strip->at == strip->end && !turn(strip))
        return 0;
    *strip->at++ = byte;
    return 1;
}

static inline int put_offset(strip_t *strip, int64_t offset)
{
    int32_t narrow = (int32_t)offset;
    if (strip->at == strip->end && !turn(strip))
        return 0;
    memcpy(strip->at, &narrow, sizeof narrow);
    strip->at += sizeof narrow;
    look_ahead(strip);
    return 1;
}

/* Ones up to so many bytes: of rows that are not null. */
static int fill(strip_t *strip, size_t wanted)
{
    for (size_t missing = wanted - length(strip); missing > 0;) {
        if (strip->at == strip->end && !turn(strip))
            return 0;
        size_t fits = (size_t)(strip->end - strip->at) < missing ? (size_t)(strip->end - strip->at) : missing;
        memset(strip->at, 1, fits);
        strip->at += fits;
        missing -= fits;
    }
    return 1;
}

static void empty(strip_t *strip)
{
    for (uint32_t i = 0; i < strip->count; i++)
        give_back(strip->pages[i]);
    free(strip->pages);
    memset(strip, 0, sizeof *strip);
}

/* ---- columns -------------------------------------------------------------------------------------------------------- */

/* What a column holds of one slot. */
typedef struct {
    strip_t data;
    strip_t ends;  /* of text and lists */
    strip_t valid; /* a byte a row up to the last null; what is not there is valid */
    int64_t rows, nulls, total; /* `total` of the bytes of text, or of the elements of lists */
} part_t;

typedef struct column {
    kind_t kind;
    size_t width; /* of a fixed value, in bytes; of codes, which come and go with four, those that are held */
    int count;    /* children: of a list one, of a struct its fields */
    struct column *children;
    part_t *parts; /* by slot */
} column_t;

typedef struct {
    column_t root; /* a struct of the columns; it has no parts of its own */
    uint32_t slots;
    int is_broken; /* it ran out of memory half way */
} scatter_t;

static void drop(column_t *column, uint32_t slots)
{
    for (uint32_t i = 0; column->parts != NULL && i < slots; i++) {
        empty(&column->parts[i].data);
        empty(&column->parts[i].ends);
        empty(&column->parts[i].valid);
    }
    free(column->parts);
    for (int i = 0; i < column->count; i++)
        drop(&column->children[i], slots);
    free(column->children);
}

static void drop_scatter(PyObject *capsule)
{
    scatter_t *own = PyCapsule_GetPointer(capsule, NAME);
    if (own != NULL) {
        drop(&own->root, own->slots);
        free(own);
    }
}

/* A spec is ("fixed", bytes), ("codes", 1 or 2), ("bits",), ("text",), ("list", spec) or ("struct", (spec, ...)). */
static int build(column_t *column, PyObject *spec)
{
    PyObject *first = PyTuple_GetItem(spec, 0), *inner = NULL;
    const char *kind;
    if (first == NULL || (kind = PyUnicode_AsUTF8AndSize(first, NULL)) == NULL)
        return 0;
    if (strcmp(kind, "fixed") == 0 || strcmp(kind, "codes") == 0) {
        Py_ssize_t width;
        column->kind = *kind == 'f' ? FIXED : CODES;
        if (!PyArg_ParseTuple(spec, "On", &first, &width) || width <= 0)
            return 0;
        if (column->kind == CODES && width > 2) {
            PyErr_SetString(PyExc_ValueError, "codes are held in one byte or two");
            return 0;
        }
        column->width = (size_t)width;
        return 1;
    }
    if (strcmp(kind, "bits") == 0 || strcmp(kind, "text") == 0) {
        column->kind = *kind == 'b' ? BITS : TEXT;
        return 1;
    }
    if (strcmp(kind, "list") != 0 && strcmp(kind, "struct") != 0) {
        PyErr_Format(PyExc_ValueError, "no kind %s", kind);
        return 0;
    }
    column->kind = *kind == 'l' ? LIST : STRUCT;
    if ((inner = PyTuple_GetItem(spec, 1)) == NULL)
        return 0;
    Py_ssize_t count = column->kind == LIST ? 1 : PyTuple_Size(inner);
    if (count < 0 || (column->children = calloc(count ? count : 1, sizeof(column_t))) == NULL)
        return 0;
    column->count = (int)count;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *child = column->kind == LIST ? inner : PyTuple_GetItem(inner, i);
        if (child == NULL || !build(&column->children[i], child))
            return 0;
    }
    return 1;
}

static int widen(column_t *column, uint32_t before, uint32_t slots)
{
    part_t *parts = realloc(column->parts, slots * sizeof *parts);
    if (parts == NULL)
        return 0;
    column->parts = parts;
    memset(parts + before, 0, (slots - before) * sizeof *parts);
    for (int i = 0; i < column->count; i++)
        if (!widen(&column->children[i], before, slots))
            return 0;
    return 1;
}

PyDoc_STRVAR(create_doc, "create(spec) -> scatter: what `add` and `take` take; the spec is described in _scatter.pyi.");
static PyObject *create(PyObject *self, PyObject *spec)
{
    scatter_t *own = calloc(1, sizeof *own);
    (void)self;
    if (own == NULL)
        return PyErr_NoMemory();
    if (!build(&own->root, spec) || own->root.kind != STRUCT) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "the root is a struct, and a width is above 0");
        drop(&own->root, 0);
        free(own);
        return NULL;
    }
    return PyCapsule_New(own, NAME, drop_scatter);
}

/* ---- rows in -------------------------------------------------------------------------------------------------------- */

static inline int bit(const uint8_t *bits, int64_t at)
{
    return bits[at >> 3] >> (at & 7) & 1;
}

/* Of each value of `size` bytes the first ones: this is little-endian, as Arrow is. */
#define SCATTER(type, size)                                                            \
    for (int64_t i = 0; i < rows; i++) {                                               \
        strip_t *strip = &parts[slots[i]].data;                                        \
        if (strip->at == strip->end && !turn(strip))                                   \
            return 0;                                                                  \
        memcpy(strip->at, from + (size_t)i * (size), sizeof(type));                    \
        strip->at += sizeof(type);                                                     \
        look_ahead(strip);                                                             \
    }                                                                                  \
    return 1;

static int add_fixed(part_t *parts, size_t width, const uint8_t *from, const uint16_t *slots, int64_t rows)
{
    typedef struct { uint64_t low, high; } wide_t;
    switch (width) {
    case 1: SCATTER(uint8_t, 1)
    case 2: SCATTER(uint16_t, 2)
    case 4: SCATTER(uint32_t, 4)
    case 8: SCATTER(uint64_t, 8)
    case 16: SCATTER(wide_t, 16)
    }
    for (int64_t i = 0; i < rows; i++)
        if (!put_bytes(&parts[slots[i]].data, from + (size_t)i * width, width))
            return 0;
    return 1;
}

static int add_codes(part_t *parts, size_t width, const uint8_t *from, const uint16_t *slots, int64_t rows)
{
    if (width == 1) {
        SCATTER(uint8_t, sizeof(int32_t))
    }
    SCATTER(uint16_t, sizeof(int32_t))
}

/* The buffers of one array: where its values begin, in rows, and the addresses of its validity, its offsets and its values. */
typedef struct {
    int64_t offset;
    const uint8_t *valid;
    const int32_t *offsets;
    const uint8_t *data;
} array_t;

static int next_array(PyObject *arrays, Py_ssize_t *next, array_t *array)
{
    long long offset;
    unsigned long long valid, offsets, data;
    PyObject *tuple = PyList_GetItem(arrays, (*next)++);
    if (tuple == NULL || !PyArg_ParseTuple(tuple, "LKKK", &offset, &valid, &offsets, &data))
        return 0;
    array->offset = offset;
    array->valid = (const uint8_t *)(uintptr_t)valid;
    array->offsets = (const int32_t *)(uintptr_t)offsets;
    array->data = (const uint8_t *)(uintptr_t)data;
    return 1;
}

/* To which slots rows go, and how many of them to each. */
typedef struct {
    const uint16_t *slots;
    int64_t rows;
    int64_t *counts;
    uint32_t most;
} targets_t;

static int count(targets_t *targets)
{
    targets->counts = calloc(targets->most ? targets->most : 1, sizeof *targets->counts);
    if (targets->counts == NULL)
        return 0;
    for (int64_t i = 0; i < targets->rows; i++)
        targets->counts[targets->slots[i]]++;
    return 1;
}

static int add_column(column_t *column, PyObject *arrays, Py_ssize_t *next, const targets_t *targets);

static int add_list(column_t *column, const array_t *array, PyObject *arrays, Py_ssize_t *next, const targets_t *targets)
{
    const uint16_t *slots = targets->slots;
    int64_t rows = targets->rows;
    /* The elements' array begins with those of the first row. */
    const int32_t *ends = array->offsets + array->offset;
    int64_t elements = rows ? (int64_t)ends[rows] - ends[0] : 0, at = 0;
    uint16_t *inner = malloc((size_t)(elements ? elements : 1) * sizeof *inner);
    int64_t *counts = calloc(targets->most ? targets->most : 1, sizeof *counts);
    int done = inner != NULL && counts != NULL;
    for (int64_t i = 0; done && i < rows; i++) {
        part_t *part = &column->parts[slots[i]];
        int64_t further = (int64_t)ends[i + 1] - ends[i];
        part->total += further;
        counts[slots[i]] += further;
        done = part->total <= MOST_OFFSET && put_offset(&part->ends, part->total);
        for (int64_t j = 0; j < further; j++)
            inner[at++] = slots[i];
    }
    targets_t of_elements = {inner, elements, counts, targets->most};
    done = done && add_column(&column->children[0], arrays, next, &of_elements);
    free(counts);
    free(inner);
    return done;
}

static int add_text(column_t *column, const array_t *array, const uint16_t *slots, int64_t rows)
{
    const int32_t *ends = array->offsets + array->offset;
    for (int64_t i = 0; i < rows; i++) {
        part_t *part = &column->parts[slots[i]];
        strip_t *data = &part->data;
        size_t bytes = (size_t)((int64_t)ends[i + 1] - ends[i]);
        part->total += (int64_t)bytes;
        if (part->total > MOST_OFFSET || !put_offset(&part->ends, part->total))
            return 0;
        /* Short text is copied with what stands behind it, which is written over: of a length that the compiler knows, and within
         * the page and its slack, and the values. */
        if (bytes <= SHORT_TEXT && (int64_t)ends[i] + SHORT_TEXT <= ends[rows] && (size_t)(data->end - data->at) >= bytes
            && data->at != NULL) {
            memcpy(data->at, array->data + ends[i], SHORT_TEXT);
            data->at += bytes;
            look_ahead(data);
        } else if (bytes > 0 && !put_bytes(data, array->data + ends[i], bytes))
            return 0;
    }
    return 1;
}

static int add_valid(column_t *column, const uint8_t *valid, int64_t offset, const targets_t *targets)
{
    for (int64_t i = 0; valid != NULL && i < targets->rows; i++) {
        part_t *part = &column->parts[targets->slots[i]];
        if (!bit(valid, offset + i)) {
            if (!fill(&part->valid, (size_t)part->rows) || !put_byte(&part->valid, 0))
                return 0;
            part->nulls++;
        }
        part->rows++;
    }
    for (uint32_t slot = 0; valid == NULL && slot < targets->most; slot++)
        column->parts[slot].rows += targets->counts[slot];
    return 1;
}

static int add_column(column_t *column, PyObject *arrays, Py_ssize_t *next, const targets_t *targets)
{
    const uint16_t *slots = targets->slots;
    int64_t rows = targets->rows;
    array_t array;
    if (!next_array(arrays, next, &array) || !add_valid(column, array.valid, array.offset, targets))
        return 0;
    switch (column->kind) {
    case FIXED:
        return rows == 0 || add_fixed(column->parts, column->width, array.data + (size_t)array.offset * column->width, slots, rows);
    case CODES:
        return rows == 0
            || add_codes(column->parts, column->width, array.data + (size_t)array.offset * sizeof(int32_t), slots, rows);
    case BITS:
        for (int64_t i = 0; i < rows; i++)
            if (!put_byte(&column->parts[slots[i]].data, (uint8_t)bit(array.data, array.offset + i)))
                return 0;
        return 1;
    case TEXT:
        return rows == 0 || add_text(column, &array, slots, rows);
    case LIST:
        return add_list(column, &array, arrays, next, targets);
    case STRUCT:
        for (int i = 0; i < column->count; i++)
            if (!add_column(&column->children[i], arrays, next, targets))
                return 0;
        return 1;
    }
    return 0;
}

static scatter_t *sound(PyObject *capsule)
{
    scatter_t *own = PyCapsule_GetPointer(capsule, NAME);
    if (own != NULL && own->is_broken) {
        PyErr_SetString(PyExc_RuntimeError, "rows were lost when it ran out of memory");
        return NULL;
    }
    return own;
}

PyDoc_STRVAR(add_doc, "add(scatter, arrays, slots, rows, most) -> None. `slots` is the address of a number below `most` of two\n"
                      "bytes for each row; `arrays` are (offset, validity, offsets, values) of each node, depth first: rows and\n"
                      "addresses, 0 where there is none. The elements of lists begin with those of the first row.");
static PyObject *add(PyObject *self, PyObject *arguments)
{
    PyObject *capsule, *arrays;
    unsigned long long address;
    long long rows;
    unsigned int most;
    Py_ssize_t next = 0;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "OOKLI", &capsule, &arrays, &address, &rows, &most))
        return NULL;
    scatter_t *own = sound(capsule);
    if (own == NULL)
        return NULL;
    targets_t targets = {(const uint16_t *)(uintptr_t)address, rows, NULL, most};
    for (long long i = 0; i < rows; i++)
        if (targets.slots[i] >= most)
            return PyErr_Format(PyExc_IndexError, "row %lld has slot %d of %u", i, (int)targets.slots[i], most);
    int done = count(&targets);
    if (most > own->slots) {
        for (int i = 0; done && i < own->root.count; i++)
            done = widen(&own->root.children[i], own->slots, most);
        own->slots = done ? most : own->slots;
    }
    for (int i = 0; done && i < own->root.count; i++)
        done = add_column(&own->root.children[i], arrays, &next, &targets);
    free(targets.counts);
    if (!done) {
        own->is_broken = 1;
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    Py_RETURN_NONE;
}

/* ---- rows out ------------------------------------------------------------------------------------------------------- */

static PyObject *joined(strip_t *strip, size_t before)
{
    size_t bytes = length(strip);
    PyObject *all = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(before + bytes));
    if (all == NULL)
        return NULL;
    uint8_t *to = (uint8_t *)PyBytes_AsString(all);
    memset(to, 0, before);
    to += before;
    for (uint32_t i = 0; i < strip->count; i++) {
        size_t here = i + 1 < strip->count ? PAGE_BYTES : (size_t)(strip->at - strip->pages[i]);
        memcpy(to, strip->pages[i], here);
        to += here;
    }
    empty(strip);
    return all;
}

/* Of a byte or two a row four. */
#define WIDEN(type)                                          \
    for (size_t j = 0; j < here / sizeof(type); j++)         \
        to[j] = ((const type *)(void *)strip->pages[i])[j];

static PyObject *widened(strip_t *strip, size_t width)
{
    size_t rows = length(strip) / width;
    PyObject *codes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(rows * sizeof(int32_t)));
    if (codes == NULL)
        return NULL;
    int32_t *to = (int32_t *)(void *)PyBytes_AsString(codes); /* what bytes hold begins at a multiple of eight */
    for (uint32_t i = 0; i < strip->count; i++) {
        size_t here = i + 1 < strip->count ? PAGE_BYTES : (size_t)(strip->at - strip->pages[i]);
        if (width == 1)
            WIDEN(uint8_t)
        else
            WIDEN(uint16_t)
        to += here / width;
    }
    empty(strip);
    return codes;
}

/* Of a byte a row one bit a row. */
static PyObject *packed(strip_t *strip)
{
    size_t rows = length(strip), row = 0;
    PyObject *bits = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)((rows + 7) / 8));
    if (bits == NULL)
        return NULL;
    uint8_t *to = (uint8_t *)PyBytes_AsString(bits);
    memset(to, 0, (rows + 7) / 8);
    for (uint32_t i = 0; i < strip->count; i++) {
        size_t here = i + 1 < strip->count ? PAGE_BYTES : (size_t)(strip->at - strip->pages[i]);
        for (size_t j = 0; j < here; j++, row++)
            to[row >> 3] |= (uint8_t)(strip->pages[i][j] << (row & 7));
    }
    empty(strip);
    return bits;
}

static int give(column_t *column, uint32_t slot, PyObject *list)
{
    part_t *part = &column->parts[slot];
    PyObject *valid = NULL, *offsets = NULL, *data = NULL, *tuple = NULL;
    int done = 0;
    if (part->nulls && !fill(&part->valid, (size_t)part->rows)) {
        PyErr_NoMemory();
        return 0;
    }
    valid = part->nulls ? packed(&part->valid) : Py_NewRef(Py_None);
    offsets = column->kind == TEXT || column->kind == LIST ? joined(&part->ends, sizeof(int32_t)) : Py_NewRef(Py_None);
    data = column->kind == LIST || column->kind == STRUCT ? Py_NewRef(Py_None)
        : column->kind == BITS ? packed(&part->data)
        : column->kind == CODES ? widened(&part->data, column->width)
        : joined(&part->data, 0);
    if (valid && offsets && data
        && (tuple = Py_BuildValue("LLOOO", (long long)part->rows, (long long)part->nulls, valid, offsets, data)) != NULL
        && PyList_Append(list, tuple) == 0) {
        done = 1;
        part->rows = part->nulls = part->total = 0;
        for (int i = 0; done && i < column->count; i++)
            done = give(&column->children[i], slot, list);
    }
    Py_XDECREF(valid);
    Py_XDECREF(offsets);
    Py_XDECREF(data);
    Py_XDECREF(tuple);
    return done;
}

PyDoc_STRVAR(take_doc, "take(scatter, slot) -> (rows, nulls, validity or None, offsets or None, values or None) of each node, depth\n"
                       "first. The slot has no rows then.");
static PyObject *take(PyObject *self, PyObject *arguments)
{
    PyObject *capsule, *nodes;
    unsigned int slot;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "OI", &capsule, &slot))
        return NULL;
    scatter_t *own = sound(capsule);
    if (own == NULL)
        return NULL;
    if (slot >= own->slots)
        return PyErr_Format(PyExc_IndexError, "there is no slot %u", slot);
    if ((nodes = PyList_New(0)) == NULL)
        return NULL;
    for (int i = 0; i < own->root.count; i++)
        if (!give(&own->root.children[i], slot, nodes)) {
            own->is_broken = 1;
            Py_DECREF(nodes);
            return NULL;
        }
    return nodes;
}

PyDoc_STRVAR(release_doc, "release() -> whether the memory that is kept for the next rows was given back: where no rows are held.");
static PyObject *release(PyObject *self, PyObject *nothing)
{
    (void)self;
    (void)nothing;
    if (pages_used > 0)
        Py_RETURN_FALSE;
    for (size_t i = 0; i < chunks_count; i++)
        free(chunks[i]);
    free(chunks);
    chunks = NULL;
    unused = NULL;
    chunks_count = chunks_room = 0;
    Py_RETURN_TRUE;
}

static PyMethodDef FUNCTIONS[] = {
    {"create", create, METH_O, create_doc},
    {"add", add, METH_VARARGS, add_doc},
    {"take", take, METH_VARARGS, take_doc},
    {"release", release, METH_NOARGS, release_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "framework.record.rows._scatter", "Rows of many tables apart.", -1, FUNCTIONS, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__scatter(void)
{
    PyObject *module = PyModule_Create(&MODULE);
    if (module != NULL && PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) != 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
