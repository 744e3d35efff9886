/* upward.c - a lower layer that reaches up. It must not compile, and
 * the compiler's reason is what ctest looks for. */
#include "events/event.h"

int upward(void);
int upward(void)
{
    return EVENT_PAYMENT_CONFIRMED;
}
