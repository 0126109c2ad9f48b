/* Fetches records of one partition through the C interface of the librdkafka that confluent-kafka brought along.
 *
 * In: a library to look the functions up in, a configuration as text, a topic-partition and offsets. Out: the payloads of
 * many records in one buffer, joined by newlines, with starts, offsets and timestamps as arrays of 64-bit integers: no
 * Python object per record. It decides nothing: errors and end-of-partition events are handed on as they are, and whether a
 * buffer is sound to parse is judged by framework.record.json.framing. The lock of the interpreter is released while waiting for
 * the broker and while copying.
 *
 * The structs below are the public ones of rdkafka.h, whose layout is part of librdkafka's stable interface; the functions
 * are looked up by name, so that no header and no library of librdkafka is needed to build this file. It keeps to Python's
 * limited interface of 3.10: one build serves every later version.
 */
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030A0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Raised with every change of what the functions take or give: a build of an older checkout is not used. */
#define INTERFACE 6

/* ---- the part of librdkafka that is used ------------------------------------------------------------------------ */

#define CONSUMER 1
#define DESTROY_NO_CONSUMER_CLOSE 0x8
#define ERROR_TEXT 512

typedef struct rk rk_t;
typedef struct conf conf_t;
typedef struct queue queue_t;
typedef struct topic topic_t;
typedef struct headers headers_t;
typedef struct metadata metadata_t;

typedef struct {
    int err;
    topic_t *topic;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private;
} message_t;

typedef struct {
    char *topic;
    int32_t partition;
    int64_t offset;
    void *metadata;
    size_t metadata_size;
    void *opaque;
    int err;
    void *private;
} partition_t;

typedef struct {
    int count;
    int size;
    partition_t *elements;
} partitions_t;

static struct {
    int loaded;
    int (*version)(void);
    const char *(*version_str)(void);
    conf_t *(*conf_new)(void);
    void (*conf_destroy)(conf_t *);
    int (*conf_set)(conf_t *, const char *, const char *, char *, size_t);
    void (*conf_set_opaque)(conf_t *, void *);
    void (*conf_set_error_cb)(conf_t *, void (*)(rk_t *, int, const char *, void *));
    void (*conf_set_log_cb)(conf_t *, void (*)(const rk_t *, int, const char *, const char *));
    void (*conf_set_refresh_cb)(conf_t *, void (*)(rk_t *, const char *, void *));
    int (*set_token)(rk_t *, const char *, int64_t, const char *, const char **, size_t, char *, size_t);
    rk_t *(*create)(int, conf_t *, char *, size_t);
    void (*destroy_flags)(rk_t *, int);
    void *(*opaque)(const rk_t *);
    int (*set_log_queue)(rk_t *, queue_t *);
    int (*poll_set_consumer)(rk_t *);
    queue_t *(*queue_get_consumer)(rk_t *);
    void (*queue_destroy)(queue_t *);
    partitions_t *(*partitions_new)(int);
    partition_t *(*partitions_add)(partitions_t *, const char *, int32_t);
    void (*partitions_destroy)(partitions_t *);
    int (*assign)(rk_t *, const partitions_t *);
    int (*position)(rk_t *, partitions_t *);
    ssize_t (*consume_batch_queue)(queue_t *, int, message_t **, size_t);
    void (*message_destroy)(message_t *);
    int64_t (*message_timestamp)(const message_t *, int *);
    int (*message_headers)(const message_t *, headers_t **);
    const char *(*message_errstr)(const message_t *);
    int (*header_get_all)(const headers_t *, size_t, const char **, const void **, size_t *);
    topic_t *(*topic_new)(rk_t *, const char *, void *);
    void (*topic_destroy)(topic_t *);
    int (*metadata)(rk_t *, int, topic_t *, const metadata_t **, int);
    void (*metadata_destroy)(const metadata_t *);
} api;

