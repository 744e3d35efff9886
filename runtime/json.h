/* json.h - reading JSON from strangers, on cJSON, without its traps; and writing it into a buf.
 *
 * The reader refuses what cJSON would quietly bend: duplicate keys, nesting past a limit, numbers
 * it would corrupt (integers beyond 2^53, infinities), a NUL inside a string (\u0000), bytes after
 * the value, invalid UTF-8. Keys compare case-sensitively. */
#ifndef JSON_H
#define JSON_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cjson/cJSON.h>

struct buf;
struct fault;

enum { JSON_MAX_DEPTH = 32 };
#define JSON_MAX_INT (INT64_C(1) << 53)

/* The caller frees *out with cJSON_Delete(). RC_REJECT: *f says what and roughly where. */
int json_parse(const char *text, size_t len, cJSON **out, struct fault *f);

/* The same for texts whose unknown members are to be ignored, whatever they hold: a number that
 * would lose its value is no reason to refuse the text, but json_int() says false for it. */
int json_parse_loose(const char *text, size_t len, cJSON **out, struct fault *f);

/* Members of an object. NULL / false when absent or of another type; *out untouched then. */
const char *json_str(const cJSON *object, const char *key);
bool json_int(const cJSON *object, const char *key, int64_t *out); /* whole, |x| <= 2^53 */
bool json_bool(const cJSON *object, const char *key, bool *out);
const cJSON *json_get(const cJSON *object, const char *key); /* any type, also null; or NULL */
bool json_is_null_or_absent(const cJSON *object, const char *key);

/* Writing: exact integers, escaped strings, commas by themselves.
 *   struct json_out j; json_begin(&j, buf); json_object(&j, NULL); json_put_str(&j, "type", t);
 *   json_end(&j);  →  {"type":"…"}
 * `key` is NULL inside arrays and at the top. Failure is the buf's sticky `failed`. */
struct json_out {
    struct buf *buf;
    unsigned depth;
    bool first[JSON_MAX_DEPTH];
    char close[JSON_MAX_DEPTH];
};
void json_begin(struct json_out *j, struct buf *b);
void json_object(struct json_out *j, const char *key);
void json_array(struct json_out *j, const char *key);
void json_end(struct json_out *j); /* closes the innermost object or array */
void json_put_str(struct json_out *j, const char *key, const char *value); /* NULL → null */
void json_put_strn(struct json_out *j, const char *key, const char *value, size_t len);
void json_put_int(struct json_out *j, const char *key, int64_t value);
void json_put_real(struct json_out *j, const char *key, double value); /* NaN, inf → null */
void json_put_bool(struct json_out *j, const char *key, bool value);
void json_put_null(struct json_out *j, const char *key);
void json_put_raw(struct json_out *j, const char *key, const char *json, size_t len);

#endif
