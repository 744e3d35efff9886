/* json_scan.h - is this text JSON that may be trusted to cJSON? Used by json.c and the fuzzer. */
#ifndef JSON_SCAN_H
#define JSON_SCAN_H
#include <stddef.h>

struct fault;

/* 0, or RC_REJECT with what is wrong and the byte's offset. Allocates nothing; linear in len. */
int json_scan(const char *text, size_t len, struct fault *f);

#endif
