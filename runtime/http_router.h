/* http_router.h - from a decoded path and a method to a handler. Private to the HTTP server. */
#ifndef HTTP_ROUTER_H
#define HTTP_ROUTER_H
#include <stddef.h>

#include "runtime/http_server.h"

struct metric;

enum { HTTP_METHODS = 5, HTTP_MAX_PARAMS = 8, HTTP_MAX_SEGMENTS = 32, HTTP_STATUS_CLASSES = 5 };

/* A route, as compiled. */
struct http_slot {
    const struct http_route *route; /* NULL: the path has no such method */
    char *names;                    /* the parameters' names, each ended by a NUL */
    size_t name_count;
    struct metric *requests[HTTP_STATUS_CLASSES]; /* filled by http_metrics.c on first use */
    struct metric *seconds;
};

/* All methods of one path. */
struct http_endpoint {
    struct http_slot slots[HTTP_METHODS];
    char allow[64]; /* "GET, HEAD, OPTIONS" */
};

struct http_match {
    struct http_endpoint *endpoint;
    size_t count;
    bool rest;                     /* the last value is the remaining path */
    char *values[HTTP_MAX_PARAMS]; /* in the order of the pattern */
};

const char *http_router_method(enum http_method method); /* its name */

struct http_router; /* opaque, immutable once made apart from the slots' metrics */

/* RC_FATAL: *f names the route that is malformed or given twice. Borrows the tables. */
int http_router_new(const struct http_route *const *tables, struct http_router **out,
                    struct fault *f);
void http_router_free(struct http_router *r); /* accepts NULL */

/* `path` is decoded and starts with '/'. A literal segment wins over a parameter, that over a rest.
 * When one matches, slashes in `path` around parameters become NULs, so that the values are C
 * strings. False: no such path. */
bool http_router_find(struct http_router *r, char *path, struct http_match *out);

#endif