static const struct {
    const char *name;
    size_t place;
} SYMBOLS[] = {
#define SYMBOL(name, field) {"rd_kafka_" name, offsetof(__typeof__(api), field)}
    SYMBOL("version", version),
    SYMBOL("version_str", version_str),
    SYMBOL("conf_new", conf_new),
    SYMBOL("conf_destroy", conf_destroy),
    SYMBOL("conf_set", conf_set),
    SYMBOL("conf_set_opaque", conf_set_opaque),
    SYMBOL("conf_set_error_cb", conf_set_error_cb),
    SYMBOL("conf_set_log_cb", conf_set_log_cb),
    SYMBOL("conf_set_oauthbearer_token_refresh_cb", conf_set_refresh_cb),
    SYMBOL("oauthbearer_set_token", set_token),
    SYMBOL("new", create),
    SYMBOL("destroy_flags", destroy_flags),
    SYMBOL("opaque", opaque),
    SYMBOL("set_log_queue", set_log_queue),
    SYMBOL("poll_set_consumer", poll_set_consumer),
    SYMBOL("queue_get_consumer", queue_get_consumer),
    SYMBOL("queue_destroy", queue_destroy),
    SYMBOL("topic_partition_list_new", partitions_new),
    SYMBOL("topic_partition_list_add", partitions_add),
    SYMBOL("topic_partition_list_destroy", partitions_destroy),
    SYMBOL("assign", assign),
    SYMBOL("position", position),
    SYMBOL("consume_batch_queue", consume_batch_queue),
    SYMBOL("message_destroy", message_destroy),
    SYMBOL("message_timestamp", message_timestamp),
    SYMBOL("message_headers", message_headers),
    SYMBOL("message_errstr", message_errstr),
    SYMBOL("header_get_all", header_get_all),
    SYMBOL("topic_new", topic_new),
    SYMBOL("topic_destroy", topic_destroy),
    SYMBOL("metadata", metadata),
    SYMBOL("metadata_destroy", metadata_destroy),
#undef SYMBOL
};

PyDoc_STRVAR(load_doc, "load(path) -> version of the librdkafka that the loaded library `path` is, or is linked with.\n\n"
                       "Raises OSError: the library cannot be opened, lacks a function, or is of another major version.");

static PyObject *load(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *path = NULL;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
        return NULL;
    if (!api.loaded) {
        /* A lookup through a handle goes through what it is linked with, too. The handle is kept for good. */
        void *library = dlopen(PyBytes_AsString(path), RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            Py_DECREF(path);
            return PyErr_Format(PyExc_OSError, "%s", dlerror());
        }
        for (size_t i = 0; i < sizeof(SYMBOLS) / sizeof(SYMBOLS[0]); i++) {
            void *found = dlsym(library, SYMBOLS[i].name);
            if (found == NULL) {
                Py_DECREF(path);
                return PyErr_Format(PyExc_OSError, "librdkafka has no %s", SYMBOLS[i].name);
            }
            memcpy((char *)&api + SYMBOLS[i].place, &found, sizeof(found));
        }
        if (api.version() >> 24 != 2) {
            Py_DECREF(path);
            return PyErr_Format(PyExc_OSError, "librdkafka %s is not of version 2", api.version_str());
        }
        api.loaded = 1;
    }
    Py_DECREF(path);
    return PyUnicode_FromString(api.version_str());
}

/* ---- bytes of many records, one after another -------------------------------------------------------------------- */

typedef struct {
    char *data;
    size_t len;
    size_t room;
} Bytes;

/* Room for so many bytes more; -1 when there is no memory. */
static int reserve(Bytes *own, size_t more)
{
    if (own->len + more <= own->room)
        return 0;
    size_t room = own->room < 65536 ? 65536 : own->room;
    while (room < own->len + more)
        room += room / 2;
    char *larger = realloc(own->data, room);
    if (larger == NULL)
        return -1;
    own->data = larger;
    own->room = room;
    return 0;
}

/* ---- keys and headers, since they may be asked for ------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    PyObject *reader; /* messages must be gone before their client is */
    message_t **messages; /* those with headers; NULL when none has any */
    Bytes keys;
    int64_t *key_ends; /* the key of record i ends there, and begins where the one before it ends; below zero: no key */
    Py_ssize_t count;
} Messages;

static PyTypeObject *messages_type;

