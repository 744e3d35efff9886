/* json.c - reads JSON in two steps: json_scan() judges every byte, then cJSON builds the tree.
 *
 * After the scan the text is well-formed UTF-8 JSON with bounded depth and numbers that a double
 * holds, so nothing that cJSON is lenient about can reach it. Duplicate keys are looked for in the
 * tree, where escapes ("\u0061" and "a") are resolved. */
#include "runtime/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/fault.h"
#include "runtime/json_scan.h"

enum { FEW_KEYS = 12 }; /* up to here comparing all pairs is cheaper than sorting */

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int refuse_key(const char *key, struct fault *f)
{
    return fault_set(f, RC_REJECT, "JSON: the key \"%.60s\" appears twice in one object", key);
}

static int check_few(const cJSON *object, struct fault *f)
{
    const cJSON *a, *b;
    for (a = object->child; a; a = a->next)
        for (b = a->next; b; b = b->next)
            if (strcmp(a->string, b->string) == 0)
                return refuse_key(a->string, f);
    return 0;
}

/* Sorted, so that an object of thousands of keys costs no thousands squared. */
static int check_many(const cJSON *object, size_t count, struct fault *f)
{
    const char **keys = malloc(count * sizeof *keys);
    if (!keys)
        return fault_set(f, RC_RETRY, "no memory to check %zu JSON keys", count);
    size_t n = 0;
    for (const cJSON *m = object->child; m; m = m->next)
        keys[n++] = m->string;
    qsort(keys, n, sizeof *keys, compare_keys);
    int rc = 0;
    for (size_t i = 1; i < n && rc == 0; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            rc = refuse_key(keys[i], f);
    free(keys);
    return rc;
}

/* Recursion is bounded: the scan has refused more than JSON_MAX_DEPTH levels. */
static int check_keys(const cJSON *node, struct fault *f)
{
    size_t count = 0;
    for (const cJSON *m = node->child; m; m = m->next, count++) {
        int rc = m->child ? check_keys(m, f) : 0;
        if (rc != 0)
            return rc;
    }
    if (!cJSON_IsObject(node))
        return 0;
    return count <= FEW_KEYS ? check_few(node, f) : check_many(node, count, f);
}

/* The text has been scanned. */
static int build_tree(const char *text, size_t len, cJSON **out, struct fault *f)
{
    cJSON *tree = cJSON_ParseWithLength(text, len);
    if (!tree)
        return fault_set(f, RC_RETRY, "no memory for a JSON text of %zu bytes", len);
    int rc = check_keys(tree, f);
    if (rc != 0) {
        cJSON_Delete(tree);
        return rc;
    }
    *out = tree;
    return 0;
}

int json_parse(const char *text, size_t len, cJSON **out, struct fault *f)
{
    int rc = json_scan(text, len, f);
    return rc != 0 ? rc : build_tree(text, len, out, f);
}

int json_parse_loose(const char *text, size_t len, cJSON **out, struct fault *f)
{
    size_t inexact = 0;
    int rc = json_scan_loose(text, len, NULL, &inexact, f);
    if (rc != 0 || inexact == 0)
        return rc != 0 ? rc : build_tree(text, len, out, f);
    char *copy = malloc(len);
    if (!copy)
        return fault_set(f, RC_RETRY, "no memory for a JSON text of %zu bytes", len);
    memcpy(copy, text, len);
    rc = json_scan_loose(text, len, copy, &inexact, f);
    if (rc == 0)
        rc = build_tree(copy, len, out, f);
    free(copy);
    return rc;
}

const cJSON *json_get(const cJSON *object, const char *key)
{
    return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, key) : NULL;
}

const char *json_str(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(json_get(object, key));
}

bool json_int(const cJSON *object, const char *key, int64_t *out)
{
    const cJSON *item = json_get(object, key);
    if (!cJSON_IsNumber(item))
        return false;
    double value = item->valuedouble;
    if (!(fabs(value) <= (double)JSON_MAX_INT) || floor(value) != value)
        return false;
    *out = (int64_t)value;
    return true;
}

bool json_bool(const cJSON *object, const char *key, bool *out)
{
    const cJSON *item = json_get(object, key);
    if (!cJSON_IsBool(item))
        return false;
    *out = cJSON_IsTrue(item);
    return true;
}

bool json_is_null_or_absent(const cJSON *object, const char *key)
{
    const cJSON *item = json_get(object, key);
    return !item || cJSON_IsNull(item);
}
