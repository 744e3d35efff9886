/* id.h - UUIDs (version 7: time-ordered) and request ids. */
#ifndef ID_H
#define ID_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ID_UUID_LEN = 36, ID_REQUEST_MAX = 64 };

/* A new UUIDv7 in lower case with a NUL. Any thread; those made by one thread ascend strictly, also
 * within a millisecond and when the wall clock steps back. Random bits are the kernel's. */
void id_new(char out[ID_UUID_LEN + 1]);
/* The same for a given time, for tests and for ids that must carry it. */
void id_new_at(int64_t wall_ms, char out[ID_UUID_LEN + 1]);

/* 8-4-4-4-12 hexadecimal digits of either case and nothing else; any version. */
bool id_is_uuid(const char *text);
/* RC_REJECT: not a UUID; *out untouched. */
int id_parse(const char *text, unsigned char out[16]);
void id_format(const unsigned char bytes[16], char out[ID_UUID_LEN + 1]); /* lower case */

/* 1-64 characters of A-Z a-z 0-9 . _ - : safe in a header, a log line and a file name. */
bool id_is_request_id(const char *text);

#endif
