/* fuzz_json.c - any bytes: refused, or a value that survives being printed and read again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/buf.h"
#include "runtime/fault.h"
#include "runtime/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(struct json_out *out, const cJSON *value, const char *key)
{
    const cJSON *child;
    if (cJSON_IsObject(value) || cJSON_IsArray(value)) {
        if (cJSON_IsObject(value))
            json_object(out, key);
        else
            json_array(out, key);
        cJSON_ArrayForEach(child, value) put(out, child, child->string);
        json_end(out);
    } else if (cJSON_IsString(value)) {
        json_put_str(out, key, value->valuestring);
    } else if (cJSON_IsNumber(value)) {
        json_put_real(out, key, value->valuedouble);
    } else if (cJSON_IsBool(value)) {
        json_put_bool(out, key, cJSON_IsTrue(value));
    } else {
        json_put_null(out, key);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cJSON *first = NULL, *again = NULL;
    struct fault f;
    int rc = json_parse((const char *)data, size, &first, &f);
    cJSON *loose = NULL; /* refuses no more than the strict reader does */
    if (json_parse_loose((const char *)data, size, &loose, &f) != 0 && rc == 0)
        abort();
    cJSON_Delete(loose);
    if (rc != 0) {
        if (rc != RC_REJECT || first || strlen(f.text) == 0)
            abort();
        return 0;
    }
    struct buf text;
    struct json_out out;
    buf_init(&text, 64 << 20);
    json_begin(&out, &text);
    put(&out, first, NULL);
    if (text.failed || json_parse(text.data, text.len, &again, &f) != 0 ||
        !cJSON_Compare(first, again, true))
        abort();
    cJSON_Delete(first);
    cJSON_Delete(again);
    buf_done(&text);
    return 0;
}
