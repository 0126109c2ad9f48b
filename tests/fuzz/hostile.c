/* A librdkafka whose broker is hostile: the functions that _fetch.c looks up, giving records drawn from a seed.
 *
 * Values and keys of any bytes, sizes that do not fit a missing value, offsets that go back or to the end of the numbers,
 * headers whose names are no UTF-8, errors among the records. Each message is memory of its own, of exactly its size, so that
 * the address sanitizer sees a byte that is read behind it, one that is used after it was destroyed, and one that never is. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef struct { int err; void *topic; int32_t partition; void *payload; size_t len; void *key; size_t key_len; int64_t offset; void *private; } message_t;
typedef struct { char *topic; int32_t partition; int64_t offset; void *metadata; size_t metadata_size; void *opaque; int err; void *private; } partition_t;
typedef struct { int count; int size; partition_t *elements; } partitions_t;
typedef struct { int count; char *names[4]; char *values[4]; size_t sizes[4]; } headers_t;
typedef struct { void *opaque; void (*on_error)(void *, int, const char *, void *); } client_t;

static uint64_t state = 1;
static int64_t at;
long hostile_alive; /* messages that were given and not yet destroyed */

void hostile_seed(uint64_t seed) { state = seed * 2 + 1; at = 0; }

static uint32_t draw(uint32_t below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 20) % below;
}

static char *bytes(size_t length, int with_nul)
{
    static const char marks[] = "{}[]\",:\\\n\0 1e-9nulltrue\xff\xc3\xa9\xed\xa0\x80";
    char *made = malloc(length + with_nul ? length + with_nul : 1);
    for (size_t i = 0; i < length; i++)
        made[i] = draw(3) ? marks[draw(sizeof marks - 1)] : (char)draw(256);
    for (size_t i = 0; with_nul && i < length; i++)
        made[i] = made[i] ? made[i] : 1;
    if (with_nul)
        made[length] = 0;
    if (length > 1 && draw(2))
        made[0] = '{', made[length - 1] = '}';
    return made;
}

static size_t length(void) { return draw(8) ? draw(40) : draw(20) ? 0 : draw(200000); }

int rd_kafka_version(void) { return 0x020000ff; }
const char *rd_kafka_version_str(void) { return "2.0.0-hostile"; }
void *rd_kafka_conf_new(void) { return calloc(1, sizeof(client_t)); }
void rd_kafka_conf_destroy(void *conf) { free(conf); }
int rd_kafka_conf_set(void *conf, const char *name, const char *value, char *text, size_t size)
{
    (void)conf, (void)value;
    if (strcmp(name, "wrong") != 0)
        return 0;
    snprintf(text, size, "no such setting");
    return -2;
}
void rd_kafka_conf_set_opaque(client_t *conf, void *opaque) { conf->opaque = opaque; }
void rd_kafka_conf_set_error_cb(client_t *conf, void (*call)(void *, int, const char *, void *)) { conf->on_error = call; }
void rd_kafka_conf_set_log_cb(void *conf, void *call) { (void)conf, (void)call; }
void rd_kafka_conf_set_oauthbearer_token_refresh_cb(void *conf, void *call) { (void)conf, (void)call; }
int rd_kafka_oauthbearer_set_token(void *client, const char *value, long long ends_at, const char *principal,
                                   const char **extensions, size_t count, char *text, size_t size)
{
    (void)client, (void)value, (void)ends_at, (void)principal, (void)extensions, (void)count, (void)text, (void)size;
    return 0;
}
void *rd_kafka_new(int kind, void *conf, char *text, size_t size) { (void)kind, (void)text, (void)size; return conf; }
void rd_kafka_destroy_flags(void *client, int flags) { (void)flags; free(client); }
void *rd_kafka_opaque(client_t *client) { return client->opaque; }
int rd_kafka_set_log_queue(void *client, void *queue) { (void)client, (void)queue; return 0; }
int rd_kafka_poll_set_consumer(void *client) { (void)client; return 0; }
void *rd_kafka_queue_get_consumer(void *client) { return client; }
void rd_kafka_queue_destroy(void *queue) { (void)queue; }
partitions_t *rd_kafka_topic_partition_list_new(int size)
{
    partitions_t *made = calloc(1, sizeof *made);
    made->elements = calloc(size, sizeof(partition_t));
    return made;
}
partition_t *rd_kafka_topic_partition_list_add(partitions_t *list, const char *topic, int32_t partition)
{
    (void)topic;
    list->elements[list->count].partition = partition;
    list->elements[list->count].offset = (int64_t)draw(1000) - 500;
    list->elements[list->count].err = draw(9) ? 0 : -1;
    return &list->elements[list->count++];
}
void rd_kafka_topic_partition_list_destroy(partitions_t *list) { free(list->elements); free(list); }
int rd_kafka_assign(void *client, const void *list) { (void)client, (void)list; return draw(9) ? 0 : -172; }
int rd_kafka_position(void *client, void *list) { (void)client, (void)list; return draw(9) ? 0 : -172; }

