/* http_path.h - a request target's path, decoded once and refused when it could be read in two
 * ways. */
#ifndef HTTP_PATH_H
#define HTTP_PATH_H
#include <stddef.h>

/* The value of %xx at p (which needs 3 readable bytes), or -1. */
int http_path_escape(const char *p);

/* Decodes path[0..len) in place, ends it with a NUL (path[len] must be writable) and returns the
 * new length. 0 is returned, with the content undefined, for what two readers could understand
 * differently: no leading '/', an empty or dot segment inside ("//", "/./", "/.."), an encoded '/',
 * '\', ';', '#', a control byte, a broken escape, an escape that decodes to another escape, bytes
 * that are not UTF-8. */
size_t http_path_decode(char *path, size_t len);

#endif
