/* asyncapi.h - docs/asyncapi.yaml, generated from the descriptions of events and topics. */
#ifndef ASYNCAPI_H
#define ASYNCAPI_H

struct buf;

/* Appends an AsyncAPI 2.6 document in YAML. A failure is the buf's sticky `failed`. */
void asyncapi_write(struct buf *out);

#endif