static void messages_dealloc(PyObject *self)
{
    Messages *own = (Messages *)self;
    for (Py_ssize_t i = 0; own->messages != NULL && i < own->count; i++)
        if (own->messages[i] != NULL)
            api.message_destroy(own->messages[i]);
    free(own->messages);
    free(own->keys.data);
    free(own->key_ends);
    Py_XDECREF(own->reader);
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* The index of a record; -1 with an exception where there is none. */
static Py_ssize_t index_in(Messages *own, PyObject *index)
{
    Py_ssize_t i = PyNumber_AsSsize_t(index, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred())
        return -1;
    if (i < 0 || i >= own->count) {
        PyErr_SetString(PyExc_IndexError, "there is no such message");
        return -1;
    }
    return i;
}

static PyObject *bytes_or_none(const void *data, size_t len)
{
    if (data == NULL)
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(data, (Py_ssize_t)len);
}

/* Where a key ended, be there one or not: ends of records without a key are the complement. */
static int64_t end_of(int64_t marked)
{
    return marked < 0 ? ~marked : marked;
}

static PyObject *messages_key(PyObject *self, PyObject *index)
{
    Messages *own = (Messages *)self;
    Py_ssize_t i = index_in(own, index);
    if (i < 0)
        return NULL;
    if (own->key_ends[i] < 0)
        Py_RETURN_NONE;
    int64_t start = i == 0 ? 0 : end_of(own->key_ends[i - 1]);
    if (own->key_ends[i] == start)
        return PyBytes_FromStringAndSize("", 0); /* there may be no memory */
    return PyBytes_FromStringAndSize(own->keys.data + start, (Py_ssize_t)(own->key_ends[i] - start));
}

static PyObject *messages_headers(PyObject *self, PyObject *index)
{
    Messages *own = (Messages *)self;
    Py_ssize_t at = index_in(own, index);
    headers_t *headers;
    const char *name;
    const void *value;
    size_t size;
    if (at < 0)
        return NULL;
    if (own->messages == NULL || own->messages[at] == NULL || api.message_headers(own->messages[at], &headers) != 0)
        Py_RETURN_NONE;
    PyObject *found = PyList_New(0);
    for (size_t i = 0; found != NULL && api.header_get_all(headers, i, &name, &value, &size) == 0; i++) {
        /* The name is a producer's: bytes that are no UTF-8 are shown, and end no pipeline. */
        PyObject *text = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "backslashreplace");
        PyObject *pair = text == NULL ? NULL : Py_BuildValue("(NN)", text, bytes_or_none(value, size));
        if (pair == NULL || PyList_Append(found, pair) != 0)
            Py_CLEAR(found);
        Py_XDECREF(pair);
    }
    return found;
}

