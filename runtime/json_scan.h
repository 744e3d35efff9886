/* json_scan.h - is this text JSON that may be trusted to cJSON? Used by json.c and the fuzzer. */
#ifndef JSON_SCAN_H
#define JSON_SCAN_H
#include <stddef.h>

struct fault;

/* 0, or RC_REJECT with what is wrong and the byte's offset. Allocates nothing; linear in len. */
int json_scan(const char *text, size_t len, struct fault *f);

/* The same, but numbers that would lose their value pass: *out_inexact counts them, and in `patch`
 * (a writable copy of the text, or NULL) each becomes one that no reader of whole numbers takes. */
int json_scan_loose(const char *text, size_t len, char *patch, size_t *out_inexact,
                    struct fault *f);

#endif
