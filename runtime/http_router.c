/* http_router.c - a tree of path segments: literal children, one parameter child, one rest. */
#include "runtime/http_router.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/fault.h"

struct node {
    const char *text; /* of the segment, borrowed from the route's pattern; NULL: a parameter */
    size_t len;
    struct node *next;  /* sibling */
    struct node *child; /* first literal child */
    struct node *param;
    struct http_endpoint *here; /* the path ends at this segment */
    struct http_endpoint *rest; /* "{name...}" follows it */
};

struct http_router {
    struct node root;
};

static const char *const METHOD_NAMES[HTTP_METHODS] = {"GET", "POST", "PUT", "PATCH", "DELETE"};

static size_t segment_len(const char *s)
{
    return strcspn(s, "/");
}

static struct node *child_of(struct node *parent, const char *text, size_t len)
{
    struct node **slot = &parent->child;
    if (text[0] == '{') {
        slot = &parent->param;
        text = NULL;
    }
    for (; *slot; slot = &(*slot)->next)
        if (!text || ((*slot)->len == len && memcmp((*slot)->text, text, len) == 0))
            return *slot;
    *slot = calloc(1, sizeof **slot);
    if (*slot) {
        (*slot)->text = text;
        (*slot)->len = len;
    }
    return *slot;
}

/* Appends a parameter's name ("{name}" or "{name...}") to the slot's list. */
static bool add_name(struct http_slot *slot, size_t *used, const char *text, size_t len)
{
    size_t name_len = len - 2;
    if (name_len > 3 && strncmp(text + len - 4, "...", 3) == 0)
        name_len -= 3;
    if (slot->name_count == HTTP_MAX_PARAMS || name_len == 0)
        return false;
    memcpy(slot->names + *used, text + 1, name_len);
    slot->names[*used + name_len] = '\0';
    *used += name_len + 1;
    slot->name_count++;
    return true;
}

static bool segment_ok(const char *text, size_t len, bool last)
{
    bool open = memchr(text, '{', len) != NULL, shut = memchr(text, '}', len) != NULL;
    if (!open && !shut)
        return len > 0 || last;
    return len > 2 && text[0] == '{' && text[len - 1] == '}';
}

/* Walks the pattern, making nodes; returns where its endpoint hangs, or NULL when malformed. */
static struct http_endpoint **place_of(struct http_router *r, const char *pattern,
                                       struct http_slot *slot)
{
    struct node *node = &r->root;
    size_t used = 0, segments = 0;
    for (const char *s = pattern; *s == '/';) {
        s++;
        size_t len = segment_len(s);
        bool last = s[len] == '\0';
        if (!segment_ok(s, len, last) || ++segments > HTTP_MAX_SEGMENTS)
            return NULL;
        if (s[0] == '{' && !add_name(slot, &used, s, len))
            return NULL;
        if (len > 5 && s[0] == '{' && strncmp(s + len - 4, "...", 3) == 0)
            return last ? &node->rest : NULL;
        node = child_of(node, s, len);
        if (!node)
            return NULL;
        s += len;
    }
    return node == &r->root ? NULL : &node->here;
}

static void write_allow(struct http_endpoint *e)
{
    size_t used = 0;
    for (int m = 0; m < HTTP_METHODS; m++)
        if (e->slots[m].route)
            used += (size_t)snprintf(e->allow + used, sizeof e->allow - used, "%s, ",
                                     m == HTTP_GET ? "GET, HEAD" : METHOD_NAMES[m]);
    (void)snprintf(e->allow + used, sizeof e->allow - used, "OPTIONS");
}

static int add_route(struct http_router *r, const struct http_route *route, struct fault *f)
{
    struct http_slot slot = {.route = route};
    struct http_endpoint **place = NULL;
    slot.names = malloc(strlen(route->path) + 1);
    if (slot.names && route->handle && (unsigned)route->method < HTTP_METHODS)
        place = place_of(r, route->path, &slot);
    if (place && !*place)
        *place = calloc(1, sizeof **place);
    if (!place || !*place) {
        free(slot.names);
        return fault_set(f, RC_FATAL, "route %s is malformed", route->path);
    }
    struct http_slot *at = &(*place)->slots[route->method];
    if (at->route) {
        free(slot.names);
        return fault_set(f, RC_FATAL, "route %s %s is given twice", METHOD_NAMES[route->method],
                         route->path);
    }
    *at = slot;
    write_allow(*place);
    return 0;
}

static void free_endpoint(struct http_endpoint *e)
{
    for (int m = 0; e && m < HTTP_METHODS; m++)
        free(e->slots[m].names);
    free(e);
}

/* Depth is bounded by HTTP_MAX_SEGMENTS. */
static void free_below(struct node *node)
{
    free_endpoint(node->here);
    free_endpoint(node->rest);
    for (struct node *child = node->child; child;) {
        struct node *next = child->next;
        free_below(child);
        free(child);
        child = next;
    }
    if (node->param) {
        free_below(node->param);
        free(node->param);
    }
}

const char *http_router_method(enum http_method method)
{
    return METHOD_NAMES[method];
}

int http_router_new(const struct http_route *const *tables, struct http_router **out,
                    struct fault *f)
{
    struct http_router *r = calloc(1, sizeof *r);
    if (!r)
        return fault_set(f, RC_FATAL, "no memory for the routes");
    for (; tables && *tables; tables++)
        for (const struct http_route *route = *tables; route->path; route++)
            if (add_route(r, route, f) != 0) {
                http_router_free(r);
                return RC_FATAL;
            }
    *out = r;
    return 0;
}

void http_router_free(struct http_router *r)
{
    if (!r)
        return;
    free_below(&r->root);
    free(r);
}

/* `s` is at the '/' before the next segment, or at the end. Values are remembered on the way down.
 */
static bool find(struct node *node, char *s, unsigned depth, struct http_match *out)
{
    if (*s == '\0') {
        out->endpoint = node->here;
        return node->here != NULL;
    }
    char *text = s + 1;
    size_t len = segment_len(text);
    if (depth >= HTTP_MAX_SEGMENTS)
        return false;
    for (struct node *child = node->child; child; child = child->next)
        if (child->len == len && memcmp(child->text, text, len) == 0) {
            if (find(child, text + len, depth + 1, out))
                return true;
            break;
        }
    size_t count = out->count;
    if (len > 0 && count < HTTP_MAX_PARAMS) {
        out->values[out->count++] = text;
        if (node->param && find(node->param, text + len, depth + 1, out))
            return true;
        out->count = count + 1;
        if (node->rest) {
            out->endpoint = node->rest;
            out->rest = true;
            return true;
        }
        out->count = count;
    }
    return false;
}

bool http_router_find(struct http_router *r, char *path, struct http_match *out)
{
    *out = (struct http_match){0};
    if (!find(&r->root, path, 0, out))
        return false;
    /* A rest runs to the end of the path; every other value to the next slash. */
    size_t cut = out->rest ? out->count - 1 : out->count;
    for (size_t i = 0; i < cut; i++)
        out->values[i][segment_len(out->values[i])] = '\0';
    return true;
}