static PyMethodDef MESSAGES_METHODS[] = {
    {"key", messages_key, METH_O, "key(index) -> bytes, or None."},
    {"headers", messages_headers, METH_O, "headers(index) -> list of (name, bytes or None), or None without any."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot MESSAGES_SLOTS[] = {
    {Py_tp_dealloc, messages_dealloc},
    {Py_tp_methods, MESSAGES_METHODS},
    {Py_tp_doc, "Keys and headers of one block, for what is seldom asked for."},
    {0, NULL},
};

static PyType_Spec MESSAGES_SPEC = {
    "framework.adapters.kafka._fetch.Messages", sizeof(Messages), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, MESSAGES_SLOTS,
};

/* ---- the reader ------------------------------------------------------------------------------------------------- */

#define MOST_NOTES 32
#define CHUNK 1000
#define AHEAD 8 /* messages */

typedef struct {
    int level; /* of a log line; -1 for an error */
    int code;
    char text[ERROR_TEXT];
} note_t;

typedef struct {
    PyObject_HEAD
    rk_t *rk;
    queue_t *queue;
    pid_t pid;
    int busy; /* a thread is inside without the lock of the interpreter */
    /* Records are copied out of their messages at once, and those go: what is in use of librdkafka's memory stays small, and
     * near. What is held of each, by its number: */
    Py_ssize_t count;
    Py_ssize_t room;
    int64_t seen; /* records below the end that came since the assignment, counted as they come */
    Bytes values; /* joined by newlines, one behind each */
    int64_t *starts, *offsets, *stamps;
    char *missing;
    Bytes keys;
    int64_t *key_ends;
    message_t **with_headers;
    Py_ssize_t missing_count, newlines, keys_count, headers_count;
    size_t bytes; /* of values, keys and headers */
    size_t most; /* bytes of a record, with key and headers; of a larger one nothing is held but its size */
    int64_t *large; /* offset and size of each of these, one after the other */
    Py_ssize_t large_count, large_room;
    message_t *chunk[CHUNK]; /* what came and is not looked at yet, from `chunk_at` on: there was no room for more bytes */
    Py_ssize_t chunk_at, chunk_count;
    Py_ssize_t braced_count; /* values that begin and end with a brace and hold neither a newline nor a NUL */
    int is_ascii; /* all values are */
    int notes_count;
    note_t notes[MOST_NOTES];
} Reader;

/* Both callbacks are called on the reader's own thread while it consumes: log lines travel through the queue, too. */
static void take_note(Reader *own, int level, int code, const char *text)
{
    if (own->notes_count == MOST_NOTES)
        return;
    note_t *note = &own->notes[own->notes_count++];
    note->level = level;
    note->code = code;
    strncpy(note->text, text == NULL ? "" : text, ERROR_TEXT - 1);
    note->text[ERROR_TEXT - 1] = '\0';
}

static void on_error(rk_t *rk, int code, const char *reason, void *opaque)
{
    (void)rk;
    take_note(opaque, -1, code, reason);
}

static void on_log(const rk_t *rk, int level, const char *facility, const char *text)
{
    (void)facility;
    if (api.opaque(rk) != NULL)
        take_note(api.opaque(rk), level, 0, text);
}

/* Whoever uses the reader sets tokens ahead of their end: nothing is left to do. Without this librdkafka would make tokens that
 * nobody has signed. */
static void on_refresh(rk_t *rk, const char *config, void *opaque)
{
    (void)rk;
    (void)config;
    (void)opaque;
}

static int enter(Reader *own)
{
    if (own->rk == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the reader is closed");
        return -1;
    }
    if (own->pid != getpid()) {
        PyErr_SetString(PyExc_RuntimeError, "the reader was made in another process");
        return -1;
    }
    if (own->busy) {
        PyErr_SetString(PyExc_RuntimeError, "the reader is used by another thread");
        return -1;
    }
    own->busy = 1;
    return 0;
}

static void hold_nothing(Reader *own)
{
    own->count = 0;
    own->bytes = own->values.len = own->keys.len = 0;
    own->missing_count = own->newlines = own->keys_count = own->headers_count = own->braced_count = 0;
    own->large_count = 0;
    own->is_ascii = 1;
}

static void forget(Reader *own)
{
    for (Py_ssize_t i = 0; own->headers_count > 0 && i < own->count; i++)
        if (own->with_headers[i] != NULL)
            api.message_destroy(own->with_headers[i]);
    while (own->chunk_at < own->chunk_count)
        api.message_destroy(own->chunk[own->chunk_at++]);
    hold_nothing(own);
}

static int grown(void **array, Py_ssize_t room, size_t size)
{
    void *larger = realloc(*array, (size_t)room * size);
    if (larger == NULL)
        return -1;
    *array = larger;
    return 0;
}

/* Room for so many records; -1 when there is no memory. */
static int make_room(Reader *own, Py_ssize_t room)
{
    if (room <= own->room)
        return 0;
    if (grown((void **)&own->starts, room, sizeof(int64_t)) != 0
        || grown((void **)&own->offsets, room, sizeof(int64_t)) != 0
        || grown((void **)&own->stamps, room, sizeof(int64_t)) != 0
        || grown((void **)&own->key_ends, room, sizeof(int64_t)) != 0
        || grown((void **)&own->with_headers, room, sizeof(message_t *)) != 0
        || grown((void **)&own->missing, room, sizeof(char)) != 0)
        return -1;
    own->room = room;
    return 0;
}

typedef uint8_t octets_t __attribute__((vector_size(16)));

/* Look through a value while it is near, for what framework.record.json.framing asks of each. */
static void look(Reader *own, const char *at, size_t len)
{
    const octets_t newline = {10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10}, nul = {0};
    octets_t all = {0}, marks = {0}, some;
    uint8_t any = 0, marked = 0, of_all[16], of_marks[16];
    size_t i = 0;
    for (; i + 16 <= len; i += 16) {
        memcpy(&some, at + i, 16);
        all |= some;
        marks |= (octets_t)(some == newline) | (octets_t)(some == nul);
    }
    memcpy(of_all, &all, 16);
    memcpy(of_marks, &marks, 16);
    for (int j = 0; j < 16; j++) {
        any |= of_all[j];
        marked |= of_marks[j];
    }
    for (; i < len; i++) {
        any |= (uint8_t)at[i];
        marked |= at[i] == '\n' || at[i] == '\0';
    }
    if (any & 0x80)
        own->is_ascii = 0;
    if (marked) {
        const char *end = at + len;
        while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
            own->newlines++;
            at++;
        }
    } else if (len > 0 && at[0] == '{' && at[len - 1] == '}') {
        own->braced_count++;
    }
}

/* The bytes of all headers. */
static size_t size_of(const headers_t *headers)
{
    const char *name;
    const void *value;
    size_t size, sum = 0;
    for (size_t i = 0; api.header_get_all(headers, i, &name, &value, &size) == 0; i++)
        sum += strlen(name) + size;
    return sum;
}

/* Note a record that is too large to be held; -1 when there is no memory. */
static int note_large(Reader *own, int64_t offset, size_t size)
{
    if (own->large_count == own->large_room) {
        Py_ssize_t room = own->large_room * 2 + 8;
        if (grown((void **)&own->large, room * 2, sizeof(int64_t)) != 0)
            return -1;
        own->large_room = room;
    }
    own->large[2 * own->large_count] = offset;
    own->large[2 * own->large_count + 1] = (int64_t)size;
    own->large_count++;
    return 0;
}

/* Copy a record out of its message, which goes unless it has headers; -1 when there is no memory. */
static int hold(Reader *own, message_t *message)
{
    Py_ssize_t i = own->count;
    size_t len = message->payload == NULL ? 0 : message->len;
    headers_t *headers;
    int kind;
    size_t key_len = message->key == NULL ? 0 : message->key_len;
    int has_headers = api.message_headers(message, &headers) == 0;
    size_t size = len + key_len + (has_headers ? size_of(headers) : 0);
    int is_large = size > own->most;
    if (is_large) {
        if (note_large(own, message->offset, size) != 0)
            return -1;
        len = key_len = size = 0;
        has_headers = 0;
    }
    if (reserve(&own->values, len + 1) != 0 || reserve(&own->keys, key_len) != 0)
        return -1;
    char *into = own->values.data + own->values.len;
    own->starts[i] = (int64_t)own->values.len;
    own->offsets[i] = message->offset;
    own->stamps[i] = api.message_timestamp(message, &kind);
    own->missing[i] = message->payload == NULL && !is_large; /* it deletes nothing */
    own->missing_count += own->missing[i];
    if (len > 0) {
        memcpy(into, message->payload, len);
        look(own, into, len);
    }
    into[len] = '\n';
    own->values.len += len + 1;
    own->bytes += size;
    if (message->key != NULL && !is_large) {
        if (message->key_len > 0) /* there may be no memory yet */
            memcpy(own->keys.data + own->keys.len, message->key, message->key_len);
        own->keys.len += message->key_len;
        own->key_ends[i] = (int64_t)own->keys.len;
        own->keys_count++;
    } else {
        own->key_ends[i] = ~(int64_t)own->keys.len;
    }
    own->with_headers[i] = NULL;
    own->count++;
    if (has_headers) {
        own->with_headers[i] = message;
        own->headers_count++;
    } else {
        api.message_destroy(message);
    }
    return 0;
}

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *config, *name, *value;
    Py_ssize_t at = 0;
    int own_tokens;
    char text[ERROR_TEXT] = "";
    if (named != NULL && PyDict_Size(named) > 0) {
        PyErr_SetString(PyExc_TypeError, "Reader takes no named arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!p", &PyDict_Type, &config, &own_tokens))
        return NULL;
    if (!api.loaded) {
        PyErr_SetString(PyExc_RuntimeError, "load comes first");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Reader *own = (Reader *)allocate(type, 0);
    if (own == NULL)
        return NULL;
    hold_nothing(own);
    own->pid = getpid();
    conf_t *conf = api.conf_new();
    while (PyDict_Next(config, &at, &name, &value)) {
        const char *name_text = PyUnicode_AsUTF8AndSize(name, NULL);
        const char *value_text = name_text == NULL ? NULL : PyUnicode_AsUTF8AndSize(value, NULL);
        if (value_text == NULL || api.conf_set(conf, name_text, value_text, text, sizeof(text)) != 0) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, text);
            api.conf_destroy(conf);
            Py_DECREF(own);
            return NULL;
        }
    }
    api.conf_set(conf, "log.queue", "true", text, sizeof(text));
    api.conf_set_opaque(conf, own);
    api.conf_set_error_cb(conf, on_error);
    api.conf_set_log_cb(conf, on_log);
    if (own_tokens)
        api.conf_set_refresh_cb(conf, on_refresh);
    own->rk = api.create(CONSUMER, conf, text, sizeof(text));
    if (own->rk == NULL) {
        PyErr_SetString(PyExc_ValueError, text);
        api.conf_destroy(conf);
        Py_DECREF(own);
        return NULL;
    }
    api.set_log_queue(own->rk, NULL);
    api.poll_set_consumer(own->rk);
    own->queue = api.queue_get_consumer(own->rk);
    return (PyObject *)own;
}