static message_t *message(void)
{
    message_t *made = calloc(1, sizeof *made);
    hostile_alive++;
    if (draw(12) != 0) {
        made->len = length();
        made->payload = bytes(made->len, 0);
    } else
        made->len = draw(3) ? 0 : (size_t)-1;
    if (draw(3) == 0) {
        made->key_len = length();
        made->key = bytes(made->key_len, 0);
    } else
        made->key_len = draw(50) ? 0 : (size_t)-1;
    at = draw(200) ? at + 1 : draw(2) ? INT64_MAX : (int64_t)draw(100) - 50;
    made->offset = at;
    at = at == INT64_MAX ? 0 : at;
    made->err = draw(60) ? 0 : (int)draw(100) - 200;
    if (draw(4) == 0) {
        headers_t *headers = made->private = calloc(1, sizeof *headers);
        headers->count = draw(5);
        for (int i = 0; i < headers->count; i++) {
            headers->names[i] = bytes(draw(12), 1);
            headers->sizes[i] = length();
            headers->values[i] = draw(5) ? bytes(headers->sizes[i], 0) : NULL;
        }
    }
    return made;
}
ssize_t rd_kafka_consume_batch_queue(client_t *queue, int timeout, message_t **given, size_t most)
{
    (void)timeout;
    ssize_t count = draw(30) ? (ssize_t)draw((uint32_t)most + 1) : -1;
    for (ssize_t i = 0; i < count; i++)
        given[i] = message();
    if (draw(20) == 0 && queue->on_error != NULL)
        queue->on_error(queue, -195, draw(2) ? "broken \xff\xfe" : NULL, queue->opaque);
    return count;
}
void rd_kafka_message_destroy(message_t *gone)
{
    headers_t *headers = gone->private;
    for (int i = 0; headers != NULL && i < headers->count; i++) {
        free(headers->names[i]);
        free(headers->values[i]);
    }
    free(headers);
    free(gone->payload);
    free(gone->key);
    free(gone);
    hostile_alive--;
}
int64_t rd_kafka_message_timestamp(const message_t *of, int *kind) { (void)of; *kind = 1; return draw(9) ? 1700000000000 : INT64_MIN; }
int rd_kafka_message_headers(const message_t *of, headers_t **headers)
{
    *headers = of->private;
    return of->private ? 0 : -156;
}
const char *rd_kafka_message_errstr(const message_t *of) { (void)of; return draw(3) ? "an error \xc3" : NULL; }
int rd_kafka_header_get_all(const headers_t *headers, size_t i, const char **name, const void **value, size_t *size)
{
    if (i >= (size_t)headers->count)
        return -156;
    *name = headers->names[i], *value = headers->values[i], *size = headers->sizes[i];
    return 0;
}
void *rd_kafka_topic_new(void *client, const char *name, void *conf) { (void)name, (void)conf; return client; }
void rd_kafka_topic_destroy(void *topic) { (void)topic; }
int rd_kafka_metadata(void *client, int all, void *topic, const void **found, int timeout)
{
    (void)client, (void)all, (void)topic, (void)timeout;
    *found = NULL;
    return -185;
}
void rd_kafka_metadata_destroy(const void *found) { (void)found; }
