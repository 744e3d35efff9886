/* entry_check.c - what a ticket service does before it takes a seat for somebody.
 *   QUEUE_ENTRY_TOKEN_SECRET=… entry_check EVENT USER TOKEN   →   exit code 0, or 1 and the reason
 */
#include <stdio.h>
#include <stdlib.h>
#include <urr_entry.h>

int main(int argc, char **argv)
{
    struct urr_entry *entry;
    char why[URR_ENTRY_ERROR];
    int64_t expires_s;
    if (argc != 4)
        return fprintf(stderr, "usage: entry_check EVENT USER TOKEN\n"), 2;
    if (urr_entry_open(getenv("QUEUE_ENTRY_TOKEN_SECRET"),
                       getenv("QUEUE_ENTRY_TOKEN_SECRET_PREVIOUS"), &entry, why) != 0)
        return fprintf(stderr, "%s\n", why), 2;
    int rc = urr_entry_verify(entry, argv[3], argv[1], argv[2], 0, &expires_s, why);
    if (rc == 0)
        printf("may buy until %lld\n", (long long)expires_s);
    else
        printf("403: %s\n", why);
    urr_entry_close(entry);
    return rc == 0 ? 0 : 1;
}