static void reader_close(Reader *own)
{
    rk_t *rk = own->rk;
    own->rk = NULL;
    /* A child of fork has the client's memory, and none of its threads: nothing of it can be ended there. */
    if (rk == NULL || own->pid != getpid())
        return;
    forget(own);
    Py_BEGIN_ALLOW_THREADS
    if (own->queue != NULL)
        api.queue_destroy(own->queue);
    api.destroy_flags(rk, DESTROY_NO_CONSUMER_CLOSE);
    Py_END_ALLOW_THREADS
    own->queue = NULL;
}

static void reader_dealloc(PyObject *self)
{
    Reader *own = (Reader *)self;
    reader_close(own);
    free(own->values.data);
    free(own->starts);
    free(own->offsets);
    free(own->stamps);
    free(own->missing);
    free(own->keys.data);
    free(own->key_ends);
    free(own->with_headers);
    free(own->large);
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *reader_assign(PyObject *self, PyObject *args)
{
    Reader *own = (Reader *)self;
    const char *topic;
    int partition, err;
    long long offset;
    Py_ssize_t most;
    if (!PyArg_ParseTuple(args, "siLn", &topic, &partition, &offset, &most) || enter(own) != 0)
        return NULL;
    forget(own);
    own->most = most < 0 ? 0 : (size_t)most;
    own->seen = 0;
    Py_BEGIN_ALLOW_THREADS
    partitions_t *list = api.partitions_new(1);
    api.partitions_add(list, topic, partition)->offset = offset;
    err = api.assign(own->rk, list);
    api.partitions_destroy(list);
    Py_END_ALLOW_THREADS
    own->busy = 0;
    return PyLong_FromLong(err);
}

static PyObject *reader_unassign(PyObject *self, PyObject *none)
{
    Reader *own = (Reader *)self;
    int err;
    (void)none;
    if (enter(own) != 0)
        return NULL;
    forget(own);
    Py_BEGIN_ALLOW_THREADS
    err = api.assign(own->rk, NULL);
    Py_END_ALLOW_THREADS
    own->busy = 0;
    return PyLong_FromLong(err);
}

static PyObject *reader_set_token(PyObject *self, PyObject *args)
{
    Reader *own = (Reader *)self;
    const char *value;
    char text[ERROR_TEXT] = "";
    long long ends_at;
    int err;
    if (!PyArg_ParseTuple(args, "sL", &value, &ends_at) || enter(own) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    err = api.set_token(own->rk, value, ends_at, "", NULL, 0, text, sizeof(text));
    Py_END_ALLOW_THREADS
    own->busy = 0;
    return PyLong_FromLong(err);
}

static PyObject *reader_position(PyObject *self, PyObject *args)
{
    Reader *own = (Reader *)self;
    const char *topic;
    int partition, err;
    int64_t offset;
    if (!PyArg_ParseTuple(args, "si", &topic, &partition) || enter(own) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    partitions_t *list = api.partitions_new(1);
    api.partitions_add(list, topic, partition);
    err = api.position(own->rk, list);
    err = err != 0 ? err : list->elements[0].err;
    offset = list->elements[0].offset;
    api.partitions_destroy(list);
    Py_END_ALLOW_THREADS
    if (err == 0 && own->chunk_at < own->chunk_count) /* the client has given what nobody looked at yet */
        offset = own->chunk[own->chunk_at]->offset;
    own->busy = 0;
    return Py_BuildValue("(iL)", err, (long long)offset);
}

static PyObject *reader_describe(PyObject *self, PyObject *args)
{
    Reader *own = (Reader *)self;
    const char *name;
    int timeout_ms, err;
    if (!PyArg_ParseTuple(args, "si", &name, &timeout_ms) || enter(own) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    const metadata_t *metadata = NULL;
    topic_t *topic = api.topic_new(own->rk, name, NULL);
    err = api.metadata(own->rk, 0, topic, &metadata, timeout_ms);
    if (metadata != NULL)
        api.metadata_destroy(metadata);
    if (topic != NULL)
        api.topic_destroy(topic);
    Py_END_ALLOW_THREADS
    own->busy = 0;
    return PyLong_FromLong(err);
}

/* Events among the records, as (code, offset, text). */
static PyObject *events_of(message_t **events, Py_ssize_t count)
{
    PyObject *found = PyList_New(0);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (found != NULL) {
            const char *text = api.message_errstr(events[i]);
            PyObject *told = PyUnicode_DecodeUTF8(text ? text : "", text ? (Py_ssize_t)strlen(text) : 0, "replace");
            PyObject *event = told == NULL ? NULL
                : Py_BuildValue("(iLN)", events[i]->err, (long long)events[i]->offset, told);
            if (event == NULL || PyList_Append(found, event) != 0)
                Py_CLEAR(found);
            Py_XDECREF(event);
        }
        api.message_destroy(events[i]);
    }
    return found;
}

PyDoc_STRVAR(consume_doc,
             "consume(records, bytes, end, timeout_ms) -> (records held, bytes held, position, events, records seen)\n\n"
             "Waits for records until that many more are held, or that many bytes, or nothing more came in time. Records at\n"
             "`end` and behind are thrown away. `position` is one past the last record seen, -1 when there was none.\n"
             "The records seen are those below `end` since the assignment.");

static PyObject *reader_consume(PyObject *self, PyObject *args)
{
    Reader *own = (Reader *)self;
    Py_ssize_t records, bytes;
    long long end, position = -1;
    int timeout_ms;
    message_t *events[CHUNK];
    Py_ssize_t events_count = 0, taken = 0;
    if (!PyArg_ParseTuple(args, "nnLi", &records, &bytes, &end, &timeout_ms) || enter(own) != 0)
        return NULL;
    if (records < 0)
        records = 0;
    if (make_room(own, own->count + records) != 0) {
        own->busy = 0;
        return PyErr_NoMemory();
    }
    int failed = 0;
    Py_BEGIN_ALLOW_THREADS
    /* An event ends the call: what it means is decided by the caller before anything further is read. */
    while (taken < records && own->bytes < (size_t)bytes && events_count == 0 && position < end && !failed) {
        int is_last = 0;
        if (own->chunk_at >= own->chunk_count) {
            size_t wanted = records - taken < CHUNK ? (size_t)(records - taken) : CHUNK;
            ssize_t got = api.consume_batch_queue(own->queue, timeout_ms, own->chunk, wanted);
            own->chunk_at = 0;
            own->chunk_count = got > 0 ? (Py_ssize_t)got : 0;
            is_last = got < (ssize_t)wanted;
        }
        /* Where so many records, or so many bytes, are held the rest waits in the chunk: there is no room for more. */
        while (own->chunk_at < own->chunk_count && taken < records && own->bytes < (size_t)bytes) {
            Py_ssize_t i = own->chunk_at++;
            message_t *message = own->chunk[i];
            if (i + AHEAD < own->chunk_count)
                __builtin_prefetch(own->chunk[i + AHEAD]);
            if (message->err != 0) {
                events[events_count++] = message;
                continue;
            }
            if (message->offset >= position)
                position = message->offset < INT64_MAX ? message->offset + 1 : INT64_MAX;
            own->seen += message->offset < end;
            if (message->offset >= end || failed || (failed = hold(own, message)) != 0) {
                api.message_destroy(message);
                continue;
            }
            taken++;
        }
        if (is_last)
            break;
    }
    Py_END_ALLOW_THREADS
    own->busy = 0;
    PyObject *found = events_of(events, events_count);
    if (found != NULL && failed)
        Py_CLEAR(found);
    if (found == NULL)
        return failed ? PyErr_NoMemory() : NULL;
    return Py_BuildValue("(nnLNL)", own->count, (Py_ssize_t)own->bytes, position, found, (long long)own->seen);
}

static PyObject *reader_notes(PyObject *self, PyObject *none)
{
    Reader *own = (Reader *)self;
    (void)none;
    PyObject *found = PyList_New(0);
    for (int i = 0; found != NULL && i < own->notes_count; i++) {
        note_t *note = &own->notes[i];
        PyObject *text = PyUnicode_DecodeUTF8(note->text, (Py_ssize_t)strlen(note->text), "replace");
        PyObject *item = text == NULL ? NULL : Py_BuildValue("(iiN)", note->level, note->code, text);
        if (item == NULL || PyList_Append(found, item) != 0)
            Py_CLEAR(found);
        Py_XDECREF(item);
    }
    own->notes_count = 0;
    return found;
}

static PyObject *int64s(const int64_t *values, Py_ssize_t count)
{
    return PyBytes_FromStringAndSize((const char *)values, count * (Py_ssize_t)sizeof(int64_t));
}

PyDoc_STRVAR(take_doc,
             "take() -> (data, starts, offsets, timestamps, missing, newlines, braced, ascii, messages, large) of the records held, which\n"
             "are held no more.\n\n"
             "`data` is their values joined by newlines: record i is data[starts[i] : starts[i + 1] - 1]. `starts`, `offsets` and\n"
             "`timestamps` are the bytes of 64-bit integers, `missing` a byte per record, 1 where there is no value (None: all\n"
             "have one), `newlines` how many there are inside of values; `braced` whether all values begin and end with a brace and\n"
             "hold neither a newline nor a NUL, `ascii` whether all are ASCII; `messages` the keys and headers when there are any\n"
             "(else None); `large` offset and size of each record that is too large, as 64-bit integers (None: there is none).\n"
             "Such a record has no key, no headers, and a value without a byte.");

/* Keys and headers of what is held, which hands them over; NULL with an exception. */
static Messages *messages_of(Reader *own)
{
    Messages *messages = (Messages *)((allocfunc)PyType_GetSlot(messages_type, Py_tp_alloc))(messages_type, 0);
    if (messages == NULL)
        return NULL;
    Py_INCREF(own);
    messages->reader = (PyObject *)own;
    messages->count = own->count;
    messages->keys = own->keys;
    messages->key_ends = own->key_ends;
    own->keys = (Bytes){NULL, 0, 0};
    own->key_ends = NULL;
    if (own->headers_count > 0) {
        messages->messages = own->with_headers;
        own->with_headers = NULL;
        own->headers_count = 0; /* they are no longer this one's to destroy */
    }
    own->room = 0; /* so that what was handed over is made anew */
    return messages;
}

static PyObject *reader_take(PyObject *self, PyObject *none)
{
    Reader *own = (Reader *)self;
    (void)none;
    if (enter(own) != 0)
        return NULL;
    Py_ssize_t count = own->count;
    if (make_room(own, count + 1) != 0) {
        own->busy = 0;
        return PyErr_NoMemory();
    }
    own->starts[count] = count > 0 ? (int64_t)own->values.len : 1;
    PyObject *data = PyBytes_FromStringAndSize(own->values.data, count > 0 ? (Py_ssize_t)own->values.len - 1 : 0);
    PyObject *starts = int64s(own->starts, count + 1), *offsets = int64s(own->offsets, count);
    PyObject *stamps = int64s(own->stamps, count);
    PyObject *missing = own->missing_count > 0 ? PyBytes_FromStringAndSize(own->missing, count) : Py_None;
    PyObject *messages = Py_None;
    PyObject *large = own->large_count > 0 ? int64s(own->large, 2 * own->large_count) : Py_None;
    Py_ssize_t newlines = own->newlines;
    int is_braced = own->braced_count == count, is_ascii = own->is_ascii;
    if (missing == Py_None)
        Py_INCREF(missing);
    if (large == Py_None)
        Py_INCREF(large);
    if (own->keys_count > 0 || own->headers_count > 0)
        messages = (PyObject *)messages_of(own);
    else
        Py_INCREF(messages);
    own->busy = 0;
    if (data == NULL || starts == NULL || offsets == NULL || stamps == NULL || missing == NULL || messages == NULL
        || large == NULL) {
        Py_XDECREF(data);
        Py_XDECREF(starts);
        Py_XDECREF(offsets);
        Py_XDECREF(stamps);
        Py_XDECREF(missing);
        Py_XDECREF(messages);
        Py_XDECREF(large);
        forget(own); /* keys may be gone already: the caller reads the slice anew */
        return NULL;
    }
    hold_nothing(own);
    return Py_BuildValue("(NNNNNnNNNN)", data, starts, offsets, stamps, missing, newlines, PyBool_FromLong(is_braced),
                         PyBool_FromLong(is_ascii), messages, large);
}

static PyMethodDef READER_METHODS[] = {
    {"assign", reader_assign, METH_VARARGS, "assign(topic, partition, offset, most) -> error code; forgets what is held. `most` bytes of a record are held."},
    {"unassign", reader_unassign, METH_NOARGS, "unassign() -> error code; forgets what is held."},
    {"position", reader_position, METH_VARARGS, "position(topic, partition) -> (error code, next offset)."},
    {"describe", reader_describe, METH_VARARGS, "describe(topic, timeout_ms) -> error code; asks for its leaders."},
    {"consume", reader_consume, METH_VARARGS, consume_doc},
    {"take", reader_take, METH_NOARGS, take_doc},
    {"set_token", reader_set_token, METH_VARARGS, "set_token(value, ends_at_ms) -> error code; for a reader with `own_tokens`."},
    {"notes", reader_notes, METH_NOARGS, "notes() -> new log lines and errors: (level or -1, error code, text)."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot READER_SLOTS[] = {
    {Py_tp_new, reader_new},
    {Py_tp_dealloc, reader_dealloc},
    {Py_tp_methods, READER_METHODS},
    {Py_tp_doc, "Reader(config, own_tokens): a consumer without a group's duties, for one thread at a time."},
    {0, NULL},
};

static PyType_Spec READER_SPEC = {
    "framework.adapters.kafka._fetch.Reader", sizeof(Reader), 0, Py_TPFLAGS_DEFAULT, READER_SLOTS,
};

static PyMethodDef FUNCTIONS[] = {
    {"load", load, METH_VARARGS, load_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "framework.adapters.kafka._fetch", "Records out of librdkafka without an object for each.", -1, FUNCTIONS,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__fetch(void)
{
    PyObject *module = PyModule_Create(&MODULE);
    if (module == NULL)
        return NULL;
    messages_type = (PyTypeObject *)PyType_FromSpec(&MESSAGES_SPEC);
    PyObject *reader = PyType_FromSpec(&READER_SPEC);
    if (messages_type == NULL || reader == NULL || PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) != 0
        || PyModule_AddObject(module, "Reader", reader) != 0) {
        Py_XDECREF(reader);
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
