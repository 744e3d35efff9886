/* pages.h - the waiting room's pages (web/), served from the program itself.
 *
 * A page is the same for everybody and says nothing about anybody: it may be cached and asks the
 * API under the visitor's own identity. Its address is revalidated each time; what it loads has the
 * release in its path and is kept for good. */
#ifndef PAGES_H
#define PAGES_H
#include "runtime/http_server.h"

/* /vwr/{eventId}, /queue/{eventId}, /admin/queue, /vwr/static/{version}/{file}. */
extern const struct http_route PAGE_ROUTES[];

#endif
