/* asyncapi_main.c - urr-asyncapi: prints docs/asyncapi.yaml. */
#include <stdio.h>

#include "events/asyncapi.h"
#include "runtime/buf.h"

int main(void)
{
    struct buf out;
    buf_init(&out, 1 << 20);
    asyncapi_write(&out);
    int bad = out.failed || fwrite(buf_text(&out), 1, out.len, stdout) != out.len || fflush(stdout);
    buf_done(&out);
    return bad ? 1 : 0;
}
